import { useState } from 'react';
import type { Deployment, Plan } from '../../api/types';
import { ConfirmDialog } from '../../components/Dialog';
import { Interrupted } from '../../components/Interrupted';
import { Note } from '../../components/Note';
import { formatDuration } from '../../format/time';
import { takesText, victimsOf } from '../../plans/plans';
import styles from './PlansPage.module.css';

interface Props {
  plan: Plan;
  deployments: readonly Deployment[];
  onClose: () => void;
  onApply: (even_if_busy: boolean) => Promise<void>;
}

/** Names who is interrupted, and carries the plan out once that is confirmed. */
export function ApplyDialog({ plan, deployments, onClose, onApply }: Props) {
  const [even_if_busy, setEvenIfBusy] = useState(false);
  const victims = victimsOf(plan);
  return (
    <ConfirmDialog
      open
      onClose={onClose}
      title="Carry this plan out?"
      action="Carry it out"
      danger={victims.length > 0 || plan.unsafe.length > 0}
      onConfirm={() => onApply(even_if_busy)}
    >
      <p className="foreign">
        <strong>{plan.title}</strong>
      </p>
      {victims.length === 0 && <p>Nobody is interrupted.</p>}
      {victims.map(({ id, sleep }) => {
        const deployment = deployments.find((one) => one.id === id);
        return (
          <div key={id} className="stack">
            <p>
              <strong className="foreign">{deployment?.name ?? `Deployment ${id}`}</strong>
              {deployment && ` (${deployment.state})`}{' '}
              {sleep === null ? 'is stopped' : `is put to sleep (level ${sleep})`}.
            </p>
            {deployment && <Interrupted deployment={deployment} />}
          </div>
        );
      })}
      {plan.unsafe.length > 0 && (
        <Note kind="warning">
          <strong>Unsafe</strong>
          <ul>
            {plan.unsafe.map((reason) => (
              <li key={reason} className="foreign">
                {reason}
              </li>
            ))}
          </ul>
        </Note>
      )}
      {plan.costs.length > 0 && (
        <ul className={styles.bullets}>
          {plan.costs.map((cost) => (
            <li key={cost} className="foreign">
              {cost}
            </li>
          ))}
        </ul>
      )}
      <p className="quiet">
        Takes {takesText(plan, formatDuration)}. It can be cancelled while it runs, and is undone when a step fails.
      </p>
      {victims.length > 0 && (
        <label className={styles.check}>
          <input type="checkbox" checked={even_if_busy} onChange={(event) => setEvenIfBusy(event.target.checked)} />
          Also if one of them has got requests in flight by then
        </label>
      )}
    </ConfirmDialog>
  );
}
