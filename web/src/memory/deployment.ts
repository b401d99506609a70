import type { Config, Deployment } from '../api/types';

/** Whether it has ended: it can be started again, or removed. */
export function hasEnded({ state }: Pick<Deployment, 'state'>): boolean {
  return state === 'stopped' || state === 'failed';
}

/** vLLM deployed with `sleep_mode`, and serving. */
export function canSleep({ state, config }: Pick<Deployment, 'state' | 'config'>): boolean {
  return state === 'ready' && config.engine === 'vllm' && config.sleep_mode === true;
}

/** Tokens of context; null when the configuration does not say. */
export function contextOf(config: Config): number | null {
  return config.ctx_size ?? config.max_model_len;
}

/** Requests at once. */
export function sequencesOf(config: Config): number | null {
  return config.parallel ?? config.max_num_seqs;
}

/** "1 request in flight". */
export function inFlight(requests: number): string {
  return `${requests} ${requests === 1 ? 'request' : 'requests'} in flight`;
}

/** The port of its API; null when it has none. */
export function portOf({ url }: Pick<Deployment, 'url'>): string | null {
  return URL.canParse(url) ? new URL(url).port || null : null;
}

/** Those that run first, then those that have ended, the newest of these first. */
export function inOrder<T extends Pick<Deployment, 'id' | 'state'>>(deployments: readonly T[]): T[] {
  return [...deployments].sort((a, b) => {
    const ended = Number(hasEnded(a)) - Number(hasEnded(b));
    if (ended !== 0) return ended;
    return hasEnded(a) ? b.id - a.id : a.id - b.id;
  });
}

const not_memory = new Set(['engine']);

/** The settings of its engine that are set, in words: "ctx size 8192". */
export function settingsOf(config: Config): { name: string; value: string }[] {
  return Object.entries(config)
    .filter(([name, value]) => value !== null && !not_memory.has(name))
    .map(([name, value]) => ({ name: name.replaceAll('_', ' '), value: String(value) }));
}
