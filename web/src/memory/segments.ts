import type { Budget, BudgetDeployment } from '../api/types';
import { formatBytes } from '../format/bytes';

export type SegmentKind =
  | 'margin' // kept free always
  | 'reserve' // kept for the system
  | 'deployment'
  | 'request' // what somebody asks about, not there yet
  | 'external'
  | 'cache' // free, and used as page cache meanwhile
  | 'free';

/** A piece of the memory bar. */
export interface Segment {
  /** Unique in the bar, and the same from one moment to the next. */
  key: string;
  kind: SegmentKind;
  label: string;
  /** Its length in the bar. */
  bytes: number;
  /** Of a deployment: the part that is really held, drawn solid inside; null: unknown. Absent: all of it. */
  held_bytes?: number | null;
  /** Some part of `held_bytes` is not known: it is at least that. */
  incomplete?: boolean;
  /** Of a deployment: its id, which gives the colour. */
  deployment?: number;
  /** All of it in words, for a screen reader and under the bar. */
  description: string;
}

export interface Bar {
  segments: Segment[];
  /** MemTotal: the end of the bar. */
  total_bytes: number;
  /** What is counted beyond that end; 0 when the host is not over-committed. */
  over_bytes: number;
}

/** More deployments than these are drawn as one: thinner ones could not be seen. */
export const deployments_drawn = 16;

const counted_in_full = new Set<BudgetDeployment['state']>(['starting', 'loading', 'ready', 'unknown']);

/** What the budget counts for a deployment (B2). */
export function countedBytes(deployment: Pick<BudgetDeployment, 'state' | 'reserved_bytes' | 'measured'>): number {
  const measured = deployment.measured?.total_bytes ?? 0;
  return counted_in_full.has(deployment.state) ? Math.max(deployment.reserved_bytes, measured) : measured;
}

function describe({ name, state, reserved_bytes, measured }: BudgetDeployment): string {
  const asleep = state === 'sleeping' ? ', asleep' : state === 'ready' ? '' : `, ${state}`;
  if (!measured) return `${name}${asleep}: ${formatBytes(reserved_bytes)} reserved, measured unknown`;
  const held = `${measured.complete ? '' : 'at least '}${formatBytes(measured.total_bytes)} measured`;
  return `${name}${asleep}: ${held} of ${formatBytes(reserved_bytes)} reserved`;
}

function deploymentSegment(deployment: BudgetDeployment): Segment {
  return {
    key: `deployment ${deployment.id}`,
    kind: 'deployment',
    label: deployment.name,
    bytes: countedBytes(deployment),
    held_bytes: deployment.measured?.total_bytes ?? null,
    incomplete: deployment.measured !== null && !deployment.measured.complete,
    deployment: deployment.id,
    description: describe(deployment),
  };
}

function together(deployments: BudgetDeployment[]): Segment {
  const bytes = deployments.reduce((sum, one) => sum + countedBytes(one), 0);
  const held_bytes = deployments.reduce((sum, one) => sum + (one.measured?.total_bytes ?? 0), 0);
  return {
    key: 'deployments',
    kind: 'deployment',
    label: `${deployments.length} more deployments`,
    bytes,
    held_bytes,
    incomplete: deployments.some((one) => !one.measured?.complete),
    description: `${deployments.length} more deployments: ${formatBytes(held_bytes)} measured of ${formatBytes(bytes)} counted`,
  };
}

/**
 * The budget as a bar of MemTotal: `MemTotal = margin + reserve + committed + external + free_for_new` (B1, B5), so the
 * pieces always add up to it, and beyond it when free_for_new is negative.
 */
export function budgetBar(budget: Budget): Bar {
  const counted = budget.deployments.filter((one) => countedBytes(one) > 0);
  const drawn = [...counted].sort((a, b) => countedBytes(b) - countedBytes(a)).slice(0, deployments_drawn);
  const shown = counted.length <= deployments_drawn + 1 ? counted : counted.filter((one) => drawn.includes(one));
  const rest = counted.filter((one) => !shown.includes(one));

  const segments: Segment[] = [
    {
      key: 'margin',
      kind: 'margin',
      label: 'safety margin',
      bytes: budget.safety_margin_bytes,
      description: `safety margin: ${formatBytes(budget.safety_margin_bytes)} kept free, so that the host does not freeze`,
    },
    {
      key: 'reserve',
      kind: 'reserve',
      label: 'OS reserve',
      bytes: budget.os_reserve_bytes,
      description: `OS reserve: ${formatBytes(budget.os_reserve_bytes)} kept for the system`,
    },
    ...shown.map(deploymentSegment),
    ...(rest.length > 0 ? [together(rest)] : []),
    {
      key: 'external',
      kind: 'external',
      label: 'external',
      bytes: budget.external_bytes,
      description: describeExternal(budget.external_bytes),
    },
    ...freeSegments(Math.max(budget.free_for_new_bytes, 0), budget.page_cache_bytes),
  ];
  return finished(segments, budget.mem_total_bytes);
}

