import { useMemo, useState } from 'react';
import { path, request } from '../../api/client';
import { asApiError, type ApiError } from '../../api/problem';
import type { Deployment, Memory, Operation, Plan, Plans } from '../../api/types';
import { href, navigate } from '../../app/router';
import { Button, ButtonLink } from '../../components/Button';
import { MemoryBar } from '../../components/MemoryBar';
import { ErrorNote, Note } from '../../components/Note';
import { Skeleton } from '../../components/Placeholder';
import { Size } from '../../components/Size';
import { holdersOf } from '../../memory/holders';
import { budgetBar, changedBar } from '../../memory/segments';
import { askedOf, rememberAsked, type Asked } from '../../plans/asked';
import { differences } from '../../plans/plans';
import { keepDeployment, keepOperation, useDaemon } from '../../state/daemon';
import { useResource } from '../../state/resource';
import { ApplyDialog } from './ApplyDialog';
import { PlanCard } from './PlanCard';
import styles from './PlansPage.module.css';

const none: Deployment[] = [];

/** The plans for a request that does not fit, to choose one of. */
export function PlanSetPage({ set }: { set: string }) {
  const plans = useResource<Plans>(path`/api/v1/plans/${set}`);
  const asked = askedOf(set, plans.data);
  return (
    <>
      <h1>{plans.data?.fits_now ? 'It fits by now' : 'Does not fit'}</h1>
      {plans.error?.code === 'plan_not_found' ? (
        <Forgotten asked={asked} />
      ) : (
        plans.error && <ErrorNote error={plans.error} what="The plans could not be read" retry={plans.reload} />
      )}
      {plans.loading && <Skeleton label="Reading the plans" lines={6} />}
      {plans.data && <Shown plans={plans.data} asked={asked} forgotten={plans.error?.code === 'plan_not_found'} />}
    </>
  );
}

/** Asks for the plans of the same request once more, or starts it when it fits. */
function AskAgain({ asked }: { asked: Asked | null }) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<ApiError | null>(null);
  const wanted = asked?.request;
  if (!wanted) return <ButtonLink href={href('memory')}>To the memory</ButtonLink>;
  const ask = async () => {
    setBusy(true);
    setError(null);
    try {
      const plans = await request<Plans>('POST', '/api/v1/plans', { body: wanted });
      const again = { ...asked };
      delete again.changed; // told once
      rememberAsked(plans, again);
      navigate(href('plans', [plans.plan_set]), { replace: true });
    } catch (thrown) {
      setError(asApiError(thrown));
    } finally {
      setBusy(false);
    }
  };
  return (
    <>
      <Button busy={busy} onClick={() => void ask()}>
        Ask again
      </Button>
      {error && <ErrorNote error={error} />}
    </>
  );
}

function Forgotten({ asked }: { asked: Asked | null }) {
  return (
    <Note kind="warning" role="alert">
      <p>These plans are not known any more: dgxmm was restarted, or has made many others since.</p>
      <AskAgain asked={asked} />
    </Note>
  );
}

