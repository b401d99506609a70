// The daemon's token, where it has one: kept for this tab, or on this computer when the person wants that.
const key = 'dgxmm.token';
const listeners = new Set<() => void>();

function storages(): Storage[] {
  // A browser may forbid either.
  return ['sessionStorage', 'localStorage'].flatMap((name) => {
    try {
      return [(globalThis as unknown as Record<string, Storage | undefined>)[name]].filter((one) => one !== undefined);
    } catch {
      return [];
    }
  });
}

let unstored: string | null = null; // where nothing can be stored

export const token = {
  get(): string | null {
    for (const storage of storages()) {
      const value = storage.getItem(key);
      if (value) return value;
    }
    return unstored;
  },
  /** Where it is kept: "tab", "computer", or nowhere. */
  keptIn(): 'tab' | 'computer' | null {
    const [session, local] = storages();
    if (session?.getItem(key)) return 'tab';
    if (local?.getItem(key)) return 'computer';
    return unstored === null ? null : 'tab';
  },
  set(value: string, onThisComputer: boolean): void {
    this.forget(false);
    const [session, local] = storages();
    const storage = onThisComputer ? local : session;
    if (storage) storage.setItem(key, value);
    else unstored = value;
    listeners.forEach((listener) => listener());
  },
  forget(tell = true): void {
    storages().forEach((storage) => storage.removeItem(key));
    unstored = null;
    if (tell) listeners.forEach((listener) => listener());
  },
  subscribe(listener: () => void): () => void {
    listeners.add(listener);
    return () => listeners.delete(listener);
  },
};
