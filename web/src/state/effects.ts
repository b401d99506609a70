import type { Event } from '../api/types';

/** What pages may wait for beside the documents that the store keeps. */
export type Topic = 'catalog' | 'calibration' | 'orphans' | 'host';

/** What an event changes of what is shown. */
export interface Effect {
  /** This deployment is to be read again. */
  deployment?: number;
  /** This one is gone. */
  removed?: number;
  /** This operation is to be read again. */
  operation?: string;
  /** All deployments are to be read again: the event does not say which. */
  allDeployments?: true;
  topics: Topic[];
}

export function effectOf(event: Event): Effect {
  const [area] = event.type.split('.');
  const effect: Effect = { topics: [] };
  if (event.type === 'deployment.removed') {
    if (event.deployment !== null) effect.removed = event.deployment;
  } else if (event.deployment !== null) {
    effect.deployment = event.deployment;
  } else if (area === 'engine' || area === 'host') {
    effect.allDeployments = true;
  }
  const operation = event.data.operation;
  if (area === 'operation' && operation !== undefined) effect.operation = operation;
  if (area === 'catalog') effect.topics.push('catalog');
  if (area === 'calibration') effect.topics.push('calibration');
  // An engine's end may leave an orphan, or take one away.
  if (area === 'orphan' || area === 'engine' || event.type === 'deployment.state') effect.topics.push('orphans');
  if (area === 'host') effect.topics.push('host');
  return effect;
}
