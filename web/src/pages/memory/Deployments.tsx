import { useMemo, useState } from 'react';
import type { Deployment, Measured } from '../../api/types';
import { asApiError, type ApiError } from '../../api/problem';
import { Age } from '../../components/Age';
import { DataTable, type Column } from '../../components/DataTable';
import { ActionMenu } from '../../components/Menu';
import { ErrorNote } from '../../components/Note';
import { Size } from '../../components/Size';
import { StateBadge } from '../../components/StateBadge';
import { Unknown } from '../../components/Unknown';
import { formatCount } from '../../format/bytes';
import { contextOf, inFlight, inOrder, portOf, sequencesOf } from '../../memory/deployment';
import { useDaemon } from '../../state/daemon';
import { showRefusal } from '../../state/refusal';
import { useShared } from '../../state/shared';
import { DeploymentDetails } from './DeploymentDetails';
import { DeploymentDialog, type DialogKind } from './DeploymentDialog';
import { otherActions, RowActions } from './RowActions';
import styles from './MemoryPage.module.css';

/** A deployment, with what it holds by the newest reading of the host. */
export interface DeploymentRow {
  id: number;
  deployment: Deployment;
  measured: Measured | null;
}

/** What a row may ask for. */
export interface RowHandlers {
  ask: (kind: DialogKind, id: number) => void;
  /** Does it at once; a failure is shown, and one that does not fit shows its plans. */
  run: (what: string, work: Promise<void>) => void;
  /** Opens the menu of its other actions, or closes it, at that button. */
  more: (id: number, button: HTMLElement) => void;
}

export function Deployments({ deployments }: { deployments: readonly Deployment[] }) {
  const counted = useDaemon((state) => state.budget?.deployments);
  const [dialog, setDialog] = useState<{ kind: DialogKind; id: number } | null>(null);
  const [menu, setMenu] = useState<{ id: number; button: HTMLElement } | null>(null);
  const [failed, setFailed] = useState<{ what: string; error: ApiError } | null>(null);

  const rows = useShared(
    useMemo(() => {
      const measured = new Map(counted?.map((one) => [one.id, one.measured]));
      return inOrder(deployments).map((deployment): DeploymentRow => {
        const held = measured.has(deployment.id) ? measured.get(deployment.id) : deployment.measured;
        return { id: deployment.id, deployment, measured: held ?? null };
      });
    }, [deployments, counted]),
  );

  const handlers = useMemo(
    (): RowHandlers => ({
      ask: (kind, id) => setDialog({ kind, id }),
      more: (id, button) => setMenu((old) => (old?.button === button ? null : { id, button })),
      run: (what, work) => {
        setFailed(null);
        work.catch((thrown: unknown) => {
          const error = asApiError(thrown);
          if (error && !showRefusal(error, what)) setFailed({ what, error });
        });
      },
    }),
    [],
  );
  const columns = useMemo(() => columnsWith(handlers), [handlers]);

  const inMenu = deployments.find((one) => one.id === menu?.id);

  return (
    <>
      {failed && <ErrorNote error={failed.error} what={failed.what} close={() => setFailed(null)} />}
      <DataTable
        label="Deployments"
        rows={rows}
        columns={columns}
        rowKey={rowKey}
        rowName={rowName}
        details={DeploymentDetails}
      />
      <ActionMenu
        label={`More for ${inMenu?.name ?? ''}`}
        anchor={(inMenu && menu?.button) ?? null}
        actions={inMenu ? otherActions(inMenu, handlers) : []}
        onClose={() => setMenu(null)}
      />
      {dialog && (
        <DeploymentDialog
          key={`${dialog.kind} ${dialog.id}`}
          kind={dialog.kind}
          deployment={deployments.find((one) => one.id === dialog.id)}
          run={handlers.run}
          onClose={() => setDialog(null)}
        />
      )}
    </>
  );
}

const rowKey = (row: DeploymentRow) => row.id;
const rowName = (row: DeploymentRow) => row.deployment.name;

