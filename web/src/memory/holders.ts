import type { Memory } from '../api/types';

/** Someone outside of deployments who holds memory. */
export interface Holder {
  id: string;
  who: string;
  kind: string;
  detail: string;
  /** null: unknown. */
  bytes: number | null;
  /** It is that much or more. */
  atLeast: boolean;
  gpu_bytes: number | null;
  /** It belongs to an engine of dgxmm's that no deployment knows. */
  orphan: boolean;
}

/** Everybody else who holds memory, largest first; what is unknown stands last. */
export function holdersOf(memory: Memory): Holder[] {
  const holders: Holder[] = [
    ...memory.containers.map((one): Holder => ({
      id: `container ${one.id}`,
      who: one.name || one.id.slice(0, 12),
      kind: one.runtime === '' ? 'container' : `${one.runtime} container`,
      detail: [one.image, count(one.processes), one.own ? 'dgxmm itself' : ''].filter(Boolean).join(', '),
      bytes: one.measured.total_bytes,
      atLeast: !one.measured.complete,
      gpu_bytes: one.measured.gpu_bytes,
      orphan: one.orphan_id !== '',
    })),
    ...memory.processes.map((one): Holder => ({
      id: `unit ${one.unit} ${one.user}`,
      who: one.unit || 'in no unit',
      kind: 'processes',
      detail: [`${count(one.processes)}${one.user === '' ? '' : ` of ${one.user}`}`, one.own ? 'dgxmm itself' : '']
        .filter(Boolean)
        .join(', '),
      bytes: one.held_bytes,
      atLeast: one.gpu_bytes === null,
      gpu_bytes: one.gpu_bytes,
      orphan: false,
    })),
    line('shared', 'shared memory', 'of processes outside containers', memory.shared_memory_bytes),
    line(
      'ownerless',
      'shared memory of nobody',
      'files that no process has open',
      memory.ownerless_shared_memory_bytes,
    ),
    line('hugepages', 'huge pages', 'the pools, used or not', memory.hugepages_bytes),
    line('rest', 'unattributed', 'kernel, drivers, what nobody owns', memory.unattributed_bytes ?? memory.rest_bytes),
  ];
  return holders
    .filter((one) => one.bytes === null || one.bytes !== 0)
    .sort((a, b) => (b.bytes ?? -Infinity) - (a.bytes ?? -Infinity));
}

function line(id: string, who: string, detail: string, bytes: number | null): Holder {
  return { id, who, kind: '', detail, bytes, atLeast: false, gpu_bytes: null, orphan: false };
}

function count(processes: number): string {
  return `${processes} ${processes === 1 ? 'process' : 'processes'}`;
}
