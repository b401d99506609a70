import { expect, test } from 'vitest';
import type { Budget, BudgetDeployment, Measured } from '../api/types';
import { gib } from '../format/bytes';
import { budgetBar, changedBar, deployments_drawn, type Bar } from './segments';

function measured(total: number, complete = true): Measured {
  return {
    total_bytes: total,
    anon_bytes: total,
    kernel_bytes: 0,
    shmem_bytes: 0,
    gpu_bytes: complete ? 0 : null,
    gpu_at_least_bytes: null,
    approximate: false,
    complete,
  };
}

function deployment(
  id: number,
  state: BudgetDeployment['state'],
  reserved: number,
  held: Measured | null,
): BudgetDeployment {
  return { id, name: `m${id}`, state, reserved_bytes: reserved, measured: held };
}

/** A budget that adds up by the rules B1 to B5. */
function budget(deployments: BudgetDeployment[], used = 40 * gib, page_cache_bytes: number | null = null): Budget {
  const mem_total_bytes = 120 * gib;
  const inFull = (one: BudgetDeployment) => ['starting', 'loading', 'ready', 'unknown'].includes(one.state);
  const held = (one: BudgetDeployment) => one.measured?.total_bytes ?? 0;
  const sum = (figures: number[]) => figures.reduce((total, one) => total + one, 0);
  const committed_bytes = sum(
    deployments.map((one) => (inFull(one) ? Math.max(one.reserved_bytes, held(one)) : held(one))),
  );
  const measured_by_managed_bytes = sum(deployments.map(held));
  const ready_gap_bytes = sum(
    deployments.map((one) => (one.state === 'ready' ? Math.max(one.reserved_bytes - held(one), 0) : 0)),
  );
  const external_bytes = Math.max(used - measured_by_managed_bytes - ready_gap_bytes, 0);
  const usable_bytes = mem_total_bytes - 12 * gib;
  return {
    revision: 1,
    time: null,
    mem_total_bytes,
    mem_available_bytes: mem_total_bytes - used,
    safety_margin_bytes: 8 * gib,
    os_reserve_bytes: 4 * gib,
    usable_bytes,
    committed_bytes,
    used_bytes: used,
    measured_by_managed_bytes,
    ready_gap_bytes,
    external_bytes,
    free_for_new_bytes: usable_bytes - committed_bytes - external_bytes,
    page_cache_bytes,
    free_bytes: null,
    swap_total_bytes: null,
    swap_used_bytes: null,
    pressure_some_avg10_permyriad: null,
    pressure_full_avg10_permyriad: null,
    source: 'daemon',
    host_class: 'integrated',
    host_class_evidence: '',
    gpu_bytes: 0,
    gpu_at_least_bytes: null,
    gpu_estimate_bytes: null,
    gpu_age_s: 0,
    deployments,
    warnings: [],
  };
}

const sumOf = (bar: Bar) => bar.segments.reduce((sum, one) => sum + one.bytes, 0);
const segment = (bar: Bar, key: string) => bar.segments.find((one) => one.key === key);

test('B5: the pieces add up to MemTotal', () => {
  const bar = budgetBar(
    budget([
      deployment(1, 'ready', 14 * gib, measured(12 * gib)),
      deployment(2, 'sleeping', 20 * gib, measured(3 * gib)),
      deployment(3, 'starting', 5 * gib, null),
      deployment(4, 'stopped', 30 * gib, null),
    ]),
  );
  expect(sumOf(bar)).toBe(120 * gib);
  expect(bar.over_bytes).toBe(0);
});

test('B5: what is over-committed goes beyond the end', () => {
  const host = budget([deployment(1, 'ready', 100 * gib, measured(99 * gib))], 115 * gib);
  const bar = budgetBar(host);
  expect(host.free_for_new_bytes).toBeLessThan(0);
  expect(bar.over_bytes).toBe(-host.free_for_new_bytes);
  expect(segment(bar, 'free')).toBeUndefined();
});

test('B2: a deployment counts in full while it serves, and with what it holds asleep', () => {
  const bar = budgetBar(
    budget([
      deployment(1, 'ready', 14 * gib, measured(12 * gib)),
      deployment(2, 'sleeping', 20 * gib, measured(3 * gib)),
    ]),
  );
  expect(segment(bar, 'deployment 1')).toMatchObject({ bytes: 14 * gib, held_bytes: 12 * gib });
  expect(segment(bar, 'deployment 2')).toMatchObject({ bytes: 3 * gib });
});