function columnsWith(handlers: RowHandlers): Column<DeploymentRow>[] {
  return [
    {
      key: 'name',
      title: 'Name',
      sortBy: ({ deployment }) => deployment.name,
      render: ({ deployment }) => (
        <>
          <span className={`${styles.name} foreign`}>{deployment.name}</span>
          <span className={`${styles.under} foreign`}>{deployment.model_name}</span>
        </>
      ),
    },
    {
      key: 'state',
      title: 'State',
      sortBy: ({ deployment }) => deployment.state,
      render: ({ deployment }) => <State deployment={deployment} />,
    },
    {
      key: 'measured',
      title: 'Measured',
      align: 'end',
      sortBy: ({ measured }) => measured?.total_bytes ?? null,
      render: ({ deployment, measured }) => <MeasuredSize deployment={deployment} measured={measured} />,
    },
    {
      key: 'reserved',
      title: 'Reserved',
      align: 'end',
      sortBy: ({ deployment }) => deployment.reserved_bytes,
      render: ({ deployment }) => <Size bytes={deployment.reserved_bytes} />,
    },
    { key: 'activity', title: 'Activity', render: ({ deployment }) => <Activity deployment={deployment} /> },
    {
      key: 'context',
      title: 'Context',
      align: 'end',
      sortBy: ({ deployment }) => contextOf(deployment.config),
      render: ({ deployment }) => <Context deployment={deployment} />,
    },
    {
      key: 'engine',
      title: 'Engine',
      sortBy: ({ deployment }) => deployment.config.engine,
      render: ({ deployment }) => (
        <>
          {deployment.config.engine}
          <span className={styles.under}>
            {deployment.runtime === 'docker' ? 'container' : deployment.runtime}
            {deployment.outdated !== null && <span title={deployment.outdated}>, outdated</span>}
          </span>
        </>
      ),
    },
    {
      key: 'port',
      title: 'Port',
      align: 'end',
      render: ({ deployment }) => portOf(deployment) ?? <Unknown word="–" reason="It has no port" />,
    },
    {
      key: 'priority',
      title: 'Priority',
      align: 'end',
      sortBy: ({ deployment }) => deployment.priority,
      render: ({ deployment }) => (
        <>
          {deployment.priority}
          {deployment.pinned && <span className={styles.under}>pinned</span>}
        </>
      ),
    },
    {
      key: 'actions',
      title: 'Actions',
      render: ({ deployment }) => <RowActions deployment={deployment} handlers={handlers} />,
    },
  ];
}

function State({ deployment }: { deployment: Deployment }) {
  const { state, state_since, phase, queue_place, failure, sleep_level } = deployment;
  return (
    <>
      <StateBadge state={state} title={failure?.message ?? ''} />
      <span className={`${styles.under} foreign`}>
        {queue_place !== null ? (
          <>number {queue_place} in the queue</>
        ) : phase !== '' && (state === 'starting' || state === 'loading') ? (
          phase
        ) : failure ? (
          failure.message
        ) : (
          <>
            {sleep_level !== null && <>level {sleep_level}, </>}
            for <Age since={state_since} />
          </>
        )}
      </span>
    </>
  );
}

function MeasuredSize({ deployment, measured }: { deployment: Deployment; measured: Measured | null }) {
  if (!measured) {
    const gone = deployment.state === 'stopped' || deployment.state === 'failed';
    return gone ? <Unknown word="–" reason="It holds nothing" /> : <Unknown reason="Not measured yet" />;
  }
  return (
    <>
      <Size bytes={measured.total_bytes} atLeast={!measured.complete} />
      {measured.approximate && (
        <span className={styles.under} title="Added up over its processes: it has no memory group of its own">
          about
        </span>
      )}
    </>
  );
}

function Activity({ deployment }: { deployment: Deployment }) {
  if (deployment.state !== 'ready') return <Unknown word="–" reason="It does not serve" />;
  if (deployment.busy === null) return <Unknown reason="The engine does not say whether requests are in flight" />;
  if (deployment.busy) {
    return (
      <>
        <strong>busy</strong>
        {deployment.requests_in_flight !== null && (
          <span className={styles.under}>{inFlight(deployment.requests_in_flight)}</span>
        )}
      </>
    );
  }
  return deployment.idle_since === null ? (
    <>idle</>
  ) : (
    <>
      idle for <Age since={deployment.idle_since} />
    </>
  );
}

function Context({ deployment }: { deployment: Deployment }) {
  const context = contextOf(deployment.config);
  const sequences = sequencesOf(deployment.config);
  return (
    <>
      {context === null ? <Unknown /> : formatCount(context)}
      {sequences !== null && sequences > 1 && <span className={styles.under}>{formatCount(sequences)} at once</span>}
    </>
  );
}
