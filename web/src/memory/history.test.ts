import { expect, test } from 'vitest';
import type { History } from '../api/types';
import { describeHistory, mergeHistory, span_s, upperEdges } from './history';

/** Entries at those times; a null is a gap. */
function history(entries: [number, number | null][]): History {
  const values = entries.map(([, value]) => value);
  return {
    interval_s: 10,
    mem_total_bytes: 100,
    time_s: entries.map(([time]) => time),
    deployments_bytes: values,
    ready_gap_bytes: values.map((value) => (value === null ? null : 1)),
    external_bytes: values.map((value) => (value === null ? null : 2)),
    page_cache_bytes: values.map((value) => (value === null ? null : 3)),
    free_bytes: values.map((value) => (value === null ? null : 94 - value)),
    committed_bytes: values,
    swap_used_bytes: values.map(() => null),
    pressure_some_avg10_permyriad: values.map(() => null),
  };
}

test('a new point is put after the old ones', () => {
  const merged = mergeHistory(
    history([
      [10, 5],
      [20, 6],
    ]),
    history([[30, 7]]),
  );
  expect(merged.time_s).toEqual([10, 20, 30]);
  expect(merged.deployments_bytes).toEqual([5, 6, 7]);
});

test('a point that comes twice is there once', () => {
  const merged = mergeHistory(
    history([
      [10, 5],
      [20, 6],
    ]),
    history([
      [20, 6],
      [30, 7],
    ]),
  );
  expect(merged.time_s).toEqual([10, 20, 30]);
});

test('what is older than an hour is dropped', () => {
  const merged = mergeHistory(
    history([
      [10, 5],
      [20, 6],
    ]),
    history([[15 + span_s, 7]]),
  );
  expect(merged.time_s).toEqual([20, 15 + span_s]);
  expect(merged.free_bytes).toEqual([88, 87]);
});

test('a clock that was set back begins anew', () => {
  expect(
    mergeHistory(
      history([
        [1000, 5],
        [1010, 6],
      ]),
      history([[500, 7]]),
    ).time_s,
  ).toEqual([500]);
});

test('nothing new changes nothing', () => {
  expect(mergeHistory(history([[10, 5]]), history([])).time_s).toEqual([10]);
});

test('the edges add up to MemTotal', () => {
  const [times, ...edges] = upperEdges(history([[10, 5]]));
  expect(times).toEqual([10]);
  expect(edges).toEqual([[5], [6], [8], [11], [100]]);
});

test('a gap stays a gap: no line is drawn across it', () => {
  const [, ...edges] = upperEdges(
    history([
      [10, 5],
      [20, null],
      [30, 6],
    ]),
  );
  for (const edge of edges) expect(edge[1]).toBeNull();
});

test('the sentence does not make 0 of what is unknown', () => {
  expect(describeHistory(history([[10, null]]))).toBe(
    'The last hour: deployments unknown, external unknown, free unknown.',
  );
  expect(
    describeHistory(
      history([
        [10, 5],
        [20, 7],
      ]),
    ),
  ).toContain('deployments between 5 B and 7 B');
});
