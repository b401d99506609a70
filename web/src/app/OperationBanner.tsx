import { useDaemon } from '../state/daemon';
import styles from './App.module.css';
import { href, usePlace } from './router';

/** Tells on every page that a plan is being carried out, also after a reload and in every tab. */
export function OperationBanner() {
  const operations = useDaemon((daemon) => daemon.operations);
  const { query } = usePlace();
  const shown = query.get('operation');
  const running = operations?.filter((one) => one.state === 'running' && one.id !== shown) ?? [];
  if (running.length === 0) return null;
  return (
    <div className={styles.banner} role="status">
      {running.map((operation) => {
        const step = operation.steps.findIndex((one) => one.state === 'running' || one.state === 'undoing');
        return (
          <p key={operation.id} className="foreign">
            A plan is carried out for {operation.model}
            {step >= 0 && `, step ${step + 1} of ${operation.steps.length}: ${operation.steps[step]?.what}`}.{' '}
            <a href={href('plans', [operation.plan_set], { operation: operation.id })}>Watch it</a>
          </p>
        );
      })}
    </div>
  );
}
