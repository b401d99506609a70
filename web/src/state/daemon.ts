import { path, onUnauthorized, request } from '../api/client';
import { Live, type Connection } from '../api/live';
import { asApiError, type ApiError } from '../api/problem';
import { token } from '../api/token';
import type { SseMessage } from '../api/sse';
import type { Activity, Budget, Deployment, Event, Operation, Queue, Version } from '../api/types';
import { setClock } from './clock';
import { effectOf, type Topic } from './effects';
import { share } from './share';
import { createStore, useStore } from './store';

/** What the page knows of the daemon. A document is null until it was read once; later it is the newest that was. */
export interface DaemonState {
  connection: Connection;
  version: Version | null;
  budget: Budget | null;
  deployments: Deployment[] | null;
  queue: Queue | null;
  operations: Operation[] | null;
  /** Why a document could not be read, until it can be again. */
  errors: Partial<Record<DocumentName, ApiError>>;
  /** The newest events since this page was opened, oldest first. */
  events: Event[];
  /** Counts up when what it names has changed; see `useResource`. */
  topics: Record<Topic | 'connection', number>;
}

export type DocumentName = 'version' | 'budget' | 'deployments' | 'queue' | 'operations';
const documents: DocumentName[] = ['version', 'budget', 'deployments', 'queue', 'operations'];

const events_kept = 500;
/** Events come in bursts; what they change is read once, this long after the first. */
const gather_ms = 30;
/** Above this many changed deployments the whole list is one request instead of many. */
const single_reads = 4;

export const daemon = createStore<DaemonState>({
  connection: { kind: 'connecting' },
  version: null,
  budget: null,
  deployments: null,
  queue: null,
  operations: null,
  errors: {},
  events: [],
  topics: { catalog: 0, calibration: 0, orphans: 0, host: 0, connection: 0 },
});

/** A part of what is known; `select` must not make new objects. */
export function useDaemon<S>(select: (state: DaemonState) => S): S {
  return useStore(daemon, select);
}

function patch(change: Partial<DaemonState>): void {
  daemon.set((old) => ({ ...old, ...change }));
}

function keep<N extends DocumentName>(name: N, value: DaemonState[N]): void {
  daemon.set((old) => {
    const shared = share(old[name], value);
    const failed = old.errors[name] !== undefined;
    if (Object.is(shared, old[name]) && !failed) return old;
    const errors = failed ? { ...old.errors } : old.errors;
    if (failed) Reflect.deleteProperty(errors, name);
    return { ...old, [name]: shared, errors };
  });
}

// A document that is asked for while it is being read is read once more after that: the answer may be older than the
// event.
const reading = new Map<string, boolean>();

async function once(key: string, read: () => Promise<void>): Promise<void> {
  if (reading.has(key)) {
    reading.set(key, true);
    return;
  }
  reading.set(key, false);
  try {
    await read();
  } finally {
    const again = reading.get(key);
    reading.delete(key);
    if (again) await once(key, read);
  }
}

/** Reads a document anew. */
export function load(name: DocumentName): Promise<void> {
  return once(name, async () => {
    try {
      const value = await request<never>('GET', `/api/v1/${name}`);
      keep(name, value);
      if (name === 'budget') setClock((value as Budget).time ?? '');
    } catch (thrown) {
      const error = asApiError(thrown);
      if (error) daemon.set((old) => ({ ...old, errors: { ...old.errors, [name]: error } }));
    }
  });
}

function put<T extends { id: unknown }>(list: T[], one: T): T[] {
  const index = list.findIndex((other) => other.id === one.id);
  return index < 0 ? [...list, one] : list.with(index, share(list[index], one));
}

/** Puts a deployment that an answer brought into the list, ahead of its event. */
export function keepDeployment(deployment: Deployment): void {
  const { deployments } = daemon.get();
  if (deployments) keep('deployments', put(deployments, deployment));
}

/** The same for an operation. */
export function keepOperation(operation: Operation): void {
  const { operations } = daemon.get();
  if (operations) keep('operations', put(operations, operation));
}

export function forgetDeployment(id: number): void {
  const { deployments } = daemon.get();
  if (deployments)
    keep(
      'deployments',
      deployments.filter((one) => one.id !== id),
    );
}

