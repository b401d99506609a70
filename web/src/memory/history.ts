import type { History } from '../api/types';
import { formatBytes } from '../format/bytes';

type Column = keyof { [K in keyof History as History[K] extends unknown[] ? K : never]: true };

/** The figures of a moment that add up to MemTotal, from the bottom of the picture to its top. */
export const stacked_columns = [
  'deployments_bytes',
  'ready_gap_bytes',
  'external_bytes',
  'page_cache_bytes',
  'free_bytes',
] as const satisfies readonly Column[];

const columns = [
  'time_s',
  ...stacked_columns,
  'committed_bytes',
  'swap_used_bytes',
  'pressure_some_avg10_permyriad',
] as const satisfies readonly Column[];

/** How long a look back the picture gives. */
export const span_s = 3600;

/** The entries of both, each moment once, the newer document's word counting; what is older than the span is dropped. */
export function mergeHistory(old: History, more: History): History {
  const first = more.time_s[0];
  const last = more.time_s.at(-1);
  if (first === undefined || last === undefined) return { ...old, mem_total_bytes: more.mem_total_bytes };
  // A clock that was set back begins a new history.
  const kept = old.time_s.filter((time) => time < first && time > last - span_s).length;
  const from = old.time_s.findIndex((time) => time > last - span_s);
  const start = from < 0 ? old.time_s.length : from;
  const merged: History = { ...more };
  for (const column of columns) {
    const before: (number | null)[] = old[column].slice(start, start + kept);
    (merged as Record<Column, (number | null)[]>)[column] = [...before, ...more[column]];
  }
  return merged;
}

/**
 * Times, and for each stacked column the height of its upper edge: the sum up to it. A moment of which any of them is not
 * known is a gap.
 */
export function upperEdges(history: History): [number[], ...(number | null)[][]] {
  const edges: (number | null)[][] = stacked_columns.map(() => []);
  history.time_s.forEach((_, index) => {
    const parts = stacked_columns.map((column) => history[column][index] ?? null);
    let sum: number | null = parts.includes(null) ? null : 0;
    parts.forEach((part, column) => {
      sum = sum === null || part === null ? null : sum + part;
      edges[column]?.push(sum);
    });
  });
  return [history.time_s, ...edges];
}

/** The picture in a sentence, for whoever does not see it. */
export function describeHistory(history: History): string {
  const range = (name: string, values: (number | null)[]) => {
    const known = values.filter((value) => value !== null);
    if (known.length === 0) return `${name} unknown`;
    return `${name} between ${formatBytes(Math.min(...known))} and ${formatBytes(Math.max(...known))}`;
  };
  return `The last hour: ${range('deployments', history.deployments_bytes)}, ${range('external', history.external_bytes)}, ${range('free', history.free_bytes)}.`;
}
