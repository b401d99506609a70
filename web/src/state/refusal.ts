import { href, navigate } from '../app/router';
import type { ApiError } from '../api/problem';
import type { Problem } from '../api/types';
import { rememberAsked, type Asked } from '../plans/asked';
import { createStore } from './store';

/** A request that did not fit, with the plans and who else holds memory. */
export interface Refusal {
  /** What was asked for: "Waking qwen3". */
  asked: string;
  problem: Problem;
}

/** The newest one, for the page that shows its plans. */
export const refusal = createStore<Refusal | null>(null);

/** Shows the plans of a request that does not fit; false when the error is another one. */
export function showRefusal(error: ApiError, asked: string, more: Omit<Asked, 'what'> = {}): boolean {
  const { problem } = error;
  if (!problem?.plans || (error.code !== 'does_not_fit' && error.code !== 'plan_changed')) return false;
  rememberAsked(problem.plans, { ...more, what: asked });
  refusal.set(() => ({ asked, problem }));
  navigate(href('plans', problem.plans.plan_set === '' ? [] : [problem.plans.plan_set]));
  return true;
}
