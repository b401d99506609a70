import { expect, it } from 'vitest';
import { matches } from './search';

it('finds every word anywhere, whatever its case', () => {
  expect(matches('', ['x'])).toBe(true);
  expect(matches('LLAMA 8080', ['/usr/bin/llama-server', '--port 8080'])).toBe(true);
  expect(matches('llama 9090', ['/usr/bin/llama-server', '--port 8080'])).toBe(false);
  expect(matches(' vllm ', ['VLLM serve'])).toBe(true);
});
