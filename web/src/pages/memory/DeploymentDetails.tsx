import { Facts } from '../../components/Facts';
import { Note } from '../../components/Note';
import { Size } from '../../components/Size';
import { formatMoment } from '../../format/time';
import { settingsOf } from '../../memory/deployment';
import type { DeploymentRow } from './Deployments';
import styles from './MemoryPage.module.css';

/** What a deployment's row shows when it is opened. */
export function DeploymentDetails({ deployment, measured }: DeploymentRow) {
  const { estimate, failure, labels } = deployment;
  const part = (bytes: number | null) => <Size bytes={bytes} reason="This part could not be measured" />;
  return (
    <div className={`stack ${styles.wide}`}>
      {failure && (
        <Note kind="error">
          <p>{failure.message}</p>
          {failure.hint !== '' && <p className="quiet">{failure.hint}</p>}
          {failure.last_lines.length > 0 && <pre className="foreign">{failure.last_lines.join('\n')}</pre>}
        </Note>
      )}
      {deployment.outdated !== null && (
        <Note kind="info">
          <p>Outdated: {deployment.outdated}</p>
          <p className="quiet">It runs on as it is; restart it to take the newer one.</p>
        </Note>
      )}
      {measured && (
        <>
          <h3>Measured</h3>
          <Facts
            facts={{
              'own memory': part(measured.anon_bytes),
              kernel: part(measured.kernel_bytes),
              'shared memory': part(measured.shmem_bytes),
              GPU:
                measured.gpu_bytes === null && measured.gpu_at_least_bytes !== null ? (
                  <Size bytes={measured.gpu_at_least_bytes} atLeast />
                ) : (
                  part(measured.gpu_bytes)
                ),
              total: <Size bytes={measured.total_bytes} atLeast={!measured.complete} />,
            }}
          />
        </>
      )}
      <h3>Reserved</h3>
      <Facts
        facts={{
          ...Object.fromEntries(estimate.parts.map((one) => [one.name, <Size key={one.name} bytes={one.bytes} />])),
          total: (
            <>
              <Size bytes={estimate.total_bytes} /> <span className="quiet">{estimate.confidence}</span>
            </>
          ),
        }}
      />
      <h3>Configuration</h3>
      <Facts
        facts={{
          model: deployment.model,
          address: deployment.url !== '' && <code>{deployment.url}</code>,
          'served as': deployment.served_name,
          ...Object.fromEntries(settingsOf(deployment.config).map((one) => [one.name, one.value])),
          image: deployment.image,
          container: deployment.container?.slice(0, 12),
          pid: deployment.pid,
          labels: Object.entries(labels)
            .map(([name, value]) => `${name}=${value}`)
            .join(', '),
          created: formatMoment(deployment.created_at),
        }}
      />
    </div>
  );
}
