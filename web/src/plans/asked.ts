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

type Entry = [set: string, asked: Asked];
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
export function rememberAsked(set: string, asked: Asked): void {
  entries = [...read().filter(([other]) => other !== set), [set, asked] satisfies Entry].slice(-kept);
  try {
    sessionStorage.setItem(key, JSON.stringify(entries));
  } catch {
    // kept until the page is closed, then
  }
}

/** null: asked elsewhere, such as in another tab. */
export function askedOf(set: string): Asked | null {
  return read().find(([other]) => other === set)?.[1] ?? null;
}