test('B2: one that has outgrown its reservation is drawn with all that it holds', () => {
  const bar = budgetBar(budget([deployment(1, 'ready', 10 * gib, measured(13 * gib))]));
  expect(segment(bar, 'deployment 1')?.bytes).toBe(13 * gib);
});

test('a stopped deployment has no piece', () => {
  expect(segment(budgetBar(budget([deployment(1, 'stopped', 10 * gib, null)])), 'deployment 1')).toBeUndefined();
});

test('a piece says what it is in words', () => {
  const bar = budgetBar(budget([deployment(1, 'ready', 14 * gib, measured(12.3 * gib))]));
  expect(segment(bar, 'deployment 1')?.description).toBe('m1: 12.3 GiB measured of 14.0 GiB reserved');
});

test('B7: what is unknown is said to be, and is not 0', () => {
  const bar = budgetBar(
    budget([deployment(1, 'ready', 14 * gib, measured(2 * gib, false)), deployment(2, 'loading', 4 * gib, null)]),
  );
  expect(segment(bar, 'deployment 1')).toMatchObject({ incomplete: true });
  expect(segment(bar, 'deployment 1')?.description).toContain('at least 2.0 GiB measured');
  expect(segment(bar, 'deployment 2')).toMatchObject({ held_bytes: null, bytes: 4 * gib });
  expect(segment(bar, 'deployment 2')?.description).toContain('measured unknown');
});

test('the page cache is a part of what is free, and never more', () => {
  const some = budgetBar(budget([], 40 * gib, 10 * gib));
  expect(segment(some, 'cache')?.bytes).toBe(10 * gib);
  const much = budget([], 40 * gib, 500 * gib);
  expect(segment(budgetBar(much), 'cache')?.bytes).toBe(much.free_for_new_bytes);
  expect(sumOf(budgetBar(much))).toBe(120 * gib);
});

test('many deployments are drawn in few pieces, and none is lost', () => {
  const bar = budgetBar(
    budget(Array.from({ length: 200 }, (_, index) => deployment(index + 1, 'ready', (index + 1) * 1e6, measured(1e6)))),
  );
  expect(bar.segments.filter((one) => one.kind === 'deployment').length).toBe(deployments_drawn + 1);
  expect(segment(bar, 'deployments')?.label).toBe(`${200 - deployments_drawn} more deployments`);
  expect(sumOf(bar)).toBe(120 * gib);
});

test('a request takes of what is free', () => {
  const before = budgetBar(budget([], 40 * gib, 5 * gib));
  const after = changedBar(before, { adds: { label: 'new', bytes: 10 * gib } });
  expect(segment(after, 'request')?.bytes).toBe(10 * gib);
  expect(sumOf(after)).toBe(120 * gib);
  expect(after.over_bytes).toBe(0);
});

test('a request that does not fit goes beyond the end by what is missing', () => {
  const host = budget([]);
  const after = changedBar(budgetBar(host), { adds: { label: 'new', bytes: host.free_for_new_bytes + 3 * gib } });
  expect(after.over_bytes).toBe(3 * gib);
});

test('a plan gives back what it stops, and of what sleeps only what is known', () => {
  const before = budgetBar(
    budget(
      [
        deployment(1, 'ready', 14 * gib, measured(12 * gib)),
        deployment(2, 'ready', 20 * gib, measured(18 * gib)),
        deployment(3, 'ready', 6 * gib, measured(6 * gib)),
      ],
      50 * gib,
    ),
  );
  const after = changedBar(before, {
    stops: [1],
    sleeps: [
      { id: 2, asleep_bytes: 4 * gib },
      { id: 3, asleep_bytes: null },
    ],
  });
  expect(segment(after, 'deployment 1')).toBeUndefined();
  expect(segment(after, 'deployment 2')?.bytes).toBe(4 * gib);
  expect(segment(after, 'deployment 3')?.bytes).toBe(6 * gib);
  expect((segment(after, 'free')?.bytes ?? 0) - (segment(before, 'free')?.bytes ?? 0)).toBe(30 * gib);
});
