import { expect, test } from 'vitest';
import type { Deployment, Plan, Plans } from '../api/types';
import { gib } from '../format/bytes';
import { changedBar, type Bar } from '../memory/segments';
import { changeOf, differences, takesText, victimsOf } from './plans';

function plan(id: string, more: Partial<Plan> = {}): Plan {
  return {
    id,
    kind: 'stop',
    title: `Plan ${id}`,
    fits: true,
    recommended: false,
    unsafe: [],
    needed_bytes: 20 * gib,
    free_before_bytes: 10 * gib,
    free_after_bytes: 10 * gib,
    shortfall_bytes: 0,
    left_bytes: 0,
    confidence: 'estimated',
    config: {} as Plan['config'],
    stops: [],
    frees_bytes: null,
    model: null,
    sleeps: [],
    takes_s: null,
    takes_measured: false,
    costs: [],
    why: null,
    ...more,
  };
}

const bar: Bar = {
  segments: [
    { key: 'deployment 1', kind: 'deployment', label: 'a', bytes: 30 * gib, deployment: 1, description: 'a' },
    { key: 'deployment 2', kind: 'deployment', label: 'b', bytes: 40 * gib, deployment: 2, description: 'b' },
    { key: 'free', kind: 'free', label: 'free', bytes: 10 * gib, description: 'free' },
  ],
  total_bytes: 80 * gib,
  over_bytes: 0,
};

const deployment = (id: number, asleep_bytes: number | null) => ({ id, asleep_bytes }) as Deployment;
const sizes = (change: ReturnType<typeof changeOf>) =>
  Object.fromEntries(changedBar(bar, change).segments.map((one) => [one.label, one.bytes / gib]));

test('who is stopped is gone from the bar, and what is asked for is there', () => {
  const change = changeOf(plan('stop:2', { stops: [2], free_after_bytes: 50 * gib }), bar, [], 'new');
  expect(sizes(change)).toEqual({ a: 30, new: 20, free: 30 });
});

test('B4 what was reserved and not held is not given back: the bar leaves what the plan leaves', () => {
  const change = changeOf(plan('stop:2', { stops: [2], free_after_bytes: 25 * gib }), bar, [], 'new');
  expect(sizes(change)).toEqual({ a: 30, new: 20, external: 25, free: 5 });
});

test('P10 a sleeper holds what it held when it last slept', () => {
  const sleeps = [{ id: 1, level: 1 }];
  const change = changeOf(
    plan('sleep:1', { sleeps, free_after_bytes: 35 * gib }),
    bar,
    [deployment(1, 6 * gib)],
    'new',
  );
  expect(sizes(change)).toEqual({ a: 6, b: 40, new: 20, free: 14 });
});

test('of one that never slept the bar shows what the plan counts on', () => {
  const sleeps = [{ id: 1, level: 2 }];
  const shown = plan('sleep:1', { sleeps, stops: [2], free_after_bytes: 75 * gib });
  expect(sizes(changeOf(shown, bar, [deployment(1, null)], 'new'))).toEqual({ a: 5, new: 20, free: 55 });
});

test('sleepers and those that are stopped are all victims', () => {
  expect(victimsOf(plan('x', { sleeps: [{ id: 3, level: 2 }], stops: [5] }))).toEqual([
    { id: 3, sleep: 2 },
    { id: 5, sleep: null },
  ]);
});

test('a time is measured only when it was measured', () => {
  const seconds = (value: number) => `${value} s`;
  expect(takesText({ takes_s: 4, takes_measured: true }, seconds)).toBe('4 s, measured');
  expect(takesText({ takes_s: 4, takes_measured: false }, seconds)).toBe('about 4 s, by size');
  expect(takesText({ takes_s: null, takes_measured: false }, seconds)).toBe('not known');
});

function plans(more: Partial<Plans>): Plans {
  return {
    plan_set: '1',
    fits_now: false,
    needed_bytes: 20 * gib,
    free_for_new_bytes: 10 * gib,
    shortfall_bytes: 10 * gib,
    summary: '',
    plans: [],
    missing_without_all_bytes: null,
    ...more,
  };
}

test('P13 what has changed since the plans were shown is said', () => {
  const shown = plans({ plans: [plan('a', { recommended: true }), plan('b'), plan('c')] });
  const now = plans({
    free_for_new_bytes: 8 * gib,
    plans: [plan('a', { unsafe: ['m is busy'] }), plan('b', { fits: false }), plan('d')],
  });
  expect(differences(shown, now)).toEqual([
    'Free memory: 8.0 GiB instead of 10.0 GiB, less than before',
    'Unsafe by now: Plan a (m is busy)',
    'Not recommended any more: Plan a',
    'Not enough any more: Plan b',
    'Not offered any more: Plan c',
    'New: Plan d',
  ]);
});

test('small moves of the memory are no change, and what fits needs no plan', () => {
  expect(differences(plans({}), plans({ free_for_new_bytes: 10 * gib - 1000 }))).toEqual([]);
  expect(differences(plans({}), plans({ fits_now: true }))).toHaveLength(1);
});
