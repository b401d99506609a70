import { describe, expect, it } from 'vitest';
import type { Event } from '../../api/types';
import { deploymentsIn, filterEvents, toneOf, withEvents } from './list';

function event(id: number, change: Partial<Event> = {}): Event {
  return {
    id,
    time: '2026-11-30T20:00:00Z',
    type: 'host.restarted',
    deployment: null,
    message: '',
    data: {},
    ...change,
  };
}

const events = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, index) => event(from + index));
const ids = (list: readonly Event[]) => list.map((one) => one.id);

describe('withEvents', () => {
  it('is newest first', () => {
    expect(ids(withEvents([], events(3, 5)))).toEqual([5, 4, 3]);
  });

  it('takes newer and older ones, each once', () => {
    const list = withEvents([], events(3, 5));
    expect(ids(withEvents(list, events(4, 7)))).toEqual([7, 6, 5, 4, 3]);
    expect(ids(withEvents(list, events(1, 3)))).toEqual([5, 4, 3, 2, 1]);
    expect(ids(withEvents(list, events(1, 7)))).toEqual([7, 6, 5, 4, 3, 2, 1]);
  });

  it('stays the same object when nothing is new', () => {
    const list = withEvents([], events(3, 5));
    expect(withEvents(list, events(4, 5))).toBe(list);
    expect(withEvents(list, [])).toBe(list);
  });

  it('never has a gap: what is newer and does not touch it begins anew', () => {
    const list = withEvents([], events(3, 5));
    expect(ids(withEvents(list, events(7, 8)))).toEqual([8, 7]);
    expect(withEvents(list, events(1, 1))).toBe(list);
  });
});

describe('filterEvents', () => {
  const list = [event(2, { type: 'deployment.state', deployment: 7 }), event(1, { type: 'catalog.changed' })];
  it('by kind and by deployment', () => {
    expect(filterEvents(list, { kind: '', deployment: null })).toBe(list);
    expect(ids(filterEvents(list, { kind: 'catalog', deployment: null }))).toEqual([1]);
    expect(ids(filterEvents(list, { kind: '', deployment: 7 }))).toEqual([2]);
    expect(filterEvents(list, { kind: 'catalog', deployment: 7 })).toEqual([]);
  });
});

describe('toneOf', () => {
  it('marks what went wrong and what has come about', () => {
    expect(toneOf(event(1, { type: 'operation.failed' }))).toBe('bad');
    expect(toneOf(event(1, { type: 'deployment.state', data: { to: 'failed' } }))).toBe('bad');
    expect(toneOf(event(1, { type: 'deployment.state', data: { to: 'ready' } }))).toBe('good');
    expect(toneOf(event(1, { type: 'deployment.state', data: { to: 'unknown' } }))).toBe('warn');
    expect(toneOf(event(1, { type: 'a.later.version' }))).toBe('plain');
  });
});

describe('deploymentsIn', () => {
  it('takes the newest name that is known', () => {
    const list = [
      event(4, { deployment: 1, data: {} }),
      event(3, { deployment: 1, data: { name: 'b' } }),
      event(2, { deployment: 1, data: { name: 'a' } }),
      event(1, { deployment: 2 }),
    ];
    expect(deploymentsIn(list)).toEqual([
      { id: 2, name: 'deployment 2' },
      { id: 1, name: 'b' },
    ]);
  });
});
