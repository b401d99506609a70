import { useMemo, useState } from 'react';
import { path, request } from '../../api/client';
import type { CalibrationRecord, Calibrations, Duration, OomFloor, SizeAsleep } from '../../api/types';
import { Age } from '../../components/Age';
import { Button } from '../../components/Button';
import { DataTable, type Column } from '../../components/DataTable';
import { ConfirmDialog } from '../../components/Dialog';
import { ErrorNote, Note } from '../../components/Note';
import { Empty, Skeleton } from '../../components/Placeholder';
import { Section } from '../../components/Section';
import { Size } from '../../components/Size';
import { Unknown } from '../../components/Unknown';
import { formatBytes } from '../../format/bytes';
import { formatDuration } from '../../format/time';
import { useResource } from '../../state/resource';
import styles from './CalibrationPage.module.css';
import { ComparisonChart } from './ComparisonChart';
import { comparisons, configurationSummary, countText, factorOf, formatFactor, modelName, ofModel } from './learned';

/** What somebody wants to have forgotten: one thing, or all of a model. */
interface Wish {
  /** Of the thing, or the fingerprint of the model. */
  id: string;
  title: string;
  what: string;
  /** Sizes that ran out of memory are among it. */
  floors: OomFloor[];
}

type Ask = (wish: Wish) => void;

export default function CalibrationPage() {
  const calibrations = useResource<Calibrations>('/api/v1/calibration', { topics: ['calibration'] });
  const [wish, setWish] = useState<Wish | null>(null);
  const { data, error, loading, reload } = calibrations;
  return (
    <>
      <h1>Calibration</h1>
      <p className={styles.lead}>
        What starts on this host taught. A start that took more than the formula said raises the next estimate; none is
        ever below the formula.
      </p>
      {error && <ErrorNote error={error} what="What was learned could not be read" retry={reload} />}
      {loading && <Skeleton label="Reading what was learned" lines={6} />}
      {data && <Learned all={data} ask={setWish} />}
      <Forget wish={wish} close={() => setWish(null)} done={reload} />
    </>
  );
}

function Learned({ all, ask }: { all: Calibrations; ask: Ask }) {
  const models = useMemo(() => comparisons(all.records), [all.records]);
  const columns = useMemo(() => columnsOf(ask), [ask]);
  const { records, oom_floors, durations, asleep } = all;
  const newest = useMemo(() => [...records].reverse(), [records]);

  if (records.length + oom_floors.length + durations.length + asleep.length === 0) {
    return (
      <Empty title="Nothing was learned yet">
        <p>A deployment is measured some seconds after it is ready; how long it took to load is kept then, too.</p>
      </Empty>
    );
  }
  const forgetModel = (fingerprint: string) => {
    const its = ofModel(all, fingerprint);
    const name = models.find((one) => one.fingerprint === fingerprint)?.name ?? fingerprint;
    ask({ id: fingerprint, title: `Forget all of ${name}?`, what: countText(its), floors: its.oom_floors });
  };
  return (
    <>
      {oom_floors.length > 0 && (
        <Section title="Sizes that ran out of memory">
          <p>With these configurations an engine was killed. Until that is forgotten, a start reserves a tenth more.</p>
          <DataTable
            label="Sizes that ran out of memory"
            rows={oom_floors}
            columns={columns.floors}
            rowKey={idOf}
            rowName={modelName}
            details={evidence}
          />
        </Section>
      )}
      {models.length > 0 && (
        <Section title="Measured against the formula">
          <ComparisonChart models={models} forget={forgetModel} />
        </Section>
      )}
      {records.length > 0 && (
        <Section title="Records">
          <DataTable
            label="Records"
            rows={newest}
            columns={columns.records}
            rowKey={idOf}
            rowName={modelName}
            details={configuration}
            limit={25}
          />
        </Section>
      )}
      {durations.length > 0 && (
        <Section title="How long it took, the last time">
          <DataTable label="Durations" rows={durations} columns={columns.durations} rowKey={idOf} />
        </Section>
      )}
      {asleep.length > 0 && (
        <Section title="What it held asleep, the last time">
          <DataTable
            label="Sizes asleep"
            rows={asleep}
            columns={columns.asleep}
            rowKey={idOf}
            rowName={modelName}
            details={configuration}
          />
        </Section>
      )}
    </>
  );
}

/** Asks before anything is forgotten, and names what a size that ran out of memory is for. */
function Forget({ wish, close, done }: { wish: Wish | null; close: () => void; done: () => void }) {
  return (
    <ConfirmDialog
      title={wish?.title ?? ''}
      open={wish !== null}
      onClose={close}
      action="Forget"
      danger={(wish?.floors.length ?? 0) > 0}
      onConfirm={async () => {
        if (!wish) return;
        const floors = wish.floors.length > 0 ? '?oom_floors=1' : '';
        await request('DELETE', path`/api/v1/calibration/${wish.id}` + floors);
        done();
      }}
    >
      <p className="foreign">{wish?.what}</p>
      {wish && wish.floors.length > 0 && (
        <Note kind="warning">
          <p>
            {wish.floors.map((floor) => formatBytes(floor.killed_bytes)).join(', ')} ran out of memory here. The next
            start is sized as if it had not: it may be killed again, and take others with it. Forget it only when its
            cause is gone, such as an engine that you have updated.
          </p>
        </Note>
      )}
      <p className="quiet">Estimates and plans go without it at once. What runs is not touched.</p>
    </ConfirmDialog>
  );
}

