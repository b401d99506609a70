import { useSyncExternalStore } from 'react';

/** Where the reader is: "#/plans/3?model=x" → page "plans", rest ["3"], query model=x. */
export interface Place {
  page: string;
  rest: string[];
  query: URLSearchParams;
}

export function parseHash(hash: string): Place {
  const [where = '', query = ''] = hash.replace(/^#\/?/, '').split('?', 2);
  const [page = '', ...rest] = where
    .split('/')
    .filter((part) => part !== '')
    .map(decode);
  return { page, rest, query: new URLSearchParams(query) };
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** The address of a page, for a link. */
export function href(page: string, rest: (string | number)[] = [], query: Record<string, string> = {}): string {
  const search = new URLSearchParams(query).toString();
  return `#/${[page, ...rest].map((part) => encodeURIComponent(part)).join('/')}${search === '' ? '' : `?${search}`}`;
}

/** Goes to an address that `href` made; `replace` leaves no step to go back to. */
export function navigate(to: string, options: { replace?: boolean } = {}): void {
  if (options.replace) location.replace(to);
  else location.hash = to;
}

let last = { hash: '', place: parseHash('') };

function current(): Place {
  if (last.hash !== location.hash) last = { hash: location.hash, place: parseHash(location.hash) };
  return last.place;
}

function subscribe(listener: () => void): () => void {
  window.addEventListener('hashchange', listener);
  return () => window.removeEventListener('hashchange', listener);
}

export function usePlace(): Place {
  return useSyncExternalStore(subscribe, current);
}