function readDeployment(id: number): Promise<void> {
  return once(`deployment ${id}`, async () => {
    try {
      keepDeployment(await request<Deployment>('GET', path`/api/v1/deployments/${id}`));
    } catch (thrown) {
      const error = asApiError(thrown);
      if (error?.status === 404) forgetDeployment(id);
      else if (error) await load('deployments');
    }
  });
}

function readOperation(id: string): Promise<void> {
  return once(`operation ${id}`, async () => {
    try {
      keepOperation(await request<Operation>('GET', path`/api/v1/operations/${id}`));
    } catch {
      await load('operations');
    }
  });
}

const changed = { deployments: new Set<number>(), operations: new Set<string>(), all: false };
let gathering = false;

function gather(): void {
  if (gathering) return;
  gathering = true;
  setTimeout(() => {
    gathering = false;
    const { deployments, operations, all } = changed;
    if (all || deployments.size > single_reads) void load('deployments');
    else deployments.forEach((id) => void readDeployment(id));
    operations.forEach((id) => void readOperation(id));
    deployments.clear();
    operations.clear();
    changed.all = false;
  }, gather_ms);
}

function happened(event: Event): void {
  const effect = effectOf(event);
  if (effect.removed !== undefined) forgetDeployment(effect.removed);
  if (effect.deployment !== undefined) changed.deployments.add(effect.deployment);
  if (effect.operation !== undefined) changed.operations.add(effect.operation);
  if (effect.allDeployments) changed.all = true;
  gather();
  daemon.set((old) => {
    const topics = effect.topics.length > 0 ? { ...old.topics } : old.topics;
    effect.topics.forEach((topic) => (topics[topic] += 1));
    return { ...old, topics, events: [...old.events, event].slice(-events_kept) };
  });
}

const streamed = new Map<string, Set<(document: unknown) => void>>();

/** The deployments, with who is at work by the newest word. */
export function withActivity(deployments: Deployment[], activities: Activity[]): Deployment[] {
  const newest = new Map(activities.map((one) => [one.id, one]));
  return deployments.map((one) => ({ ...one, ...newest.get(one.id) }));
}

/** Documents of the stream that have no id, beside `budget` and `queue`: `history`. */
export function onStreamed<T>(type: string, listener: (document: T) => void): () => void {
  const listeners = streamed.get(type) ?? new Set();
  streamed.set(type, listeners.add(listener as (document: unknown) => void));
  return () => listeners.delete(listener as (document: unknown) => void);
}

function received(message: SseMessage): void {
  let data: unknown;
  try {
    data = JSON.parse(message.data);
  } catch {
    return; // of a later version
  }
  if (message.type === 'budget') {
    setClock((data as Budget).time ?? '');
    keep('budget', data as Budget);
  } else if (message.type === 'queue') {
    keep('queue', data as Queue);
  } else if (message.type === 'activity') {
    const { deployments } = daemon.get();
    if (deployments) keep('deployments', withActivity(deployments, data as Activity[]));
  } else if (message.id === '') {
    streamed.get(message.type)?.forEach((listener) => listener(data));
  } else {
    happened(data as Event);
  }
}

function connected(connection: Connection): void {
  patch({ connection });
  if (connection.kind !== 'live') return;
  // What was missed has no other way here, and the daemon may be another one by now.
  documents.forEach((name) => void load(name));
  daemon.set((old) => ({ ...old, topics: { ...old.topics, connection: old.topics.connection + 1 } }));
}

export const live = new Live({ onMessage: received, onConnection: connected });

/** A browser gives six connections to one host: a tab that nobody looks at gives its own back after this long. */
const hidden_limit_ms = 60_000;

/** Connects to the daemon, and stays connected. Called once. */
export function start(): void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  document.addEventListener('visibilitychange', () => {
    clearTimeout(timer);
    if (document.hidden) timer = setTimeout(() => live.close(), hidden_limit_ms);
    else live.connect();
  });
  window.addEventListener('online', () => live.reconnect());
  token.subscribe(() => live.reconnect());
  onUnauthorized(() => {
    live.close();
    patch({ connection: { kind: 'token' } });
  });
  live.connect();
}
