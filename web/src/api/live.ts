import { open } from './client';
import { asApiError } from './problem';
import { SseParser, type SseMessage } from './sse';

/** How the page stands with the daemon. */
export type Connection =
  | { kind: 'connecting' }
  | { kind: 'live' }
  | { kind: 'reconnecting'; since_ms: number; reason: string }
  | { kind: 'token' };

/** Milliseconds before the given attempt (1 is the first) after a lost connection. */
export function backoff_ms(attempt: number): number {
  return Math.min(250 * 2 ** (attempt - 1), 4000);
}

/** The daemon says something at least every 15 s; after this long the connection is dead, whatever TCP thinks. */
export const silence_limit_ms = 40_000;

export interface LiveOptions {
  onMessage(message: SseMessage): void;
  /** Called with 'live' at each connection: what was read before may be old, so read it anew. */
  onConnection(connection: Connection): void;
  now_ms?: () => number;
}

/**
 * The daemon's events, over fetch because EventSource cannot send a token. Resumes after the last event that has an id,
 * and connects again by itself until it is closed.
 */
export class Live {
  private last_id = '';
  private attempt = 0;
  private lost_since_ms: number | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private stream: AbortController | null = null;

  constructor(private readonly options: LiveOptions) {}

  /** Connects; does nothing when a connection is there or being made. */
  connect(): void {
    if (this.stream) return;
    clearTimeout(this.timer);
    if (this.lost_since_ms === null) this.options.onConnection({ kind: 'connecting' });
    this.stream = new AbortController();
    void this.run(this.stream);
  }

  /** Ends the connection and waits for `connect`. */
  close(): void {
    clearTimeout(this.timer);
    this.stream?.abort();
    this.stream = null;
    this.attempt = 0;
  }

  /** A new connection at once: after a new token, or when the network is back. */
  reconnect(): void {
    this.close();
    this.connect();
  }

  private async run(stream: AbortController): Promise<void> {
    let reason = 'the connection was closed';
    try {
      const headers: Record<string, string> = this.last_id === '' ? {} : { 'Last-Event-ID': this.last_id };
      const response = await open('GET', '/api/v1/events', { headers, signal: stream.signal });
      if (stream.signal.aborted) return;
      this.attempt = 0;
      this.lost_since_ms = null;
      this.options.onConnection({ kind: 'live' });
      await this.read(response, stream);
    } catch (thrown) {
      if (this.stream !== stream) return; // closed on purpose
      const error = asApiError(thrown);
      if (error?.status === 401) {
        this.stream = null;
        this.options.onConnection({ kind: 'token' });
        return;
      }
      if (error) reason = error.message;
    }
    if (this.stream !== stream) return;
    stream.abort();
    this.stream = null;
    this.retryLater(reason);
  }

  private async read(response: Response, stream: AbortController): Promise<void> {
    if (!response.body) return;
    const reader = response.body.getReader();
    const decoder = new TextDecoder();
    const parser = new SseParser();
    for (;;) {
      const silence = setTimeout(() => stream.abort(), silence_limit_ms);
      const { done, value } = await reader.read().finally(() => clearTimeout(silence));
      if (done || this.stream !== stream) return;
      for (const message of parser.feed(decoder.decode(value, { stream: true }))) {
        if (message.id !== '') this.last_id = message.id;
        this.options.onMessage(message);
      }
    }
  }

  private retryLater(reason: string): void {
    this.lost_since_ms ??= (this.options.now_ms ?? Date.now)();
    this.options.onConnection({ kind: 'reconnecting', since_ms: this.lost_since_ms, reason });
    this.attempt += 1;
    this.timer = setTimeout(() => this.connect(), backoff_ms(this.attempt));
  }
}
