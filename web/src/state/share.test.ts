import { expect, test } from 'vitest';
import { share } from './share';

test('what is equal is the same object', () => {
  const old = { a: 1, list: [{ id: 1, name: 'x' }], inner: { b: null } };
  expect(share(old, structuredClone(old))).toBe(old);
});

test('only what has changed is new', () => {
  const old = {
    deployments: [
      { id: 1, bytes: 5 },
      { id: 2, bytes: 6 },
    ],
    warnings: [],
  };
  const next = share(old, {
    deployments: [
      { id: 1, bytes: 5 },
      { id: 2, bytes: 7 },
    ],
    warnings: [],
  });
  expect(next).not.toBe(old);
  expect(next.deployments[0]).toBe(old.deployments[0]);
  expect(next.deployments[1]).toEqual({ id: 2, bytes: 7 });
  expect(next.warnings).toBe(old.warnings);
});

test('members of a list are found by id, wherever they stand', () => {
  const old = [{ id: 1 }, { id: 2 }, { id: 3 }];
  const next = share(old, [{ id: 3 }, { id: 1 }]);
  expect(next).toEqual([{ id: 3 }, { id: 1 }]);
  expect(next[0]).toBe(old[2]);
  expect(next[1]).toBe(old[0]);
});

test('a member that has gone is gone', () => {
  expect(share({ a: 1, b: 2 } as object, { a: 1 } as object)).toEqual({ a: 1 });
});

test('unknown is not mixed up with anything', () => {
  expect(share({ gpu: 0 }, { gpu: null })).toEqual({ gpu: null });
  expect(share(null, { a: 1 })).toEqual({ a: 1 });
  expect(share([1], null)).toBeNull();
});
