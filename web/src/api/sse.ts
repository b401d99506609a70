/** One server-sent event. */
export interface SseMessage {
  /** Empty for one that cannot be resumed after. */
  id: string;
  type: string;
  data: string;
}

/** Text of a text/event-stream in pieces of any size → its messages. */
export class SseParser {
  private rest = '';
  private id = '';
  private type = '';
  private data: string[] = [];

  feed(text: string): SseMessage[] {
    const messages: SseMessage[] = [];
    const lines = (this.rest + text).split(/\r\n|\n|\r(?!$)/);
    this.rest = lines.pop() ?? '';
    for (const line of lines) {
      if (line === '') {
        if (this.data.length > 0)
          messages.push({ id: this.id, type: this.type || 'message', data: this.data.join('\n') });
        this.id = this.type = '';
        this.data = [];
        continue;
      }
      const colon = line.indexOf(':');
      if (colon === 0) continue; // a comment: a sign of life
      const field = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
      if (field === 'data') this.data.push(value);
      else if (field === 'event') this.type = value;
      else if (field === 'id') this.id = value;
    }
    return messages;
  }
}
