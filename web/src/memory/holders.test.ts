import { expect, test } from 'vitest';
import type { Memory } from '../api/types';
import { holdersOf } from './holders';

const memory = {
  containers: [
    {
      id: 'abcdef0123456789',
      name: '',
      image: '',
      runtime: 'docker',
      processes: 1,
      measured: { total_bytes: 500, complete: false, gpu_bytes: null },
      own: false,
      orphan_id: 'c1',
    },
  ],
  processes: [{ unit: 'ollama.service', user: 'ollama', processes: 2, held_bytes: 900, gpu_bytes: 400, own: false }],
  shared_memory_bytes: null,
  ownerless_shared_memory_bytes: 0,
  hugepages_bytes: 0,
  rest_bytes: 70,
  unattributed_bytes: -30,
} as unknown as Memory;

test('the largest stands first, what is unknown last, and what is nothing is left out', () => {
  expect(holdersOf(memory).map((one) => [one.who, one.bytes])).toEqual([
    ['ollama.service', 900],
    ['abcdef012345', 500],
    ['unattributed', -30],
    ['shared memory', null],
  ]);
});

test('what is known of a container in part is at least that', () => {
  expect(holdersOf(memory)[1]).toMatchObject({ atLeast: true, gpu_bytes: null, orphan: true });
});
