import type { Budget, Deployment, Duration } from '../api/types';

/** How long a load of this model took the last time, in seconds; null when none was measured. */
export function lastLoad_s(deployment: Pick<Deployment, 'model_name'>, durations: readonly Duration[]): number | null {
  const loads = durations.filter((one) => one.action === 'load' && one.model === deployment.model_name);
  return loads.sort((a, b) => b.recorded_at.localeCompare(a.recorded_at))[0]?.took_s ?? null;
}

export interface LoadedBytes {
  held_bytes: number;
  /** Of it is expected; what was measured earlier, else what is reserved. */
  expected_bytes: number;
  atLeast: boolean;
}

/** How much of its memory a deployment that loads holds already; null: not known. */
export function loadedBytes(
  deployment: Pick<Deployment, 'id' | 'footprint_bytes' | 'reserved_bytes'>,
  budget: Budget | null,
): LoadedBytes | null {
  const measured = budget?.deployments.find((one) => one.id === deployment.id)?.measured;
  if (!measured) return null;
  return {
    held_bytes: measured.total_bytes,
    expected_bytes: Math.max(deployment.footprint_bytes ?? deployment.reserved_bytes, measured.total_bytes),
    atLeast: !measured.complete,
  };
}
