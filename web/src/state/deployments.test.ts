import { expect, test } from 'vitest';
import type { Deployment } from '../api/types';
import { withActivity } from './daemon';

test('who is at work changes, and everything else of a deployment stays', () => {
  const deployments = [
    { id: 1, name: 'a', busy: null, requests_in_flight: null, idle_since: null },
    { id: 2, name: 'b', busy: false, requests_in_flight: 0, idle_since: '2026-01-01T00:00:00Z' },
  ] as Deployment[];
  const changed = withActivity(deployments, [{ id: 1, busy: true, requests_in_flight: 2, idle_since: null }]);
  expect(changed).toEqual([
    { id: 1, name: 'a', busy: true, requests_in_flight: 2, idle_since: null },
    { id: 2, name: 'b', busy: false, requests_in_flight: 0, idle_since: '2026-01-01T00:00:00Z' },
  ]);
});

test('an activity of a deployment that is not known yet does no harm', () => {
  expect(withActivity([], [{ id: 9, busy: true, requests_in_flight: 1, idle_since: null }])).toEqual([]);
});
