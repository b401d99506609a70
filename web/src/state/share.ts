/**
 * `next`, but with every part that equals its part of `previous` being that very object, so that what shows it need not
 * be drawn again. Members of lists are found by their `id` or `pid`, else by their place.
 */
export function share<T>(previous: unknown, next: T): T {
  if (Object.is(previous, next)) return next;
  if (Array.isArray(next)) {
    if (!Array.isArray(previous)) return next;
    const key = keyOf(next[0]);
    const byKey = key && new Map(previous.map((one: Record<string, unknown>) => [one[key], one]));
    const shared = next.map((one: Record<string, unknown>, index) =>
      share(byKey && key ? byKey.get(one[key]) : previous[index], one),
    );
    return (same(previous, shared) ? previous : shared) as T;
  }
  if (isObject(previous) && isObject(next)) {
    const keys = Object.keys(next);
    const shared: Record<string, unknown> = {};
    let equal = keys.length === Object.keys(previous).length;
    for (const key of keys) {
      shared[key] = share(previous[key], next[key]);
      equal &&= Object.is(shared[key], previous[key]) && key in previous;
    }
    return (equal ? previous : shared) as T;
  }
  return next;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function keyOf(member: unknown): 'id' | 'pid' | null {
  if (!isObject(member)) return null;
  return 'id' in member ? 'id' : 'pid' in member ? 'pid' : null;
}

function same(previous: unknown[], next: unknown[]): boolean {
  return previous.length === next.length && previous.every((one, index) => Object.is(one, next[index]));
}
