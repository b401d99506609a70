import type { CalibrationRecord, Calibrations } from '../../api/types';

/** How many records of a configuration count; older ones may come from an engine that is no longer installed (C3). */
const counted = 5;

/** What was measured of one configuration of a model, beside what the formula had said. */
export interface Comparison {
  configuration: string;
  /** The newest that count, oldest first. */
  records: CalibrationRecord[];
  /** The largest measured of them, and what the formula had said the last time. */
  measured_bytes: number;
  formula_bytes: number;
  /** What the formula had to be multiplied with; null when that cannot be said. */
  factor: number | null;
  /** The next estimate of this configuration (C3, C6): it is only ever raised. */
  next_bytes: number;
}

export interface ModelComparison {
  fingerprint: string;
  name: string;
  configurations: Comparison[];
}

/** What a model is called: deployments name it, and else its weights do. */
export function modelName(one: { model: string; fingerprint: string }): string {
  return one.model === '' ? `weights ${one.fingerprint.slice(0, 12)}` : one.model;
}

export function factorOf(record: { measured_bytes: number; formula_bytes: number }): number | null {
  return record.formula_bytes > 0 ? record.measured_bytes / record.formula_bytes : null;
}

/** "×0.16" */
export function formatFactor(factor: number): string {
  return `×${factor.toFixed(2)}`;
}

function compare(configuration: string, all: CalibrationRecord[]): Comparison {
  const records = all.slice(-counted);
  const measured_bytes = Math.max(...records.map((one) => one.measured_bytes));
  const formula_bytes = records.at(-1)?.formula_bytes ?? 0;
  return {
    configuration,
    records,
    measured_bytes,
    formula_bytes,
    factor: factorOf({ measured_bytes, formula_bytes }),
    next_bytes: Math.max(Math.ceil(measured_bytes * 1.05), formula_bytes),
  };
}

function groups<T>(list: readonly T[], keyOf: (one: T) => string): [string, T[]][] {
  const map = new Map<string, T[]>();
  for (const one of list) {
    const key = keyOf(one);
    const group = map.get(key);
    if (group) group.push(one);
    else map.set(key, [one]);
  }
  return [...map];
}

/** Records (oldest first, as the daemon gives them) by model and configuration. */
export function comparisons(records: readonly CalibrationRecord[]): ModelComparison[] {
  return groups(records, (one) => one.fingerprint)
    .map(([fingerprint, ofModel]) => ({
      fingerprint,
      name: modelName(ofModel[0] ?? { model: '', fingerprint }),
      configurations: groups(ofModel, (one) => one.configuration).map(([key, all]) => compare(key, all)),
    }))
    .sort((a, b) => a.name.localeCompare(b.name));
}

/** The right end of a scale that has every factor on it: at least 1.5, which is the most that a formula is raised by. */
export function scaleEnd(models: readonly ModelComparison[]): number {
  const factors = models.flatMap((model) =>
    model.configurations.flatMap((one) => one.records.map((record) => factorOf(record) ?? 0)),
  );
  return Math.max(1.5, Math.ceil(Math.max(0, ...factors) * 2) / 2);
}

const engines: Record<string, string> = { llamacpp: 'llama.cpp', vllm: 'vLLM' };

/** What tells configurations of one model apart at a glance: "llama.cpp, 8,192 tokens × 2, KV f16". */
export function configurationSummary(configuration: string): string {
  const [engine = '', ...words] = configuration.split(' ');
  const settings = new Map(words.map((word) => word.split('=', 2) as [string, string]));
  const tokens = Number(settings.get('ctx_size') ?? settings.get('max_model_len'));
  const sequences = settings.get('parallel') ?? settings.get('max_num_seqs');
  const [k, v] = [settings.get('cache_type_k') ?? settings.get('kv_cache_dtype'), settings.get('cache_type_v')];
  const parts = [engines[engine] ?? engine];
  if (Number.isFinite(tokens)) {
    const context = `${tokens.toLocaleString('en-US')} tokens`;
    parts.push(sequences === undefined ? context : `${context} × ${sequences}`);
  }
  if (k !== undefined) parts.push(v === undefined || v === k ? `KV ${k}` : `KV ${k}/${v}`);
  return parts.join(', ');
}

/** Everything that is known of one model. */
export function ofModel(all: Calibrations, fingerprint: string): Calibrations {
  const its = <T extends { fingerprint: string }>(list: T[]) => list.filter((one) => one.fingerprint === fingerprint);
  return {
    records: its(all.records),
    oom_floors: its(all.oom_floors),
    durations: its(all.durations),
    asleep: its(all.asleep),
  };
}

function count(number: number, one: string, many: string): string[] {
  return number === 0 ? [] : [`${number} ${number === 1 ? one : many}`];
}

/** "2 measurements, 1 size that ran out of memory": what would be forgotten. */
export function countText(all: Calibrations): string {
  return [
    ...count(all.records.length, 'measurement', 'measurements'),
    ...count(all.oom_floors.length, 'size that ran out of memory', 'sizes that ran out of memory'),
    ...count(all.asleep.length, 'size asleep', 'sizes asleep'),
    ...count(all.durations.length, 'duration', 'durations'),
  ].join(', ');
}