const idOf = (row: { id: string }) => row.id;
const configuration = (row: { configuration: string }) => <p className="foreign mono">{row.configuration}</p>;
const evidence = (row: OomFloor) => (
  <>
    <p className="foreign">Evidence: {row.evidence}</p>
    {configuration(row)}
  </>
);

interface Named {
  id: string;
  model: string;
  fingerprint: string;
  recorded_at: string;
}

function model<T extends Named & { configuration?: string }>(): Column<T> {
  return {
    key: 'model',
    title: 'Model',
    sortBy: modelName,
    render: (row) => (
      <>
        <span className="foreign">{modelName(row)}</span>
        {row.configuration !== undefined && (
          <span className={styles.under}>{configurationSummary(row.configuration)}</span>
        )}
      </>
    ),
  };
}

function recorded<T extends Named>(): Column<T> {
  return {
    key: 'recorded',
    title: 'Age',
    align: 'end',
    sortBy: (row) => row.recorded_at,
    render: (row) => <Age since={row.recorded_at} />,
  };
}

function forgetButton<T extends Named>(ask: Ask, wishOf: (row: T) => Omit<Wish, 'id'>): Column<T> {
  return {
    key: 'forget',
    title: 'Action',
    align: 'end',
    render: (row) => (
      <Button small onClick={() => ask({ id: row.id, ...wishOf(row) })} aria-label={`Forget … ${wishOf(row).what}`}>
        Forget …
      </Button>
    ),
  };
}

function action(row: Duration): string {
  return row.level === null ? row.action : `${row.action}, level ${row.level}`;
}

function columnsOf(ask: Ask) {
  const records: Column<CalibrationRecord>[] = [
    model(),
    {
      key: 'measured',
      title: 'Measured',
      align: 'end',
      sortBy: (row) => row.measured_bytes,
      render: (row) => <Size bytes={row.measured_bytes} />,
    },
    {
      key: 'formula',
      title: 'Formula',
      align: 'end',
      sortBy: (row) => row.formula_bytes,
      render: (row) => <Size bytes={row.formula_bytes} />,
    },
    {
      key: 'factor',
      title: 'Factor',
      align: 'end',
      sortBy: factorOf,
      render: (row) => {
        const factor = factorOf(row);
        return factor === null ? <Unknown word="–" reason="The formula said nothing" /> : formatFactor(factor);
      },
    },
    recorded(),
    forgetButton(ask, (row) => ({
      title: 'Forget this measurement?',
      what: `${modelName(row)}: measured ${formatBytes(row.measured_bytes)}, the formula had said ${formatBytes(row.formula_bytes)}`,
      floors: [],
    })),
  ];
  const floors: Column<OomFloor>[] = [
    model(),
    {
      key: 'killed',
      title: 'Killed at',
      align: 'end',
      sortBy: (row) => row.killed_bytes,
      render: (row) => <Size bytes={row.killed_bytes} />,
    },
    { key: 'kills', title: 'Times', align: 'end', sortBy: (row) => row.kills, render: (row) => row.kills },
    {
      key: 'next',
      title: 'Next start at least',
      align: 'end',
      render: (row) => <Size bytes={Math.ceil((row.killed_bytes * 11) / 10)} />,
    },
    recorded(),
    forgetButton(ask, (row) => ({
      title: 'Forget that this ran out of memory?',
      what: `${modelName(row)}: killed at ${formatBytes(row.killed_bytes)}`,
      floors: [row],
    })),
  ];
  const durations: Column<Duration>[] = [
    model(),
    { key: 'action', title: 'What', sortBy: action, render: action },
    {
      key: 'took',
      title: 'Took',
      align: 'end',
      sortBy: (row) => row.took_s,
      render: (row) => formatDuration(row.took_s),
    },
    recorded(),
    forgetButton(ask, (row) => ({
      title: 'Forget how long this took?',
      what: `${modelName(row)}: ${action(row)} took ${formatDuration(row.took_s)}`,
      floors: [],
    })),
  ];
  const asleep: Column<SizeAsleep>[] = [
    model(),
    { key: 'level', title: 'Level', align: 'end', sortBy: (row) => row.level, render: (row) => row.level },
    {
      key: 'asleep',
      title: 'Held asleep',
      align: 'end',
      sortBy: (row) => row.asleep_bytes,
      render: (row) => <Size bytes={row.asleep_bytes} />,
    },
    {
      key: 'freed',
      title: 'Gave back',
      align: 'end',
      sortBy: (row) => row.freed_bytes,
      render: (row) => <Size bytes={row.freed_bytes} />,
    },
    recorded(),
    forgetButton(ask, (row) => ({
      title: 'Forget what it held asleep?',
      what: `${modelName(row)}: ${formatBytes(row.asleep_bytes)} asleep at level ${row.level}`,
      floors: [],
    })),
  ];
  return { records, floors, durations, asleep };
}
