import { expect, test } from 'vitest';
import type { Config, Deployment } from '../api/types';
import { canSleep, contextOf, inOrder, portOf, settingsOf } from './deployment';

const llama = { engine: 'llama.cpp', ctx_size: 8192, parallel: 2, max_model_len: null, kv_unified: false } as Config;
const vllm = { engine: 'vllm', ctx_size: null, max_model_len: 4096, sleep_mode: true } as Config;

test('the context is that of either engine', () => {
  expect(contextOf(llama)).toBe(8192);
  expect(contextOf(vllm)).toBe(4096);
});

test('only a vLLM that was deployed for it, and serves, can sleep', () => {
  expect(canSleep({ state: 'ready', config: vllm })).toBe(true);
  expect(canSleep({ state: 'loading', config: vllm })).toBe(false);
  expect(canSleep({ state: 'ready', config: { ...vllm, sleep_mode: false } })).toBe(false);
  expect(canSleep({ state: 'ready', config: llama })).toBe(false);
});

test('the port is that of the address, and none where there is no address', () => {
  expect(portOf({ url: 'http://127.0.0.1:41761/v1' })).toBe('41761');
  expect(portOf({ url: '' })).toBeNull();
});

test('those that run stand first, and of those that have ended the newest', () => {
  const of = (id: number, state: Deployment['state']) => ({ id, state });
  const order = inOrder([of(1, 'stopped'), of(2, 'ready'), of(3, 'failed'), of(4, 'sleeping')]);
  expect(order.map((one) => one.id)).toEqual([2, 4, 3, 1]);
});

test('a setting that is off is told, one that is of the other engine is not', () => {
  expect(settingsOf(llama)).toEqual([
    { name: 'ctx size', value: '8192' },
    { name: 'parallel', value: '2' },
    { name: 'kv unified', value: 'false' },
  ]);
});
