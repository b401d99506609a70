import { expect, test } from 'vitest';
import { askedOf, rememberAsked } from './asked';

test('what plans are for is known again, also where nothing can be stored, and old sets are forgotten', () => {
  for (let set = 1; set <= 40; set += 1) rememberAsked(String(set), { what: `Deploying ${set}` });
  expect(askedOf('40')?.what).toBe('Deploying 40');
  expect(askedOf('1')).toBeNull();
  rememberAsked('40', { what: 'Waking x' });
  expect(askedOf('40')?.what).toBe('Waking x');
  expect(askedOf('9')?.what).toBe('Deploying 9');
});
