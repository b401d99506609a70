import { classes } from './classes';
import styles from './StateBadge.module.css';

type Tone = 'good' | 'info' | 'warn' | 'bad' | 'plain';

// Of deployments, operations and their steps; a mark beside each colour, for whoever sees no colours.
const looks: Record<string, [Tone, string]> = {
  starting: ['info', '↑'],
  loading: ['info', '↑'],
  ready: ['good', '●'],
  sleeping: ['plain', '☾'],
  stopping: ['info', '↓'],
  stopped: ['plain', '■'],
  failed: ['bad', '✕'],
  unknown: ['warn', '?'],
  running: ['info', '▸'],
  succeeded: ['good', '✓'],
  cancelled: ['plain', '■'],
  waiting: ['plain', '…'],
  done: ['good', '✓'],
  undoing: ['info', '↩'],
  undone: ['plain', '↩'],
  undo_failed: ['bad', '✕'],
};

/** The state of a deployment, an operation or a step. */
export function StateBadge({ state, title }: { state: string; title?: string }) {
  const [tone, mark] = looks[state] ?? (['plain', '·'] as const);
  return (
    <span className={classes(styles.badge, tone !== 'plain' && styles[tone])} title={title}>
      <span className={styles.mark} aria-hidden="true">
        {mark}
      </span>
      {state.replaceAll('_', ' ')}
    </span>
  );
}
