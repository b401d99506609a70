import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { backoff_ms, Live, silence_limit_ms, type Connection } from './live';
import type { SseMessage } from './sse';

interface Attempt {
  headers: Record<string, string>;
  send(text: string): void;
  end(): void;
}

let attempts: Attempt[];
let answer: () => 'stream' | 'refused' | 401;
let connections: Connection['kind'][];
let messages: SseMessage[];
let live: Live;

const settled = () => vi.advanceTimersByTimeAsync(0);

beforeEach(() => {
  vi.useFakeTimers();
  attempts = [];
  connections = [];
  messages = [];
  answer = () => 'stream';
  vi.stubGlobal('fetch', (_url: string, init: RequestInit) => {
    const kind = answer();
    if (kind === 'refused') return Promise.reject(new TypeError('fetch failed'));
    if (kind === 401) {
      const problem = JSON.stringify({ code: 'unauthorized', detail: 'a token is needed' });
      return Promise.resolve(
        new Response(problem, { status: 401, headers: { 'Content-Type': 'application/problem+json' } }),
      );
    }
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        init.signal?.addEventListener('abort', () => controller.error(new DOMException('aborted', 'AbortError')));
        attempts.push({
          headers: init.headers as Record<string, string>,
          send: (text) => controller.enqueue(new TextEncoder().encode(text)),
          end: () => controller.close(),
        });
      },
    });
    return Promise.resolve(new Response(body));
  });
  live = new Live({
    onMessage: (message) => messages.push(message),
    onConnection: (connection) => connections.push(connection.kind),
  });
});

afterEach(() => {
  live.close();
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

test('messages are handed on as they come', async () => {
  live.connect();
  await settled();
  attempts[0]?.send('event: budget\ndata: {}\n\n');
  await settled();
  expect(connections).toEqual(['connecting', 'live']);
  expect(messages).toEqual([{ id: '', type: 'budget', data: '{}' }]);
});

test('a lost connection is resumed after the last event that has an id', async () => {
  live.connect();
  await settled();
  attempts[0]?.send('id: 41\nevent: deployment.state\ndata: {}\n\nevent: budget\ndata: {}\n\n');
  await settled();
  attempts[0]?.end();
  await settled();
  expect(connections.at(-1)).toBe('reconnecting');
  await vi.advanceTimersByTimeAsync(backoff_ms(1));
  expect(connections.at(-1)).toBe('live');
  expect(attempts[0]?.headers).not.toHaveProperty('Last-Event-ID');
  expect(attempts[1]?.headers).toMatchObject({ 'Last-Event-ID': '41' });
});

test('the time since the connection was lost is that of the first failure', async () => {
  const since: number[] = [];
  live = new Live({
    onMessage: () => undefined,
    onConnection: (connection) => connection.kind === 'reconnecting' && since.push(connection.since_ms),
  });
  answer = () => 'refused';
  live.connect();
  await vi.advanceTimersByTimeAsync(backoff_ms(1) + backoff_ms(2));
  expect(since.length).toBe(3);
  expect(new Set(since).size).toBe(1);
});

test('a wanted token is told, and nothing is tried until there is another', async () => {
  answer = () => 401;
  live.connect();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(connections).toEqual(['connecting', 'token']);
  answer = () => 'stream';
  live.reconnect();
  await settled();
  expect(connections.at(-1)).toBe('live');
});

test('a connection that has gone silent is dead', async () => {
  live.connect();
  await settled();
  await vi.advanceTimersByTimeAsync(silence_limit_ms);
  expect(connections.at(-1)).toBe('reconnecting');
});

test('one that is closed on purpose stays closed', async () => {
  live.connect();
  await settled();
  live.close();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(connections).toEqual(['connecting', 'live']);
  expect(attempts.length).toBe(1);
});
