import { expect, test } from 'vitest';
import type { Event } from '../api/types';
import { effectOf } from './effects';

function event(type: string, rest: Partial<Event> = {}): Event {
  return { id: 1, time: '2026-01-01T00:00:00Z', type, deployment: null, message: '', data: {}, ...rest };
}

test('whatever happens to a deployment has it read again', () => {
  for (const type of [
    'deployment.created',
    'deployment.state',
    'deployment.progress',
    'deployment.changed',
    'deployment.outdated',
  ]) {
    expect(effectOf(event(type, { deployment: 3 }))).toMatchObject({ deployment: 3 });
  }
});

test('a removed deployment is dropped without asking', () => {
  const effect = effectOf(event('deployment.removed', { deployment: 3 }));
  expect(effect.removed).toBe(3);
  expect(effect.deployment).toBeUndefined();
});

test('a step has its operation read again', () => {
  expect(effectOf(event('operation.step', { data: { operation: '5', step: '0' } })).operation).toBe('5');
});

test('an operation that succeeded brings its deployment', () => {
  const effect = effectOf(event('operation.succeeded', { deployment: 4, data: { operation: '5' } }));
  expect(effect).toMatchObject({ deployment: 4, operation: '5' });
});

test('the catalog and the calibration are topics that pages wait for', () => {
  expect(effectOf(event('catalog.changed')).topics).toEqual(['catalog']);
  expect(effectOf(event('calibration.recorded', { deployment: 1 })).topics).toEqual(['calibration']);
});

test('an event that names no deployment has all of them read again where it may concern each', () => {
  expect(effectOf(event('host.restarted')).allDeployments).toBe(true);
  expect(effectOf(event('engine.unknown')).allDeployments).toBe(true);
});

test('an event of a later version changes nothing, and does no harm', () => {
  expect(effectOf(event('something.new'))).toEqual({ topics: [] });
});
