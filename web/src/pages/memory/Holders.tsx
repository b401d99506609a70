import { useMemo } from 'react';
import type { Memory } from '../../api/types';
import { href } from '../../app/router';
import { ButtonLink } from '../../components/Button';
import { DataTable, type Column } from '../../components/DataTable';
import { ErrorNote } from '../../components/Note';
import { Empty, Skeleton } from '../../components/Placeholder';
import { Size } from '../../components/Size';
import { Unknown } from '../../components/Unknown';
import { holdersOf, type Holder } from '../../memory/holders';
import type { Resource } from '../../state/resource';
import { useShared } from '../../state/shared';
import styles from './MemoryPage.module.css';

const rows_shown = 8;

/** Who else holds memory. */
export function Holders({ memory }: { memory: Resource<Memory> }) {
  const { data, error, reload } = memory;
  const rows = useShared(useMemo(() => (data ? holdersOf(data) : []), [data]));
  return (
    <section className={styles.section} aria-labelledby="others">
      <div className={styles.sectionHead}>
        <h2 id="others">Everything else</h2>
        <ButtonLink href={href('processes')}>All processes</ButtonLink>
      </div>
      {error && <ErrorNote error={error} what="Who holds the memory could not be read" retry={reload} />}
      {!data && !error && <Skeleton label="Reading who holds the memory" />}
      {data && rows.length === 0 && <Empty title="Nobody else holds memory" />}
      {data && rows.length > 0 && (
        <DataTable label="Everything else" rows={rows} columns={columns} rowKey={rowKey} limit={rows_shown} />
      )}
      {data && data.names_unknown !== '' && (
        <p className="quiet">Containers have no names here: {data.names_unknown}</p>
      )}
    </section>
  );
}

const rowKey = (row: Holder) => row.id;

const columns: Column<Holder>[] = [
  {
    key: 'who',
    title: 'Who',
    render: (row) => (
      <>
        <span className={`${styles.name} foreign`}>{row.who}</span>
        <span className={`${styles.under} foreign`}>{row.detail}</span>
      </>
    ),
  },
  { key: 'kind', title: 'Kind', render: (row) => (row.orphan ? `${row.kind}, orphan` : row.kind) },
  {
    key: 'bytes',
    title: 'Holds',
    align: 'end',
    render: (row) => <Size bytes={row.bytes} atLeast={row.atLeast} />,
  },
  {
    key: 'gpu',
    title: 'of it GPU',
    align: 'end',
    render: (row) =>
      row.kind === '' ? (
        <Unknown word="–" reason="Does not apply" />
      ) : (
        <Size bytes={row.gpu_bytes} reason="The driver does not say" />
      ),
  },
];
