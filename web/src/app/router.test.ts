import { expect, test } from 'vitest';
import { href, parseHash } from './router';

test('an address that was made is read as what it was made of', () => {
  const place = parseHash(href('plans', [3, 'a/b?c'], { model: '/models/x y.gguf' }));
  expect(place.page).toBe('plans');
  expect(place.rest).toEqual(['3', 'a/b?c']);
  expect(place.query.get('model')).toBe('/models/x y.gguf');
});

test('no address is the first page', () => {
  for (const hash of ['', '#', '#/']) expect(parseHash(hash)).toMatchObject({ page: '', rest: [] });
});

test('a broken address is text', () => {
  expect(parseHash('#/%E0%A4%A').page).toBe('%E0%A4%A');
});
