import { useSyncExternalStore } from 'react';

export interface Store<T> {
  get(): T;
  set(change: (old: T) => T): void;
  subscribe(listener: () => void): () => void;
}

const waiting = new Set<() => void>();

function hidden(): boolean {
  return typeof document !== 'undefined' && document.hidden;
}

if (typeof document !== 'undefined') {
  document.addEventListener('visibilitychange', () => {
    if (document.hidden) return;
    const all = [...waiting];
    waiting.clear();
    all.forEach((tell) => tell());
  });
}

/** A value and who wants to know of its changes. While the tab is hidden nobody is told; once it is seen, all at once. */
export function createStore<T>(initial: T): Store<T> {
  let value = initial;
  const listeners = new Set<() => void>();
  const tell = () => [...listeners].forEach((listener) => listener());
  return {
    get: () => value,
    set(change) {
      const next = change(value);
      if (Object.is(next, value)) return;
      value = next;
      if (hidden()) waiting.add(tell);
      else tell();
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

/** What `select` picks of the store. It must return a part of it, or a plain value: not a new object each time. */
export function useStore<T, S>(store: Store<T>, select: (value: T) => S): S {
  return useSyncExternalStore(store.subscribe, () => select(store.get()));
}
