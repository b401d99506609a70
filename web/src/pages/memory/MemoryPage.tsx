import { useMemo } from 'react';
import type { Budget, Memory } from '../../api/types';
import { ButtonLink } from '../../components/Button';
import { classes } from '../../components/classes';
import { Facts } from '../../components/Facts';
import { MemoryBar } from '../../components/MemoryBar';
import { ErrorNote, Warnings } from '../../components/Note';
import { Empty, Skeleton } from '../../components/Placeholder';
import { Size } from '../../components/Size';
import { Unknown } from '../../components/Unknown';
import { href } from '../../app/router';
import { budgetBar } from '../../memory/segments';
import { load, useDaemon } from '../../state/daemon';
import { useResource } from '../../state/resource';
import { Deployments } from './Deployments';
import { Holders } from './Holders';
import { LastHour } from './LastHour';
import styles from './MemoryPage.module.css';

/** Who holds the memory, and what is left. */
export default function MemoryPage() {
  // Who holds what outside of deployments has no event of its own.
  const memory = useResource<Memory>('/api/v1/memory', { topics: ['orphans'], every_s: 10 });
  return (
    <>
      <h1 className="only-read">Memory</h1>
      <Host />
      <section className={styles.section} aria-labelledby="deployments">
        <div className={styles.sectionHead}>
          <h2 id="deployments">Deployments</h2>
          <ButtonLink kind="primary" href={href('deploy')}>
            Deploy a model
          </ButtonLink>
        </div>
        <DeploymentList />
      </section>
      <Holders memory={memory} />
    </>
  );
}

function Host() {
  const budget = useDaemon((state) => state.budget);
  const error = useDaemon((state) => state.errors.budget);
  const bar = useMemo(() => budget && budgetBar(budget), [budget]);

  if (!budget || !bar) {
    return error ? (
      <ErrorNote error={error} what="The memory could not be read" retry={() => void load('budget')} />
    ) : (
      <Skeleton label="Reading the memory" lines={4} />
    );
  }
  const over = budget.free_for_new_bytes < 0;
  return (
    <section className={classes('card', styles.section)} aria-label="Memory of this host">
      <div className={styles.headline}>
        <p className={classes(styles.free, over && styles.over)}>
          <Size bytes={Math.abs(budget.free_for_new_bytes)} /> {over ? 'over-committed' : 'free for new models'}
        </p>
        <p className="quiet">
          <Size bytes={budget.used_bytes} /> used, <Size bytes={budget.mem_available_bytes} /> available of{' '}
          <Size bytes={budget.mem_total_bytes} />
        </p>
      </div>
      <MemoryBar bar={bar} label="Memory of this host" />
      <Warnings warnings={budget.warnings} />
      <h2 className={styles.small}>The last hour</h2>
      <div className={styles.hour}>
        <LastHour />
      </div>
      <Strain budget={budget} />
    </section>
  );
}

/** Swap and pressure: how hard it is for the host. */
function Strain({ budget }: { budget: Budget }) {
  const { swap_total_bytes, swap_used_bytes } = budget;
  return (
    <Facts
      facts={{
        'swap in use':
          swap_total_bytes === 0 ? (
            'this host has none'
          ) : (
            <>
              <Size bytes={swap_used_bytes} /> of <Size bytes={swap_total_bytes} />
            </>
          ),
        'some task waited for memory': <Pressure permyriad={budget.pressure_some_avg10_permyriad} />,
        'every task waited for memory': <Pressure permyriad={budget.pressure_full_avg10_permyriad} />,
      }}
    />
  );
}

function Pressure({ permyriad }: { permyriad: number | null }) {
  if (permyriad === null) return <Unknown reason="The kernel does not tell memory pressure" />;
  return (
    <span className="number" title="Pressure stall information, memory, avg10">
      {(permyriad / 100).toFixed(2)} % of the last 10 s
    </span>
  );
}

function DeploymentList() {
  const deployments = useDaemon((state) => state.deployments);
  const error = useDaemon((state) => state.errors.deployments);
  if (!deployments) {
    return error ? (
      <ErrorNote error={error} what="The deployments could not be read" retry={() => void load('deployments')} />
    ) : (
      <Skeleton label="Reading the deployments" />
    );
  }
  if (deployments.length === 0) {
    return (
      <Empty title="Nothing is deployed">
        <p className="quiet">Choose a model, and see whether it fits before it is started.</p>
      </Empty>
    );
  }
  return <Deployments deployments={deployments} />;
}
