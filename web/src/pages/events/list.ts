import type { Event } from '../../api/types';

/** Events as a list without gaps, newest first. */
export type EventList = readonly Event[];

/**
 * The list with more events. Ids have no gaps, so what neither touches nor overlaps the list stands for itself: the newer
 * of the two is kept, and the older ones can be asked for again.
 */
export function withEvents(list: EventList, more: readonly Event[]): EventList {
  const [first] = more;
  const last = more.at(-1);
  const newest = list[0];
  const oldest = list.at(-1);
  if (!first || !last) return list;
  if (!newest || !oldest || first.id > newest.id + 1) return [...more].reverse();
  if (last.id < oldest.id - 1) return list;
  const newer = more.filter((one) => one.id > newest.id).reverse();
  const older = more.filter((one) => one.id < oldest.id).reverse();
  return newer.length + older.length === 0 ? list : [...newer, ...list, ...older];
}

/** Kinds of events that a person may want to see alone: the first word of their type. */
export const kinds: Record<string, string> = {
  deployment: 'Deployments',
  operation: 'Plans carried out',
  calibration: 'Calibration',
  catalog: 'Models on disk',
  orphan: 'Orphans',
  engine: 'Engines',
  host: 'Host',
};

export function kindOf(event: Event): string {
  return event.type.split('.', 1)[0] ?? event.type;
}

export type Tone = 'good' | 'bad' | 'warn' | 'plain';

/** How an event is marked: what went wrong, and what has come about. */
export function toneOf(event: Event): Tone {
  const word = event.type === 'deployment.state' ? event.data.to : event.type.split('.').at(-1);
  switch (word) {
    case 'failed':
    case 'sleep_failed':
    case 'not_restored':
      return 'bad';
    case 'unknown':
    case 'outdated':
    case 'cancelling':
    case 'cancelled':
    case 'restarted':
      return 'warn';
    case 'ready':
    case 'succeeded':
      return 'good';
    default:
      return 'plain';
  }
}

export interface EventFilter {
  /** Of `kinds`; empty: all. */
  kind: string;
  /** Id of a deployment; null: all. */
  deployment: number | null;
}

export function filterEvents(list: EventList, { kind, deployment }: EventFilter): EventList {
  if (kind === '' && deployment === null) return list;
  return list.filter(
    (event) => (kind === '' || kindOf(event) === kind) && (deployment === null || event.deployment === deployment),
  );
}

/** The deployments that events tell of, by their newest name, in the order of their ids. */
export function deploymentsIn(list: EventList): { id: number; name: string }[] {
  const names = new Map<number, string>();
  for (const event of list) {
    if (event.deployment === null) continue;
    const known = names.get(event.deployment);
    if (known === undefined || known === '') names.set(event.deployment, event.data.name ?? '');
  }
  return [...names]
    .map(([id, name]) => ({ id, name: name === '' ? `deployment ${id}` : name }))
    .sort((a, b) => b.id - a.id);
}
