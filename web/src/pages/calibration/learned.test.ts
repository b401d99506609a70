import { describe, expect, it } from 'vitest';
import type { CalibrationRecord } from '../../api/types';
import {
  comparisons,
  configurationSummary,
  countText,
  factorOf,
  formatFactor,
  modelName,
  ofModel,
  scaleEnd,
} from './learned';

const gib = 1024 ** 3;

function record(change: Partial<CalibrationRecord> = {}): CalibrationRecord {
  return {
    id: 'a',
    model: 'smol',
    fingerprint: '0123456789abcdef',
    configuration: 'llamacpp ctx_size=4096',
    measured_bytes: 2 * gib,
    formula_bytes: 4 * gib,
    recorded_at: '2026-11-30T20:00:00Z',
    ...change,
  };
}

describe('comparisons', () => {
  it('groups by model and configuration, models by name', () => {
    const models = comparisons([
      record({ fingerprint: 'z', model: 'zeta' }),
      record(),
      record({ configuration: 'llamacpp ctx_size=8192' }),
      record(),
    ]);
    expect(models.map((one) => one.name)).toEqual(['smol', 'zeta']);
    expect(models[0]?.configurations.map((one) => one.records.length)).toEqual([2, 1]);
  });

  it('C3: takes the largest of the last five, times 1.05', () => {
    const sizes = [99, 1, 2, 8, 3, 4];
    const [model] = comparisons(sizes.map((size) => record({ measured_bytes: size * gib })));
    const [one] = model?.configurations ?? [];
    expect(one?.measured_bytes).toBe(8 * gib);
    expect(one?.records).toHaveLength(5);
    expect(one?.next_bytes).toBe(Math.ceil(8 * gib * 1.05));
  });

  it('C6: never goes below the formula', () => {
    const [model] = comparisons([record({ measured_bytes: gib, formula_bytes: 4 * gib })]);
    expect(model?.configurations[0]?.next_bytes).toBe(4 * gib);
    expect(model?.configurations[0]?.factor).toBe(0.25);
  });

  it('does not divide by a formula of nothing', () => {
    expect(factorOf({ measured_bytes: gib, formula_bytes: 0 })).toBeNull();
  });
});

describe('scaleEnd', () => {
  it('has the bound of 1.5 on it, and what is beyond', () => {
    expect(scaleEnd([])).toBe(1.5);
    expect(scaleEnd(comparisons([record()]))).toBe(1.5);
    expect(scaleEnd(comparisons([record({ measured_bytes: 7 * gib })]))).toBe(2);
  });
});

describe('words', () => {
  it('names a model by its weights when no deployment does', () => {
    expect(modelName(record())).toBe('smol');
    expect(modelName(record({ model: '' }))).toBe('weights 0123456789ab');
  });

  it('tells configurations apart at a glance', () => {
    expect(configurationSummary('llamacpp ctx_size=8192 parallel=2 cache_type_k=f16 cache_type_v=f16 batch=2048')).toBe(
      'llama.cpp, 8,192 tokens × 2, KV f16',
    );
    expect(configurationSummary('llamacpp ctx_size=4096 parallel=1 cache_type_k=q8_0 cache_type_v=q4_0')).toBe(
      'llama.cpp, 4,096 tokens × 1, KV q8_0/q4_0',
    );
    expect(configurationSummary('vllm max_model_len=512 max_num_seqs=4 kv_tokens=default kv_cache_dtype=fp8')).toBe(
      'vLLM, 512 tokens × 4, KV fp8',
    );
    expect(configurationSummary('another')).toBe('another');
  });

  it('writes factors with two decimals', () => {
    expect(formatFactor(0.1604)).toBe('×0.16');
  });
});

describe('ofModel', () => {
  it('says how much would be forgotten', () => {
    const floor = {
      id: 'f',
      model: 'smol',
      fingerprint: 'x',
      configuration: 'k',
      killed_bytes: gib,
      kills: 1,
      evidence: '',
      recorded_at: '',
    };
    const all = { records: [record(), record({ fingerprint: 'x' })], oom_floors: [floor], durations: [], asleep: [] };
    expect(countText(ofModel(all, 'x'))).toBe('1 measurement, 1 size that ran out of memory');
    expect(countText(ofModel(all, '0123456789abcdef'))).toBe('1 measurement');
    expect(countText(ofModel(all, 'none'))).toBe('');
  });
});
