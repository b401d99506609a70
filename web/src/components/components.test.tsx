import { renderToStaticMarkup } from 'react-dom/server';
import { expect, test } from 'vitest';
import { sortRows } from './DataTable';
import { tailOf } from './LogView';
import { MemoryBar } from './MemoryBar';
import { Size } from './Size';

test('an unknown size says so, and why', () => {
  const html = renderToStaticMarkup(<Size bytes={null} reason="The driver does not say" />);
  expect(html).toContain('unknown');
  expect(html).toContain('The driver does not say');
  expect(html).not.toContain('0');
});

test('a size has the exact bytes on hover', () => {
  expect(renderToStaticMarkup(<Size bytes={13_204_889_600} atLeast />)).toContain(
    'title="at least 13,204,889,600 bytes"',
  );
});

test('rows without a value come last, whichever way they are sorted', () => {
  const rows = [{ v: 2 }, { v: null }, { v: 3 }];
  expect(sortRows(rows, (row) => row.v, false).map((row) => row.v)).toEqual([2, 3, null]);
  expect(sortRows(rows, (row) => row.v, true).map((row) => row.v)).toEqual([3, 2, null]);
});

test('a long log keeps its last whole lines', () => {
  expect(tailOf('one\ntwo\nthree\n', 8)).toBe('three\n');
  expect(tailOf('short', 8)).toBe('short');
});

test('a name from outside is text in the bar', () => {
  const hostile = '<img src=x onerror=alert(1)>';
  const segment = { key: 'a', kind: 'deployment', label: hostile, bytes: 10, held_bytes: 5, deployment: 1 } as const;
  const bar = { segments: [{ ...segment, description: hostile }], total_bytes: 10, over_bytes: 0 };
  expect(renderToStaticMarkup(<MemoryBar bar={bar} label="Memory" />)).not.toContain('<img');
});
