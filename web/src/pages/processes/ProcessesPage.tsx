import { useMemo, useState } from 'react';
import { path, request } from '../../api/client';
import type { Orphan, Process, Processes } from '../../api/types';
import { Button } from '../../components/Button';
import { DataTable, type Column } from '../../components/DataTable';
import { ConfirmDialog } from '../../components/Dialog';
import { Facts } from '../../components/Facts';
import { ErrorNote, Note, Warnings } from '../../components/Note';
import { Empty, Skeleton } from '../../components/Placeholder';
import { SearchField } from '../../components/SearchField';
import { Section } from '../../components/Section';
import { Size } from '../../components/Size';
import { Unknown } from '../../components/Unknown';
import { useResource } from '../../state/resource';
import styles from './ProcessesPage.module.css';
import { noteOf, placeOf, programOf, searchProcesses } from './rows';

/** So many processes are read: what is smaller holds no memory worth a search. */
const limit = 500;
// Processes come and go without events.
const every_s = 5;

/** What is to be ended, and what it is. */
interface Wish {
  id: string;
  command: string;
}

type Ask = (wish: Wish) => void;

export default function ProcessesPage() {
  const processes = useResource<Processes>(`/api/v1/processes?limit=${limit}`, { topics: ['orphans'], every_s });
  const orphans = useResource<Orphan[]>('/api/v1/orphans', { topics: ['orphans'], every_s });
  const [wish, setWish] = useState<Wish | null>(null);
  const { data, error, loading, reload } = processes;
  return (
    <>
      <h1>Processes</h1>
      <p>Who holds memory beside the deployments: what dgxmm does not manage, the largest first.</p>
      {error && <ErrorNote error={error} what="The processes could not be read" retry={reload} />}
      {orphans.error && !error && (
        <ErrorNote error={orphans.error} what="Orphans could not be looked for" retry={orphans.reload} />
      )}
      {data && <Warnings warnings={data.warnings.filter((one) => one.code !== 'orphan')} />}
      {orphans.data && orphans.data.length > 0 && <Orphans orphans={orphans.data} ask={setWish} />}
      {loading && <Skeleton label="Reading the processes" lines={8} />}
      {data && <All data={data} ask={setWish} />}
      <ConfirmDialog
        title="End this orphan?"
        open={wish !== null}
        onClose={() => setWish(null)}
        action="End it"
        danger
        onConfirm={async () => {
          if (wish) await request('POST', path`/api/v1/orphans/${wish.id}/stop`);
          orphans.reload();
          reload();
        }}
      >
        <p className="foreign mono">{wish?.command}</p>
        <p>
          No deployment knows it, so it serves nobody through dgxmm. It is asked to end, and killed if it does not; its
          container is removed.
        </p>
      </ConfirmDialog>
    </>
  );
}

function Orphans({ orphans, ask }: { orphans: Orphan[]; ask: Ask }) {
  const columns = useMemo(() => orphanColumns(ask), [ask]);
  return (
    <Section title="Orphans">
      <Note kind="warning">
        <p>
          Engines that dgxmm started and that no deployment knows any more: a lost state, or an engine that ended badly,
          left them behind. They hold memory for nobody.
        </p>
      </Note>
      <DataTable
        label="Orphans"
        rows={orphans}
        columns={columns}
        rowKey={orphanKey}
        rowName={orphanKey}
        details={orphanDetails}
      />
    </Section>
  );
}

function All({ data, ask }: { data: Processes; ask: Ask }) {
  const [query, setQuery] = useState('');
  const hasOrphans = data.processes.some((one) => one.orphan_id !== '');
  const columns = useMemo(() => processColumns(ask, hasOrphans), [ask, hasOrphans]);
  const shown = useMemo(() => searchProcesses(data.processes, query), [data.processes, query]);
  const all = data.processes.length;
  return (
    <Section title="Processes outside deployments">
      <div className="row">
        <SearchField
          label="Search"
          placeholder="program, argument, user, container, pid"
          value={query}
          onChange={setQuery}
        />
        <span className={`${styles.found} quiet`} role="status">
          {query.trim() === ''
            ? `${all >= limit ? 'the largest ' : ''}${all} processes`
            : `${shown.length} of ${all} processes`}
        </span>
      </div>
      {all === 0 && <Empty title="There is none that could be read" />}
      {all > 0 && shown.length === 0 && (
        <Empty title="None has these words">
          <Button small onClick={() => setQuery('')}>
            Show all
          </Button>
        </Empty>
      )}
      {shown.length > 0 && (
        <DataTable
          label="Processes"
          rows={shown}
          columns={columns}
          rowKey={pidOf}
          rowName={nameOf}
          details={processDetails}
          limit={50}
        />
      )}
      <p>
        Unattributed:{' '}
        <Size
          bytes={data.unattributed_bytes}
          reason="Something that holds memory could not be measured, so what nobody holds cannot be told"
        />{' '}
        <span className="quiet">
          {data.unattributed_bytes !== null && data.unattributed_bytes < 0
            ? '– something was counted twice'
            : '– used, and held by nobody who can be seen: the kernel, drivers, what ended programs left'}
        </span>
      </p>
    </Section>
  );
}

