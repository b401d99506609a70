import type { Deployment, Plan, Plans } from '../api/types';
import { formatBytes, gib } from '../format/bytes';
import type { Bar, BarChange } from '../memory/segments';

/** A deployment that gives way for a plan; `sleep` is the level that it is put to, null: it is stopped. */
export interface Victim {
  id: number;
  sleep: number | null;
}

export function victimsOf(plan: Pick<Plan, 'stops' | 'sleeps'>): Victim[] {
  return [
    ...plan.sleeps.map(({ id, level }) => ({ id, sleep: level })),
    ...plan.stops.map((id) => ({ id, sleep: null })),
  ];
}

/**
 * What the memory bar looks like after a plan. What a sleeper holds then is what it held the last time; of one that never
 * slept, what the plan counts on.
 */
export function changeOf(plan: Plan, bar: Bar, deployments: readonly Deployment[], label: string): BarChange {
  const counted = (id: number) => bar.segments.find((one) => one.deployment === id)?.bytes ?? 0;
  const held = (id: number) => deployments.find((one) => one.id === id)?.asleep_bytes ?? null;
  const freed = plan.free_after_bytes - plan.free_before_bytes;
  const unknown = plan.sleeps.filter(({ id }) => held(id) === null);
  const known = plan.sleeps.filter(({ id }) => held(id) !== null);
  const left =
    freed -
    plan.stops.reduce((sum, id) => sum + counted(id), 0) -
    known.reduce((sum, { id }) => sum + counted(id) - (held(id) ?? 0), 0);
  const given_back = Math.max(left, 0) / Math.max(unknown.length, 1);
  return {
    stops: plan.stops,
    sleeps: plan.sleeps.map(({ id }) => ({ id, asleep_bytes: held(id) ?? Math.max(counted(id) - given_back, 0) })),
    gives_back_bytes: freed,
    adds: { label, bytes: plan.needed_bytes },
  };
}

/** What a plan's time is: "about 12 s" by size, "12 s" when all of it was measured here. */
export function takesText(
  plan: Pick<Plan, 'takes_s' | 'takes_measured'>,
  duration: (seconds: number) => string,
): string {
  if (plan.takes_s === null) return 'not known';
  return plan.takes_measured ? `${duration(plan.takes_s)}, measured` : `about ${duration(plan.takes_s)}, by size`;
}

/** A difference that is worth a word: the figures move a little all the time. */
const noticed_bytes = gib / 20;

function moved(what: string, before: number, now: number, words: [string, string]): string[] {
  if (Math.abs(now - before) < noticed_bytes) return [];
  return [`${what}: ${formatBytes(now)} instead of ${formatBytes(before)}, ${now > before ? words[0] : words[1]}`];
}

/** In what the plans by now differ from those that were shown, in words. */
export function differences(shown: Plans, now: Plans): string[] {
  if (now.fits_now) return ['It fits by now: no plan is needed'];
  const before = new Map(shown.plans.map((plan) => [plan.id, plan]));
  const after = new Map(now.plans.map((plan) => [plan.id, plan]));
  return [
    ...moved('Free memory', shown.free_for_new_bytes, now.free_for_new_bytes, ['more than before', 'less than before']),
    ...moved('Needed', shown.needed_bytes, now.needed_bytes, ['more than before', 'less than before']),
    ...shown.plans.flatMap((plan) => {
      const other = after.get(plan.id);
      if (!other) return [`Not offered any more: ${plan.title}`];
      const said = [];
      if (plan.fits !== other.fits) said.push(`${other.fits ? 'Fits now' : 'Not enough any more'}: ${plan.title}`);
      const reasons = other.unsafe.filter((reason) => !plan.unsafe.includes(reason));
      if (reasons.length > 0) said.push(`Unsafe by now: ${plan.title} (${reasons.join('; ')})`);
      if (plan.recommended && !other.recommended) said.push(`Not recommended any more: ${plan.title}`);
      return said;
    }),
    ...now.plans.filter((plan) => !before.has(plan.id)).map((plan) => `New: ${plan.title}`),
  ];
}
