import type { Deployment } from '../../api/types';
import { Button } from '../../components/Button';
import { ActionMenu, type MenuAction } from '../../components/Menu';
import { canSleep, hasEnded } from '../../memory/deployment';
import { changeDeployment, startDeployment, wakeDeployment } from '../../state/actions';
import type { RowHandlers } from './Deployments';
import styles from './MemoryPage.module.css';

/** The likeliest action as a button, the others in a menu. */
export function RowActions({ deployment, handlers }: { deployment: Deployment; handlers: RowHandlers }) {
  const { id, name, state, pinned } = deployment;
  const { ask, run } = handlers;
  const start = () => run(`Starting ${name}`, startDeployment(id));
  const wake = () => run(`Waking ${name}`, wakeDeployment(id));

  const actions: MenuAction[] = [];
  const offer = (wanted: boolean, label: string, onSelect: () => void) => wanted && actions.push({ label, onSelect });
  offer(canSleep(deployment), 'Put to sleep …', () => ask('sleep', id));
  offer(state === 'sleeping', 'Stop …', () => ask('stop', id));
  offer(!hasEnded(deployment) && state !== 'stopping', 'Restart …', () => ask('restart', id));
  offer(true, 'Logs', () => ask('logs', id));
  offer(true, 'Priority …', () => ask('priority', id));
  offer(true, pinned ? 'Unpin' : 'Pin', () =>
    run(`${pinned ? 'Unpinning' : 'Pinning'} ${name}`, changeDeployment(id, { pinned: !pinned })),
  );
  offer(hasEnded(deployment), 'Remove …', () => ask('remove', id));

  return (
    <span className={styles.actions}>
      {hasEnded(deployment) ? (
        <Button small onClick={start} aria-label={`Start ${name} again`}>
          Start
        </Button>
      ) : state === 'sleeping' ? (
        <Button small onClick={wake} aria-label={`Wake ${name}`}>
          Wake
        </Button>
      ) : (
        <Button small disabled={state === 'stopping'} onClick={() => ask('stop', id)} aria-label={`Stop ${name}`}>
          Stop
        </Button>
      )}
      <ActionMenu label={`More for ${name}`} actions={actions} />
    </span>
  );
}
