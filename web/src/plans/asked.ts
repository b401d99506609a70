import type { Plans } from '../api/types';
import type { DeployRequest, FormValues } from '../deploy/fields';

/** What a set of plans is for: the daemon's document has the figures only. */
export interface Asked {
  /** "Deploying qwen3", "Waking qwen3". */
  what: string;
  /** The name of the model or deployment. */
  name?: string;
  /** Of a deploy request, to ask for the plans again. */
  request?: DeployRequest;
  /** Its form, to change it. */
  form?: FormValues;
  /** These plans came in place of others: what the daemon said, and the differences. */
  changed?: { detail: string; differences: string[] };
}

const key = 'dgxmm.asked';
const kept = 32;

type Entry = [set: string, asked: Asked, needed_bytes: number];
type Set = Pick<Plans, 'plan_set' | 'needed_bytes'>;
let entries: Entry[] | null = null;

function read(): Entry[] {
  if (entries) return entries;
  try {
    const stored: unknown = JSON.parse(sessionStorage.getItem(key) ?? '[]');
    entries = Array.isArray(stored) ? (stored as Entry[]) : [];
  } catch {
    entries = [];
  }
  return entries;
}

/** Keeps it in this tab, also over a reload. */
export function rememberAsked({ plan_set, needed_bytes }: Set, asked: Asked): void {
  const entry: Entry = [plan_set, asked, needed_bytes];
  entries = [...read().filter(([other]) => other !== plan_set), entry].slice(-kept);
  try {
    sessionStorage.setItem(key, JSON.stringify(entries));
  } catch {
    // kept until the page is closed, then
  }
}

/**
 * null: asked elsewhere, such as in another tab. A daemon that was restarted counts its sets from 1 again, so `plans`, where
 * they are known, must be for the same size.
 */
export function askedOf(set: string, plans: Set | null = null): Asked | null {
  const found = read().find(([other]) => other === set);
  return found && (plans === null || plans.needed_bytes === found[2]) ? found[1] : null;
}
