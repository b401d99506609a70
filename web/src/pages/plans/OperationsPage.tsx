import { href } from '../../app/router';
import { ButtonLink } from '../../components/Button';
import { ErrorNote } from '../../components/Note';
import { Empty, Skeleton } from '../../components/Placeholder';
import { StateBadge } from '../../components/StateBadge';
import { load, useDaemon } from '../../state/daemon';
import styles from './PlansPage.module.css';

/** The plans that were carried out, the newest first. */
export function OperationsPage() {
  const operations = useDaemon((daemon) => daemon.operations);
  const error = useDaemon((daemon) => daemon.errors.operations);
  return (
    <>
      <h1>Plans</h1>
      {!operations &&
        (error ? (
          <ErrorNote error={error} what="The plans could not be read" retry={() => void load('operations')} />
        ) : (
          <Skeleton label="Reading the plans" />
        ))}
      {operations?.length === 0 && (
        <Empty title="No plan was carried out yet">
          <p>When a model does not fit, dgxmm shows what could be done about it.</p>
          <ButtonLink href={href('deploy')}>Deploy a model</ButtonLink>
        </Empty>
      )}
      {operations && operations.length > 0 && (
        <ul className="stack">
          {operations.toReversed().map((operation) => (
            <li key={operation.id} className={styles.step}>
              <StateBadge state={operation.state} />
              <a className="foreign" href={href('plans', [operation.plan_set], { operation: operation.id })}>
                {operation.title}
              </a>
              <span className="foreign quiet">for {operation.model}</span>
            </li>
          ))}
        </ul>
      )}
    </>
  );
}
