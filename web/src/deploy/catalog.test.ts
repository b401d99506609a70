import { expect, test } from 'vitest';
import type { CatalogModel } from '../api/types';
import { findModel, groupModels, searchModels } from './catalog';

function model(path: string, more: Partial<CatalogModel> = {}): CatalogModel {
  return {
    name: path.split('/').pop() ?? path,
    path,
    format: 'gguf',
    architecture: 'llama',
    quantization: 'Q4_K_M',
    base_model: '',
    file_bytes: 1,
    training_context: 4096,
    problem: '',
    group: '',
    engine: 'llama.cpp',
    repository: '',
    revision: '',
    ...more,
  };
}

const models = [
  model('/m/zephyr.gguf'),
  model('/m/qwen-q4.gguf', { group: 'qwen3-8b', file_bytes: 4 }),
  model('/m/qwen-q8.gguf', { group: 'qwen3-8b', quantization: 'Q8_0', file_bytes: 8 }),
  model('/m/qwen', { group: 'qwen3-8b', quantization: 'bf16', engine: 'vllm', file_bytes: null }),
  model('/m/alone.gguf'),
];

test('quantizations of one model stand together, the largest first', () => {
  const groups = groupModels(models);
  expect(groups.map((group) => group.name)).toEqual(['alone.gguf', 'qwen3-8b', 'zephyr.gguf']);
  expect(groups[1]?.models.map((one) => one.path)).toEqual(['/m/qwen-q8.gguf', '/m/qwen-q4.gguf', '/m/qwen']);
});

test('models of an unknown base model are never put together', () => {
  expect(groupModels([model('/a/x.gguf'), model('/b/x.gguf')])).toHaveLength(2);
});

test('a search wants every word, in any case and order', () => {
  expect(searchModels(models, 'Q8_0 QWEN').map((one) => one.path)).toEqual(['/m/qwen-q8.gguf']);
  expect(searchModels(models, '  ')).toHaveLength(models.length);
  expect(searchModels(models, 'qwen zephyr')).toEqual([]);
});

test('a name that two models have names none', () => {
  const twins = [model('/a/x.gguf'), model('/b/x.gguf'), model('/c/y.gguf')];
  expect(findModel(twins, 'x.gguf')).toBeNull();
  expect(findModel(twins, '/b/x.gguf')?.path).toBe('/b/x.gguf');
  expect(findModel(twins, 'y.gguf')?.path).toBe('/c/y.gguf');
});

test('models that cannot be used stand last', () => {
  const groups = groupModels([model('/a/broken.gguf', { problem: 'not a GGUF file' }), ...models]);
  expect(groups.map((group) => group.name)).toEqual(['alone.gguf', 'qwen3-8b', 'zephyr.gguf', 'broken.gguf']);
});