function Shown({ plans, asked, forgotten }: { plans: Plans; asked: Asked | null; forgotten: boolean }) {
  const budget = useDaemon((daemon) => daemon.budget);
  const deployments = useDaemon((daemon) => daemon.deployments) ?? none;
  const [chosen, setChosen] = useState<Plan | null>(null);
  const label = asked?.name ?? 'what is asked for';
  const now = useMemo(() => budget && budgetBar(budget), [budget]);
  const wanted = useMemo(
    () => now && changedBar(now, { adds: { label, bytes: plans.needed_bytes } }),
    [now, label, plans.needed_bytes],
  );

  const apply = async (plan: Plan, even_if_busy: boolean) => {
    try {
      const url = path`/api/v1/plans/${plans.plan_set}/${plan.id}/apply`;
      const operation = await request<Operation>('POST', even_if_busy ? `${url}?even_if_busy=1` : url);
      keepOperation(operation);
      navigate(href('plans', [plans.plan_set], { operation: operation.id }));
    } catch (thrown) {
      const error = asApiError(thrown);
      const others = error?.problem?.plans;
      if (!error || error.code !== 'plan_changed' || !others) throw thrown;
      const changed = { detail: error.message, differences: differences(plans, others) };
      rememberAsked(others, { what: 'This request', ...asked, changed });
      navigate(href('plans', [others.plan_set]), { replace: true });
    }
  };

  return (
    <>
      {asked?.changed && (
        <Note kind="warning" role="alert">
          <p>
            <strong>The plan was not carried out: the host has changed since it was shown.</strong> These are the plans
            by now.
          </p>
          <p className="foreign quiet">{asked.changed.detail}</p>
          {asked.changed.differences.length > 0 && (
            <ul className={styles.bullets}>
              {asked.changed.differences.map((one) => (
                <li key={one} className="foreign">
                  {one}
                </li>
              ))}
            </ul>
          )}
        </Note>
      )}
      <section className="card stack" aria-label="What is asked for">
        <p className="foreign">
          {asked && <strong>{asked.what}. </strong>}
          {plans.summary}
        </p>
        {wanted && <MemoryBar bar={wanted} label="Memory if it were started as it is" />}
        <div className="row">
          {plans.fits_now && asked?.request && <StartNow asked={asked} />}
          {!forgotten && <AskAgain asked={asked} />}
          {asked?.form && <ButtonLink href={href('deploy', [], { ...asked.form })}>Change the request</ButtonLink>}
        </div>
      </section>
      {!plans.fits_now && !plans.plans.some((plan) => plan.fits) && <NoPlan plans={plans} />}
      {plans.plans.length > 0 && (
        <ol className={styles.plans} aria-label="Plans">
          {plans.plans.map((plan) => (
            <li key={plan.id}>
              <PlanCard
                plan={plan}
                now={now}
                deployments={deployments}
                label={label}
                onApply={forgotten ? null : () => setChosen(plan)}
              />
            </li>
          ))}
        </ol>
      )}
      {chosen && (
        <ApplyDialog
          plan={chosen}
          deployments={deployments}
          onClose={() => setChosen(null)}
          onApply={(even_if_busy) => apply(chosen, even_if_busy)}
        />
      )}
    </>
  );
}

function StartNow({ asked }: { asked: Asked }) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<ApiError | null>(null);
  const start = async () => {
    setBusy(true);
    setError(null);
    try {
      const deployment = await request<Deployment>('POST', '/api/v1/deployments', { body: asked.request });
      keepDeployment(deployment);
      navigate(href('deploy', [deployment.id]));
    } catch (thrown) {
      setError(asApiError(thrown));
      setBusy(false);
    }
  };
  return (
    <>
      <Button kind="primary" busy={busy} onClick={() => void start()}>
        Start it
      </Button>
      {error && <ErrorNote error={error} />}
    </>
  );
}

/** Nothing that dgxmm may do is enough: says how much would be missing, and who else holds memory. */
function NoPlan({ plans }: { plans: Plans }) {
  // Who holds memory outside of deployments has no event of its own.
  const memory = useResource<Memory>('/api/v1/memory', { topics: ['orphans'], every_s: 10 });
  const holders = useMemo(() => (memory.data ? holdersOf(memory.data).slice(0, 6) : []), [memory.data]);
  return (
    <section className="card stack" aria-labelledby="no-plan">
      <h2 id="no-plan">No plan makes it fit</h2>
      {plans.missing_without_all_bytes !== null && (
        <p>
          With everything stopped that dgxmm started, <Size bytes={plans.missing_without_all_bytes} /> would still be
          missing.
        </p>
      )}
      <p>Choose a smaller model or less context, or stop something that dgxmm does not manage.</p>
      {holders.length > 0 && (
        <>
          <h3>Who else holds memory</h3>
          <ul className={styles.holders}>
            {holders.map((one) => (
              <li key={one.id}>
                <Size bytes={one.bytes} atLeast={one.atLeast} />
                <span className="foreign">
                  {one.who}
                  {one.orphan && <strong> left behind by an engine that ended</strong>}{' '}
                  <span className="quiet">{[one.kind, one.detail].filter(Boolean).join(', ')}</span>
                </span>
              </li>
            ))}
          </ul>
          <div className="row">
            <ButtonLink small href={href('processes')}>
              All processes
            </ButtonLink>
          </div>
        </>
      )}
    </section>
  );
}
