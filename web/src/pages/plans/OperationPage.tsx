import { useState } from 'react';
import { path, request } from '../../api/client';
import type { Operation, OperationStep, Plans } from '../../api/types';
import { href } from '../../app/router';
import { Age } from '../../components/Age';
import { Button, ButtonLink } from '../../components/Button';
import { classes } from '../../components/classes';
import { ConfirmDialog } from '../../components/Dialog';
import { ErrorNote, Note } from '../../components/Note';
import { Empty, Skeleton } from '../../components/Placeholder';
import { StateBadge } from '../../components/StateBadge';
import { formatDuration } from '../../format/time';
import { askedOf } from '../../plans/asked';
import { takesText } from '../../plans/plans';
import { keepOperation, useDaemon } from '../../state/daemon';
import { useResource } from '../../state/resource';
import { DeploymentWatch } from '../deploy/DeploymentWatch';
import styles from './PlansPage.module.css';

/** A plan being carried out, or how it ended. */
export function OperationPage({ id }: { id: string }) {
  const operations = useDaemon((daemon) => daemon.operations);
  const error = useDaemon((daemon) => daemon.errors.operations);
  const operation = operations?.find((one) => one.id === id);
  if (operation) return <Shown operation={operation} />;
  return (
    <>
      <h1>Plan</h1>
      {operations ? (
        <Empty title={`Operation ${id} is not known any more`}>
          <ButtonLink href={href('plans')}>Those that are</ButtonLink>
        </Empty>
      ) : error ? (
        <ErrorNote error={error} />
      ) : (
        <Skeleton label="Reading the operation" />
      )}
    </>
  );
}

function Shown({ operation }: { operation: Operation }) {
  const { state, failure, cancelled_at, queue_place } = operation;
  const running = state === 'running';
  const deployment = useDaemon((daemon) => daemon.deployments?.find((one) => one.id === operation.deployment));
  const [cancelling, setCancelling] = useState(false);
  return (
    <>
      <h1 className="foreign">{operation.title}</h1>
      <section className="card stack" aria-label="Steps">
        <div className="row" role="status">
          <StateBadge state={state} />
          <span className="foreign">
            plan {operation.plan} for {operation.model}
          </span>
          {queue_place !== null && <span>waits for its turn{queue_place > 1 && `: ${queue_place - 1} before it`}</span>}
          {running && cancelled_at !== null && <strong>is cancelled: what it did is undone</strong>}
          {running && cancelled_at === null && failure && <strong>failed: what it did is undone</strong>}
        </div>
        {running && <Time operation={operation} />}
        {operation.unsafe.length > 0 && (
          <p className="foreign quiet">It was carried out although: {operation.unsafe.join('; ')}.</p>
        )}
        <ol className={styles.steps}>
          {operation.steps.map((step, index) => (
            <Step key={`${index} ${step.what}`} step={step} ended={!running} />
          ))}
        </ol>
        {failure && (
          <Note kind={state === 'cancelled' ? 'info' : 'error'} role="alert">
            <p className="foreign">{failure.message}</p>
            {failure.hint !== '' && <p className="foreign quiet">{failure.hint}</p>}
            {failure.last_lines.length > 0 && <pre className={styles.lines}>{failure.last_lines.join('\n')}</pre>}
          </Note>
        )}
        {!running && <Undone steps={operation.steps} state={state} />}
        <div className="row">
          {running && cancelled_at === null && !failure && (
            <Button onClick={() => setCancelling(true)}>Cancel it …</Button>
          )}
          {operation.new_plan_set !== null && (
            <ButtonLink kind="primary" href={href('plans', [operation.new_plan_set])}>
              The plans by now
            </ButtonLink>
          )}
          {!running && state !== 'succeeded' && operation.new_plan_set === null && (
            <AskAgain set={operation.plan_set} />
          )}
          {!running && <ButtonLink href={href('memory')}>To the memory</ButtonLink>}
          {!running && <ButtonLink href={href('plans')}>All plans</ButtonLink>}
        </div>
      </section>
      {deployment && (
        <section className="card stack" aria-labelledby="operation-deployment">
          <h2 id="operation-deployment" className="foreign">
            {deployment.name}
          </h2>
          <DeploymentWatch key={deployment.id} deployment={deployment} told={failure?.message} />
        </section>
      )}
      <ConfirmDialog
        open={cancelling && running}
        onClose={() => setCancelling(false)}
        title="Cancel this plan?"
        action="Cancel the plan"
        danger
        onConfirm={async () => {
          keepOperation(await request<Operation>('POST', path`/api/v1/operations/${operation.id}/cancel`));
        }}
      >
        <p>What it has done is undone: what it stopped is started again, what it put to sleep is woken.</p>
        <p className="quiet">A step that is under way is waited for first.</p>
      </ConfirmDialog>
    </>
  );
}

/** To the form of what the plan was for, where this tab knows it. */
function AskAgain({ set }: { set: string }) {
  const form = askedOf(set)?.form;
  return form ? <ButtonLink href={href('deploy', [], { ...form })}>Ask again</ButtonLink> : null;
}

/** How long it has run, and how long it should take. */
function Time({ operation }: { operation: Operation }) {
  const begun = useDaemon((daemon) =>
    daemon.events.find((one) => one.type === 'operation.started' && one.data.operation === operation.id),
  );
  const plans = useResource<Plans>(path`/api/v1/plans/${operation.plan_set}`);
  const plan = plans.data?.plans.find((one) => one.id === operation.plan);
  if (!begun && !plan) return null;
  return (
    <p className="row">
      {begun && (
        <span>
          running for <Age since={begun.time} exact />
        </span>
      )}
      {plan && <span className="quiet">takes {takesText(plan, formatDuration)}</span>}
    </p>
  );
}

function Step({ step, ended }: { step: OperationStep; ended: boolean }) {
  return (
    <li className={classes(styles.step, step.state === 'running' && styles.current)}>
      <StateBadge state={ended && step.state === 'waiting' ? 'not begun' : step.state} />
      <span className="foreign">{step.what}</span>
      {step.message !== '' && <span className="foreign quiet">{step.message}</span>}
    </li>
  );
}

/** What was taken back of one that did not succeed. */
function Undone({ steps, state }: { steps: OperationStep[]; state: string }) {
  if (state === 'succeeded') return null;
  const undone = steps.filter((step) => step.state === 'undone');
  const left = steps.filter((step) => step.state === 'undo_failed');
  const names = (list: OperationStep[]) => list.map((step) => step.what).join(', ');
  return (
    <>
      {undone.length > 0 && <p className="foreign">Taken back: {names(undone)}.</p>}
      {left.length > 0 && (
        <Note kind="error">
          <p className="foreign">Could not be taken back: {names(left)}.</p>
        </Note>
      )}
      {undone.length === 0 && left.length === 0 && <p>Nothing had to be taken back.</p>}
    </>
  );
}
