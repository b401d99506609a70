import { useId, useState } from 'react';
import type { Deployment } from '../../api/types';
import { ConfirmDialog, Dialog } from '../../components/Dialog';
import { Interrupted } from '../../components/Interrupted';
import { LogView } from '../../components/LogView';
import { Note } from '../../components/Note';
import { Size } from '../../components/Size';
import {
  changeDeployment,
  removeDeployment,
  restartDeployment,
  sleepDeployment,
  stopDeployment,
} from '../../state/actions';
import type { RowHandlers } from './Deployments';

export type DialogKind = 'stop' | 'restart' | 'sleep' | 'remove' | 'priority' | 'logs';

interface Props {
  kind: DialogKind;
  /** undefined: it is gone by now. */
  deployment: Deployment | undefined;
  run: RowHandlers['run'];
  onClose: () => void;
}

/** The question before an action, or the window for it. */
export function DeploymentDialog({ kind, deployment, run, onClose }: Props) {
  if (!deployment) return null;
  const { id, name } = deployment;
  const confirm = { open: true, onClose };
  // The row shows how it goes on; a dialog need not stay for that.
  const begin = (what: string, work: () => Promise<void>) => () => {
    run(what, work());
    return Promise.resolve();
  };
  switch (kind) {
    case 'stop':
      return (
        <ConfirmDialog
          {...confirm}
          title={`Stop ${name}?`}
          action={`Stop ${name}`}
          danger
          onConfirm={begin(`Stopping ${name}`, () => stopDeployment(id))}
        >
          <Interrupted deployment={deployment} />
          <p>Its memory is given back. To serve again, it has to load again.</p>
        </ConfirmDialog>
      );
    case 'restart':
      return (
        <ConfirmDialog
          {...confirm}
          title={`Restart ${name}?`}
          action={`Restart ${name}`}
          danger
          onConfirm={begin(`Restarting ${name}`, () => restartDeployment(id))}
        >
          <Interrupted deployment={deployment} />
          <p>It is stopped and then started with the same configuration, if it still fits then.</p>
        </ConfirmDialog>
      );
    case 'remove':
      return (
        <ConfirmDialog
          {...confirm}
          title={`Remove ${name}?`}
          action={`Remove ${name}`}
          danger
          onConfirm={() => removeDeployment(id)}
        >
          <p>It is forgotten, with its configuration and its log. The model stays on the disk.</p>
        </ConfirmDialog>
      );
    case 'sleep':
      return <SleepDialog deployment={deployment} run={run} onClose={onClose} />;
    case 'priority':
      return <PriorityDialog deployment={deployment} onClose={onClose} />;
    case 'logs':
      return (
        <Dialog open onClose={onClose} title={`Log of ${name}`} drawer>
          <LogView deployment={id} name={name} />
        </Dialog>
      );
  }
}

function SleepDialog({ deployment, run, onClose }: Omit<Props, 'kind' | 'deployment'> & { deployment: Deployment }) {
  const { id, name, busy } = deployment;
  const [level, setLevel] = useState(1);
  const group = useId();
  const levels = [
    [1, 'Level 1: drops the KV cache; the weights stay as copies in memory, and it wakes in seconds'],
    [2, 'Level 2: drops the weights too, and reads them again when it wakes'],
  ] as const;
  return (
    <ConfirmDialog
      open
      onClose={onClose}
      title={`Put ${name} to sleep?`}
      action={busy === true ? 'Finish its requests, then sleep' : `Put ${name} to sleep`}
      onConfirm={() => {
        run(`Putting ${name} to sleep`, sleepDeployment(id, level, busy === true));
        return Promise.resolve();
      }}
    >
      {busy === true && <Note kind="warning">{name} has requests in flight: they are finished first.</Note>}
      <fieldset className="stack">
        <legend>How deep</legend>
        {levels.map(([value, text]) => (
          <label key={value} className="row">
            <input type="radio" name={group} checked={level === value} onChange={() => setLevel(value)} />
            {text}
          </label>
        ))}
      </fieldset>
      {deployment.sleep_freed_bytes !== null && (
        <p className="quiet">
          When it last fell asleep, that gave back <Size bytes={deployment.sleep_freed_bytes} />.
        </p>
      )}
    </ConfirmDialog>
  );
}

function PriorityDialog({ deployment, onClose }: { deployment: Deployment; onClose: () => void }) {
  const id = useId();
  const [value, setValue] = useState(String(deployment.priority));
  const valid = /^-?\d+$/.test(value.trim());
  return (
    <ConfirmDialog
      open
      onClose={onClose}
      title={`Priority of ${deployment.name}`}
      action="Change"
      onConfirm={async () => {
        if (valid) await changeDeployment(deployment.id, { priority: Number(value) });
      }}
    >
      <label htmlFor={id}>Priority</label>
      <input
        id={id}
        inputMode="numeric"
        value={value}
        aria-invalid={!valid}
        aria-describedby={`${id}-help`}
        onChange={(event) => setValue(event.target.value)}
      />
      <p id={`${id}-help`} className="quiet">
        {valid
          ? 'A whole number. When memory is short, those with a lower one give way first.'
          : 'Give a whole number.'}
      </p>
    </ConfirmDialog>
  );
}
