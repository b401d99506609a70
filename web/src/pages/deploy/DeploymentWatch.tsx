import { useRef, useState } from 'react';
import type { Calibrations, Deployment } from '../../api/types';
import { Age } from '../../components/Age';
import { Button } from '../../components/Button';
import { LogView } from '../../components/LogView';
import { Note } from '../../components/Note';
import { Size } from '../../components/Size';
import { StateBadge } from '../../components/StateBadge';
import { lastLoad_s, loadedBytes } from '../../deploy/progress';
import { formatBytes } from '../../format/bytes';
import { formatDuration } from '../../format/time';
import { useDaemon } from '../../state/daemon';
import { useResource } from '../../state/resource';
import styles from './DeployPage.module.css';

/** A deployment that starts: how far it is, its log, and what came of it; not the failure that is `told` already. */
export function DeploymentWatch({ deployment, told }: { deployment: Deployment; told?: string | undefined }) {
  const { id, name, state, phase } = deployment;
  const coming = state === 'starting' || state === 'loading';
  return (
    <div className="stack">
      <div className="row" role="status">
        <StateBadge state={state} />
        {coming && phase !== '' && <span className="foreign">{phase}</span>}
        {deployment.queue_place !== null && (
          <span>
            {deployment.queue_place === 1 ? 'next to load' : `waits: ${deployment.queue_place - 1} before it`}
          </span>
        )}
      </div>
      {coming && <Progress deployment={deployment} />}
      {state === 'ready' && <Ready deployment={deployment} />}
      {state === 'sleeping' && <p>It sleeps.</p>}
      {state === 'stopped' && <p>It was stopped.</p>}
      {deployment.failure && deployment.failure.message !== told && (
        <Note kind={state === 'failed' ? 'error' : 'warning'} role="alert">
          <p className="foreign">{deployment.failure.message}</p>
          {deployment.failure.hint !== '' && <p className="foreign quiet">{deployment.failure.hint}</p>}
          {deployment.failure.last_lines.length > 0 && (
            <pre className={styles.lines}>{deployment.failure.last_lines.join('\n')}</pre>
          )}
        </Note>
      )}
      <h3>Log of its engine</h3>
      <div className={styles.log}>
        <LogView deployment={id} name={name} tail={200} />
      </div>
    </div>
  );
}

function Progress({ deployment }: { deployment: Deployment }) {
  const budget = useDaemon((daemon) => daemon.budget);
  const calibration = useResource<Calibrations>('/api/v1/calibration', { topics: ['calibration'] });
  const expected_s = calibration.data ? lastLoad_s(deployment, calibration.data.durations) : null;
  const loaded = loadedBytes(deployment, budget);
  return (
    <>
      <p className="row">
        <span>
          {deployment.state} for <Age since={deployment.state_since} exact />
        </span>
        <span className="quiet">
          {expected_s !== null
            ? `loading took ${formatDuration(expected_s)} the last time`
            : calibration.data && 'how long it takes is not known yet: no load of this model was measured'}
        </span>
      </p>
      {loaded && (
        <div className={styles.progress}>
          <progress
            aria-label="Memory that it holds already"
            aria-valuetext={`${formatBytes(loaded.held_bytes)} of ${formatBytes(loaded.expected_bytes)}`}
            value={loaded.held_bytes}
            max={loaded.expected_bytes}
          />
          <span>
            holds <Size bytes={loaded.held_bytes} atLeast={loaded.atLeast} /> of <Size bytes={loaded.expected_bytes} />
          </span>
        </div>
      )}
    </>
  );
}

function Ready({ deployment }: { deployment: Deployment }) {
  const address = useRef<HTMLInputElement>(null);
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(deployment.url);
      setCopied(true);
    } catch {
      address.current?.select(); // a page that came over plain HTTP from elsewhere may not write to the clipboard
    }
  };
  return (
    <Note kind="info">
      <p>
        <strong className="foreign">{deployment.name}</strong> is ready. Reserved{' '}
        <Size bytes={deployment.reserved_bytes} />, measured{' '}
        <Size
          bytes={deployment.measured?.total_bytes}
          atLeast={deployment.measured?.complete === false}
          reason="It was not measured yet"
        />
        .
      </p>
      <div className={styles.address}>
        <input
          ref={address}
          readOnly
          aria-label="Address of its API"
          value={deployment.url}
          onFocus={(event) => event.target.select()}
        />
        <Button onClick={() => void copy()}>{copied ? 'Copied' : 'Copy'}</Button>
      </div>
      <p className="foreign quiet">Model name in its API: {deployment.served_name}</p>
    </Note>
  );
}