/** What is free for new models, of it what the page cache holds until it is needed. */
function freeSegments(free_bytes: number, page_cache_bytes: number | null): Segment[] {
  const cache = Math.min(page_cache_bytes ?? 0, free_bytes);
  return [
    {
      key: 'cache',
      kind: 'cache',
      label: 'page cache',
      bytes: cache,
      description: `page cache: ${formatBytes(cache)} of what is free holds files, and is given back when it is needed`,
    },
    {
      key: 'free',
      kind: 'free',
      label: 'free',
      bytes: free_bytes - cache,
      description: `free: ${formatBytes(free_bytes)} for new models${cache > 0 ? `, ${formatBytes(cache)} of it page cache` : ''}`,
    },
  ];
}

function finished(segments: Segment[], total_bytes: number): Bar {
  const visible = segments.filter((one) => one.bytes > 0);
  const sum = visible.reduce((bytes, one) => bytes + one.bytes, 0);
  return { segments: visible, total_bytes, over_bytes: Math.max(sum - total_bytes, 0) };
}

/** What would be different: of a plan, or of a request. */
export interface BarChange {
  /** Deployments that end. */
  stops?: readonly number[];
  /** Deployments that fall asleep, and what they hold then; null: not known, so nothing is taken as given back. */
  sleeps?: readonly { id: number; asleep_bytes: number | null }[];
  /**
   * By how much free memory grows by those, as the daemon counts it; absent: by all that the bar draws of them. The gap
   * between reserved and held of a ready deployment was taken off `external` (B4), and is external's again without it.
   */
  gives_back_bytes?: number;
  /** What is started. */
  adds?: { label: string; bytes: number };
}

function describeExternal(bytes: number): string {
  return `external: ${formatBytes(bytes)} held by what dgxmm does not manage`;
}

/** Makes the external part larger, or smaller when `bytes` is negative. */
function putExternal(segments: Segment[], bytes: number): void {
  const index = segments.findIndex((one) => one.kind === 'external');
  const size = Math.max((segments[index]?.bytes ?? 0) + bytes, 0);
  const external: Segment = {
    key: 'external',
    kind: 'external',
    label: 'external',
    bytes: size,
    description: describeExternal(size),
  };
  if (index < 0) segments.push(external);
  else segments[index] = external;
}

/** The bar after a change; what is given back or taken is free memory's. */
export function changedBar(bar: Bar, change: BarChange): Bar {
  const kept = bar.segments.flatMap((segment): Segment[] => {
    if (segment.kind === 'cache' || segment.kind === 'free') return [];
    if (segment.deployment === undefined) return [segment];
    if (change.stops?.includes(segment.deployment)) return [];
    const asleep_bytes = change.sleeps?.find((one) => one.id === segment.deployment)?.asleep_bytes ?? null;
    if (asleep_bytes === null) return [segment];
    const description = `${segment.label}, asleep: ${formatBytes(asleep_bytes)}`;
    return [{ ...segment, bytes: asleep_bytes, held_bytes: asleep_bytes, description }];
  });
  const sum = (segments: Segment[]) => segments.reduce((bytes, one) => bytes + one.bytes, 0);
  const drawn_bytes =
    sum(bar.segments.filter((one) => one.deployment !== undefined)) -
    sum(kept.filter((one) => one.deployment !== undefined));
  if (change.gives_back_bytes !== undefined) putExternal(kept, drawn_bytes - change.gives_back_bytes);
  const external = kept.findIndex((one) => one.kind === 'external');
  if (change.adds) {
    const { label, bytes } = change.adds;
    const added: Segment = {
      key: 'request',
      kind: 'request',
      label,
      bytes,
      description: `${label}: would take ${formatBytes(bytes)}`,
    };
    kept.splice(external < 0 ? kept.length : external, 0, added);
  }
  const taken = sum(kept);
  const cache = bar.segments.find((one) => one.kind === 'cache')?.bytes ?? null;
  return finished([...kept, ...freeSegments(Math.max(bar.total_bytes - taken, 0), cache)], bar.total_bytes);
}
