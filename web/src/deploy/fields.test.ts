import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { type Field, fieldOf, fields, requestOf, readLabels, valueInUse, valuesFor, wholeNumber } from './fields';

test('a request has what was typed, and nothing else', () => {
  const values = { model: ' /m/x.gguf ', context: '8192', kv_unified: 'off', pinned: 'on', name: '', batch: ' ' };
  expect(requestOf(values, 'llama.cpp')).toEqual({
    request: { model: '/m/x.gguf', context: 8192, kv_unified: false, pinned: true },
    problems: {},
  });
});

test('what was typed for the other engine is not sent', () => {
  const values = { model: 'm', sleep_mode: 'on', cache_type_k: 'q8_0', sequences: '2' };
  expect(requestOf(values, 'llama.cpp').request).toEqual({ model: 'm', cache_type_k: 'q8_0', sequences: 2 });
  expect(requestOf(values, 'vllm').request).toEqual({ model: 'm', sleep_mode: true, sequences: 2 });
  expect(requestOf(values, null).request).toEqual({ model: 'm', sequences: 2 });
});

test('what is no number is told at its field and not sent', () => {
  const asked = requestOf({ model: 'm', context: 'much', labels: 'nothing' }, 'vllm');
  expect(Object.keys(asked.problems)).toEqual(['context', 'labels']);
  expect(asked.request).toEqual({ model: 'm' });
});

test('numbers are written as people write them', () => {
  expect(wholeNumber('131,072')).toBe(131072);
  expect(wholeNumber('128k')).toBe(131072);
  expect(wholeNumber('-5')).toBe(-5);
  for (const text of ['', '1.5', '0x10', '1e9', '9'.repeat(20)]) expect(wholeNumber(text)).toBeNull();
});

test('labels are lines of NAME=VALUE; the value may have any text', () => {
  expect(readLabels('team=a\n\n q = x=y ')).toEqual({ team: 'a', q: 'x=y' });
  expect(readLabels('=a')).toBeNull();
});

test('an error is shown at the field, whichever name the engine has for it', () => {
  expect(fieldOf('max_model_len')).toBe('context');
  expect(fieldOf('parallel')).toBe('sequences');
  expect(fieldOf('kv_unified')).toBe('kv_unified');
  expect(fieldOf('/models/x.gguf')).toBeNull();
});

test('a choice changes only what it differs in', () => {
  const from = { engine: 'llama.cpp', ctx_size: 8192, parallel: 4, kv_unified: true, cache_type_k: 'f16', batch: null };
  expect(valuesFor(from, { ...from, cache_type_k: 'q8_0' })).toEqual({ cache_type_k: 'q8_0' });
  expect(valuesFor(from, { ...from, ctx_size: 4096 })).toEqual({ context: '4096' });
});

test('a number of sequences says whether they share a cache, as the estimate was made so', () => {
  const from = { parallel: 4, kv_unified: true };
  expect(valuesFor(from, { parallel: 9, kv_unified: true })).toEqual({ sequences: '9', kv_unified: 'on' });
});

test('an empty field tells what the engine takes', () => {
  const field = (name: string) => fields.filter((one) => one.name === name)[0] as Field;
  expect(valueInUse(field('context'), { ctx_size: null, max_model_len: 40960 })).toBe('40960');
  expect(valueInUse(field('kv_unified'), { kv_unified: false })).toBe('off');
  expect(valueInUse(field('port'), { ctx_size: 1 })).toBe('');
});

test('every field has a name of its own', () => {
  expect(new Set(fields.map((field) => field.name)).size).toBe(fields.length);
});

test('the form has everything that a deploy request has', () => {
  const openapi = JSON.parse(readFileSync(new URL('../../../docs/openapi.json', import.meta.url), 'utf8')) as {
    components: { schemas: { DeployRequest: { properties: Record<string, object> } } };
  };
  const names = Object.keys(openapi.components.schemas.DeployRequest.properties);
  expect(names.filter((name) => fieldOf(name) === null)).toEqual([]);
  expect(fields.map((field) => field.name).filter((name) => !names.includes(name))).toEqual([]);
});
