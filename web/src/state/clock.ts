import { useSyncExternalStore } from 'react';

// One clock for every age on the page. It stands while the tab is hidden or nobody looks at it.
const listeners = new Set<() => void>();
let timer: ReturnType<typeof setInterval> | undefined;
let ahead_ms = 0;

function tell(): void {
  listeners.forEach((listener) => listener());
}

function run(): void {
  const wanted = listeners.size > 0 && !(typeof document !== 'undefined' && document.hidden);
  if (wanted && timer === undefined) {
    timer = setInterval(tell, 1000);
  } else if (!wanted && timer !== undefined) {
    clearInterval(timer);
    timer = undefined;
  }
}

if (typeof document !== 'undefined') {
  document.addEventListener('visibilitychange', () => {
    run();
    if (!document.hidden) tell();
  });
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  run();
  return () => {
    listeners.delete(listener);
    run();
  };
}

/** The time as the daemon's clock has it. */
export function now_ms(): number {
  return Date.now() + ahead_ms;
}

/** A document of this moment, by the daemon's clock: the browser may be on another machine. */
export function setClock(time: string): void {
  const difference_ms = Date.parse(time) - Date.now();
  if (Number.isFinite(difference_ms)) ahead_ms = Math.abs(difference_ms) > 3000 ? difference_ms : 0;
}

/** What `format` makes of the present time; drawn again only when that has changed. */
export function useClock<T extends string | number | boolean>(format: (now_ms: number) => T): T {
  return useSyncExternalStore(subscribe, () => format(now_ms()));
}
