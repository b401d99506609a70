import { useMemo } from 'react';
import type { Deployment, Plan } from '../../api/types';
import { Button } from '../../components/Button';
import { classes } from '../../components/classes';
import { Facts } from '../../components/Facts';
import { MemoryBar } from '../../components/MemoryBar';
import { Note } from '../../components/Note';
import { Size } from '../../components/Size';
import { formatDuration } from '../../format/time';
import { changedBar, type Bar } from '../../memory/segments';
import { changeOf, takesText, victimsOf } from '../../plans/plans';
import styles from './PlansPage.module.css';

interface Props {
  plan: Plan;
  /** The memory as it is; null: not known. */
  now: Bar | null;
  deployments: readonly Deployment[];
  /** What is asked for. */
  label: string;
  /** null: it cannot be carried out any more. */
  onApply: (() => void) | null;
}

/** A plan: what it does, before and after, what it costs, and the button that carries it out. */
export function PlanCard({ plan, now, deployments, label, onApply }: Props) {
  const after = useMemo(
    () => now && changedBar(now, changeOf(plan, now, deployments, label)),
    [now, plan, deployments, label],
  );
  const interrupts = victimsOf(plan).length > 0;
  const unsafe = plan.unsafe.length > 0;
  return (
    <article className={classes('card', styles.card, plan.recommended && styles.recommended)} aria-label={plan.title}>
      <div className={styles.title}>
        <h2 className="foreign">{plan.title}</h2>
        <span className="row">
          {plan.recommended && <span className={classes(styles.tag, styles.good)}>★ recommended</span>}
          {unsafe && <span className={classes(styles.tag, styles.warn)}>! unsafe</span>}
          {!plan.fits && <span className={styles.tag}>not enough</span>}
        </span>
      </div>
      {plan.why !== null && <p className="foreign">Recommended: {plan.why}</p>}
      {unsafe && (
        <Note kind="warning">
          <ul>
            {plan.unsafe.map((reason) => (
              <li key={reason} className="foreign">
                {reason}
              </li>
            ))}
          </ul>
        </Note>
      )}
      {now && after && (
        <div className={styles.bars}>
          <p className={styles.moment}>Before</p>
          <MemoryBar bar={now} label="Memory before the plan" compact />
          <p className={styles.moment}>After</p>
          <MemoryBar bar={after} label="Memory after the plan" compact />
        </div>
      )}
      <Facts
        facts={{
          needs: <Size bytes={plan.needed_bytes} />,
          ...(plan.fits
            ? { leaves: <Size bytes={plan.left_bytes} /> }
            : { 'still missing': <Size bytes={plan.shortfall_bytes} /> }),
          [interrupts ? 'frees' : 'saves']: plan.frees_bytes !== null && <Size bytes={plan.frees_bytes} />,
          takes: takesText(plan, formatDuration),
          estimate: plan.confidence,
          model: plan.model,
        }}
      />
      {plan.costs.length > 0 && (
        <ul className={styles.bullets} aria-label="What it costs">
          {plan.costs.map((cost) => (
            <li key={cost} className="foreign">
              {cost}
            </li>
          ))}
        </ul>
      )}
      <div className={styles.foot}>
        <code className="quiet">{plan.id}</code>
        {plan.fits && onApply && (
          <Button
            kind={plan.recommended ? 'primary' : 'plain'}
            onClick={onApply}
            aria-label={`Carry it out … (${plan.title})`}
          >
            Carry it out …
          </Button>
        )}
      </div>
    </article>
  );
}
