import { useState } from 'react';
import { href } from '../../app/router';
import { ButtonLink, Button } from '../../components/Button';
import { ConfirmDialog } from '../../components/Dialog';
import { ErrorNote } from '../../components/Note';
import { Empty, Skeleton } from '../../components/Placeholder';
import { stopDeployment } from '../../state/actions';
import { useDaemon } from '../../state/daemon';
import { DeploymentWatch } from './DeploymentWatch';

/** How a deployment starts. */
export function StartedPage({ id }: { id: number }) {
  const deployments = useDaemon((daemon) => daemon.deployments);
  const error = useDaemon((daemon) => daemon.errors.deployments);
  const [stopping, setStopping] = useState(false);
  const deployment = deployments?.find((one) => one.id === id);
  if (!deployments) {
    return (
      <>
        <h1>Deploy</h1>
        {error ? <ErrorNote error={error} /> : <Skeleton label="Reading the deployment" />}
      </>
    );
  }
  if (!deployment) {
    return (
      <>
        <h1>Deploy</h1>
        <Empty title={`There is no deployment ${id} any more`}>
          <ButtonLink href={href('deploy')}>Deploy a model</ButtonLink>
        </Empty>
      </>
    );
  }
  const { name, state } = deployment;
  const runs = state === 'starting' || state === 'loading' || state === 'ready';
  return (
    <>
      <h1 className="foreign">{name}</h1>
      <p className="foreign quiet">{deployment.model_name}</p>
      <section className="card stack" aria-labelledby="deploy-started">
        <h2 id="deploy-started" className="only-read">
          How it starts
        </h2>
        <DeploymentWatch deployment={deployment} />
      </section>
      <div className="row">
        {runs && (
          <Button onClick={() => setStopping(true)}>{state === 'ready' ? 'Stop it …' : 'Break the start off …'}</Button>
        )}
        <ButtonLink href={href('memory')}>To the memory</ButtonLink>
        <ButtonLink href={href('deploy')}>Deploy another</ButtonLink>
      </div>
      <ConfirmDialog
        open={stopping && runs}
        onClose={() => setStopping(false)}
        title={`Stop ${name}?`}
        action={`Stop ${name}`}
        danger
        onConfirm={() => stopDeployment(id)}
      >
        <p>
          {state === 'ready' && deployment.busy !== false
            ? 'It may have requests in flight: they are interrupted.'
            : 'Nobody is interrupted.'}{' '}
          Its memory is given back.
        </p>
      </ConfirmDialog>
    </>
  );
}
