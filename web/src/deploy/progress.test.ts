import { expect, test } from 'vitest';
import type { Budget, Duration } from '../api/types';
import { lastLoad_s, loadedBytes } from './progress';

const duration = (model: string, action: Duration['action'], took_s: number, recorded_at: string): Duration => ({
  id: '',
  model,
  fingerprint: '',
  action,
  level: null,
  took_s,
  recorded_at,
});

test('the expected time is that of the newest load of the same model', () => {
  const durations = [
    duration('a', 'load', 9, '2026-11-30T10:00:00Z'),
    duration('a', 'load', 4, '2026-11-30T12:00:00Z'),
    duration('a', 'stop', 1, '2026-11-30T13:00:00Z'),
    duration('b', 'load', 2, '2026-11-30T14:00:00Z'),
  ];
  expect(lastLoad_s({ model_name: 'a' }, durations)).toBe(4);
  expect(lastLoad_s({ model_name: 'c' }, durations)).toBeNull();
});

test('what a loading model holds is unknown until it is measured, and never above what is expected', () => {
  const one = { id: 1, footprint_bytes: null, reserved_bytes: 100 };
  const budget = (total_bytes: number | null, complete = true) =>
    ({
      deployments: [{ id: 1, measured: total_bytes === null ? null : { total_bytes, complete } }],
    }) as unknown as Budget;
  expect(loadedBytes(one, null)).toBeNull();
  expect(loadedBytes(one, budget(null))).toBeNull();
  expect(loadedBytes(one, budget(30))).toEqual({ held_bytes: 30, expected_bytes: 100, atLeast: false });
  expect(loadedBytes({ ...one, footprint_bytes: 60 }, budget(30, false))).toEqual({
    held_bytes: 30,
    expected_bytes: 60,
    atLeast: true,
  });
  expect(loadedBytes(one, budget(130))?.expected_bytes).toBe(130);
});
