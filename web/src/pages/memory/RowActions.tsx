import type { Deployment } from '../../api/types';
import { Button } from '../../components/Button';
import type { MenuAction } from '../../components/Menu';
import { canSleep, hasEnded } from '../../memory/deployment';
import { changeDeployment, startDeployment, wakeDeployment } from '../../state/actions';
import type { RowHandlers } from './Deployments';
import styles from './MemoryPage.module.css';

/** The likeliest action as a button, and one that opens the menu of the others. */
export function RowActions({ deployment, handlers }: { deployment: Deployment; handlers: RowHandlers }) {
  const { id, name, state } = deployment;
  const { ask, run, more } = handlers;
  return (
    <span className={styles.actions}>
      {hasEnded(deployment) ? (
        <Button small onClick={() => run(`Starting ${name}`, startDeployment(id))} aria-label={`Start ${name} again`}>
          Start
        </Button>
      ) : state === 'sleeping' ? (
        <Button small onClick={() => run(`Waking ${name}`, wakeDeployment(id))} aria-label={`Wake ${name}`}>
          Wake
        </Button>
      ) : (
        <Button small disabled={state === 'stopping'} onClick={() => ask('stop', id)} aria-label={`Stop ${name}`}>
          Stop
        </Button>
      )}
      <Button
        small
        aria-label={`More for ${name}`}
        aria-haspopup="menu"
        onClick={(event) => more(id, event.currentTarget)}
      >
        ⋯
      </Button>
    </span>
  );
}

/** What else can be done with a deployment. */
export function otherActions(deployment: Deployment, { ask, run }: RowHandlers): MenuAction[] {
  const { id, name, state, pinned } = deployment;
  const offers: [boolean, string, () => void][] = [
    [canSleep(deployment), 'Put to sleep …', () => ask('sleep', id)],
    [state === 'sleeping', 'Stop …', () => ask('stop', id)],
    [!hasEnded(deployment) && state !== 'stopping', 'Restart …', () => ask('restart', id)],
    [true, 'Logs', () => ask('logs', id)],
    [true, 'Priority …', () => ask('priority', id)],
    [
      true,
      pinned ? 'Unpin' : 'Pin',
      () => run(`${pinned ? 'Unpinning' : 'Pinning'} ${name}`, changeDeployment(id, { pinned: !pinned })),
    ],
    [hasEnded(deployment), 'Remove …', () => ask('remove', id)],
  ];
  return offers.filter(([offered]) => offered).map(([, label, onSelect]) => ({ label, onSelect }));
}