const orphanKey = (row: Orphan) => row.id;
const pidOf = (row: Process) => row.pid;
const nameOf = (row: Process) => `${programOf(row.command)}, pid ${row.pid}`;

const orphanDetails = (row: Orphan) => (
  <div className="stack">
    <p className={`${styles.whole} foreign mono`}>{row.command || 'its command line could not be read'}</p>
    <Facts facts={{ Pid: row.pid, Container: row.container, Instance: row.name, Processes: row.processes }} />
  </div>
);

const processDetails = (row: Process) => (
  <div className="stack">
    <p className={`${styles.whole} foreign mono`}>{row.command}</p>
    <Facts
      facts={{ [row.container_name === '' ? 'Container or unit' : 'Container']: row.container, Note: noteOf(row) }}
    />
  </div>
);

function stopButton(ask: Ask, id: string, command: string) {
  return (
    <Button small kind="danger" onClick={() => ask({ id, command })} aria-label={`Stop … the orphan ${id}`}>
      Stop …
    </Button>
  );
}

function orphanColumns(ask: Ask): Column<Orphan>[] {
  return [
    {
      key: 'command',
      title: 'Program',
      render: (row) => (
        <>
          <span className="foreign">{programOf(row.command)}</span>
          <span className={styles.command}>{row.command}</span>
        </>
      ),
    },
    { key: 'runtime', title: 'Runs as', render: (row) => (row.runtime === 'docker' ? 'container' : row.runtime) },
    {
      key: 'held',
      title: 'Holds',
      align: 'end',
      sortBy: (row) => row.measured?.total_bytes ?? null,
      render: (row) => (
        <Size
          bytes={row.measured?.total_bytes}
          atLeast={row.measured?.complete === false}
          reason="It could not be measured"
        />
      ),
    },
    { key: 'stop', title: 'Action', align: 'end', render: (row) => stopButton(ask, row.id, row.command) },
  ];
}

function processColumns(ask: Ask, hasOrphans: boolean): Column<Process>[] {
  const columns: Column<Process>[] = [
    {
      key: 'program',
      title: 'Program',
      sortBy: (row) => programOf(row.command),
      render: (row) => (
        <>
          <span className="foreign">{programOf(row.command)}</span>
          <span className={styles.command}>{row.command}</span>
          {noteOf(row) !== '' && <span className={styles.note}>! {noteOf(row)}</span>}
        </>
      ),
    },
    { key: 'pid', title: 'Pid', align: 'end', sortBy: pidOf, render: pidOf },
    {
      key: 'place',
      title: 'Container or unit',
      sortBy: (row) => placeOf(row) || null,
      render: (row) =>
        placeOf(row) === '' ? (
          <Unknown word="–" reason="In no container and no unit" />
        ) : (
          <span className="foreign">{placeOf(row)}</span>
        ),
    },
    {
      key: 'user',
      title: 'User',
      sortBy: (row) => row.user,
      render: (row) => <span className="foreign">{row.user}</span>,
    },
    {
      key: 'held',
      title: 'Holds',
      align: 'end',
      sortBy: (row) => row.held_bytes,
      render: (row) => <Size bytes={row.held_bytes} atLeast={row.gpu_bytes === null} />,
    },
    {
      key: 'rss',
      title: 'RSS',
      align: 'end',
      sortBy: (row) => row.rss_bytes,
      render: (row) => <Size bytes={row.rss_bytes} reason="It could not be read" />,
    },
    {
      key: 'gpu',
      title: 'GPU',
      align: 'end',
      sortBy: (row) => row.gpu_bytes,
      render: (row) => <Size bytes={row.gpu_bytes} reason="The GPU's driver does not say" />,
    },
  ];
  if (!hasOrphans) return columns;
  return [
    ...columns,
    {
      key: 'stop',
      title: 'Action',
      align: 'end',
      render: (row) => (row.orphan_id === '' ? '' : stopButton(ask, row.orphan_id, row.command)),
    },
  ];
}
