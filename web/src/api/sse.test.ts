import { expect, test } from 'vitest';
import { SseParser } from './sse';

const text = ': dgxmm\n\nid: 7\nevent: deployment.state\ndata: {"id":7}\n\nevent: budget\ndata: {\ndata: }\n\n';
const messages = [
  { id: '7', type: 'deployment.state', data: '{"id":7}' },
  { id: '', type: 'budget', data: '{\n}' },
];

test('messages are the same however the text is cut', () => {
  for (let size = 1; size <= text.length; size += 1) {
    const parser = new SseParser();
    const got = [];
    for (let at = 0; at < text.length; at += size) got.push(...parser.feed(text.slice(at, at + size)));
    expect(got).toEqual(messages);
  }
});

test('lines may end with carriage returns', () => {
  expect(new SseParser().feed(text.replaceAll('\n', '\r\n'))).toEqual(messages);
});

test('an unfinished message is not given out', () => {
  expect(new SseParser().feed('event: budget\ndata: {}\n')).toEqual([]);
});

test('a comment is no message', () => {
  expect(new SseParser().feed(': still here\n\n')).toEqual([]);
});
