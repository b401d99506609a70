import { expect, test } from 'vitest';
import { exactBytes, formatBytes, gib, mib } from './bytes';
import { formatAge, formatDuration } from './time';

test('sizes have one decimal', () => {
  expect(formatBytes(12.34 * gib)).toBe('12.3 GiB');
  expect(formatBytes(0.3 * gib)).toBe('0.3 GiB');
  expect(formatBytes(121.69 * gib)).toBe('121.7 GiB');
});

test('what is small is not rounded to nothing', () => {
  expect(formatBytes(23 * mib)).toBe('23.0 MiB');
  expect(formatBytes(1536)).toBe('1.5 KiB');
  expect(formatBytes(1)).toBe('1 B');
  expect(formatBytes(0)).toBe('0 B');
});

test('what is missing has its sign', () => {
  expect(formatBytes(-3.2 * gib)).toBe('-3.2 GiB');
  expect(formatBytes(-5)).toBe('-5 B');
});

test('the exact figure is whole bytes', () => {
  expect(exactBytes(13_204_889_600)).toBe('13,204,889,600 bytes');
});

test('durations have at most two units', () => {
  expect(formatDuration(47)).toBe('47 s');
  expect(formatDuration(185)).toBe('3 min 05 s');
  expect(formatDuration(7800)).toBe('2 h 10 min');
  expect(formatDuration(4 * 86400 + 3 * 3600 + 59)).toBe('4 d 3 h');
});

test('ages have one unit, and are never negative', () => {
  expect(formatAge(-2)).toBe('now');
  expect(formatAge(59.9)).toBe('59 s');
  expect(formatAge(60)).toBe('1 min');
  expect(formatAge(86400)).toBe('1 d');
});
