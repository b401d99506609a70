/* eslint jsx-a11y/no-redundant-roles: off, jsx-a11y/no-interactive-element-to-noninteractive-role: off --
   laid out as cards, the elements of a table lose their roles unless these are written out */
import { memo, useCallback, useMemo, useState, type ReactNode } from 'react';
import { formatCount } from '../format/bytes';
import { Button } from './Button';
import { classes } from './classes';
import styles from './DataTable.module.css';

export interface Column<Row> {
  key: string;
  title: string;
  /** Numbers stand at the end, with digits of one width. */
  align?: 'start' | 'end';
  render: (row: Row) => ReactNode;
  /** Makes the column sortable; null stands last, whichever way. */
  sortBy?: (row: Row) => string | number | null;
}

export interface DataTableProps<Row> {
  /** What it lists, for screen readers. */
  label: string;
  /** Rows that have not changed must be the same objects, so that they need not be drawn again. */
  rows: readonly Row[];
  /** The same array each time: a constant, or memoized. */
  columns: readonly Column<Row>[];
  rowKey: (row: Row) => string | number;
  /** What a row shows below itself when it is opened; the same function each time. */
  details?: (row: Row) => ReactNode;
  /** Names the row for the button that opens it. */
  rowName?: (row: Row) => string;
  /** So many rows are drawn until more are asked for: 500 rows cost a slow machine time at each change. */
  limit?: number;
}

interface Sorting {
  key: string;
  descending: boolean;
}

/**
 * A table whose numbers line up, that scrolls by itself where it is too wide. On a narrow screen each row is a card; the
 * roles are written out because elements that are not laid out as a table lose them.
 */
export function DataTable<Row>({ label, rows, columns, rowKey, details, rowName, limit = 100 }: DataTableProps<Row>) {
  const [sorting, setSorting] = useState<Sorting | null>(null);
  const [open, setOpen] = useState<ReadonlySet<string | number>>(new Set());
  const [all, setAll] = useState(false);

  const sorted = useMemo(() => {
    const by = columns.find((column) => column.key === sorting?.key)?.sortBy;
    return sorting && by ? sortRows(rows, by, sorting.descending) : rows;
  }, [rows, columns, sorting]);
  const shown = all ? sorted : sorted.slice(0, limit);

  const toggle = useCallback((key: string | number) => {
    setOpen((old) => {
      const next = new Set(old);
      if (!next.delete(key)) next.add(key);
      return next;
    });
  }, []);

  const sort = (column: Column<Row>) =>
    setSorting((old) => {
      // Numbers are looked at from the largest on, words from the first.
      const first = { key: column.key, descending: column.align === 'end' };
      if (old?.key !== column.key) return first;
      return old.descending === first.descending ? { ...first, descending: !first.descending } : null;
    });

  return (
    <div className={styles.scroll} role="group" aria-label={label} tabIndex={0}>
      <table className={styles.table} aria-label={label} role="table">
        <thead role="rowgroup">
          <tr role="row">
            {details && (
              <th role="columnheader">
                <span className="only-read">Details</span>
              </th>
            )}
            {columns.map((column) => {
              const direction =
                sorting?.key === column.key ? (sorting.descending ? 'descending' : 'ascending') : undefined;
              return (
                <th
                  key={column.key}
                  scope="col"
                  role="columnheader"
                  className={classes(column.align === 'end' && styles.end)}
                  aria-sort={direction}
                >
                  {column.sortBy ? (
                    <button type="button" className={styles.sort} onClick={() => sort(column)}>
                      {column.title}
                      <span aria-hidden="true">
                        {direction === undefined ? '' : direction === 'ascending' ? ' ▲' : ' ▼'}
                      </span>
                    </button>
                  ) : (
                    column.title
                  )}
                </th>
              );
            })}
          </tr>
        </thead>
        <tbody role="rowgroup">
          {shown.map((row) => {
            const key = rowKey(row);
            return (
              <MemoRow
                key={key}
                row={row}
                name={rowName?.(row) ?? String(key)}
                id={key}
                columns={columns as readonly Column<unknown>[]}
                details={details as ((row: unknown) => ReactNode) | undefined}
                open={open.has(key)}
                toggle={toggle}
              />
            );
          })}
        </tbody>
      </table>
      {sorted.length > shown.length && (
        <div className={styles.more}>
          <Button small onClick={() => setAll(true)}>
            Show all {formatCount(sorted.length)}
          </Button>
        </div>
      )}
    </div>
  );
}

/** Rows in the order of a column; those that have nothing there come last. Equal ones keep their order. */
export function sortRows<Row>(
  rows: readonly Row[],
  by: (row: Row) => string | number | null,
  descending: boolean,
): Row[] {
  const sign = descending ? -1 : 1;
  return rows
    .map((row) => ({ row, value: by(row) }))
    .sort((a, b) => {
      if (a.value === null || b.value === null) return Number(a.value === null) - Number(b.value === null);
      if (typeof a.value === 'string' && typeof b.value === 'string') return sign * a.value.localeCompare(b.value);
      return sign * (Number(a.value) - Number(b.value));
    })
    .map(({ row }) => row);
}

interface RowProps {
  row: unknown;
  id: string | number;
  name: string;
  columns: readonly Column<unknown>[];
  details: ((row: unknown) => ReactNode) | undefined;
  open: boolean;
  toggle: (key: string | number) => void;
}

const MemoRow = memo(function MemoRow({ row, id, name, columns, details, open, toggle }: RowProps) {
  return (
    <>
      <tr role="row">
        {details && (
          <td role="cell" className={styles.toggleCell}>
            <button
              type="button"
              className={styles.toggle}
              aria-expanded={open}
              aria-label={`Details of ${name}`}
              onClick={() => toggle(id)}
            >
              <span aria-hidden="true">{open ? '▾' : '▸'}</span>
            </button>
          </td>
        )}
        {columns.map((column) => (
          <td
            key={column.key}
            role="cell"
            data-title={column.title}
            className={classes(column.align === 'end' && styles.end)}
          >
            <div className={styles.content}>{column.render(row)}</div>
          </td>
        ))}
      </tr>
      {details && open && (
        <tr role="row" className={styles.details}>
          <td role="cell" />
          <td role="cell" colSpan={columns.length}>
            {details(row)}
          </td>
        </tr>
      )}
    </>
  );
});
