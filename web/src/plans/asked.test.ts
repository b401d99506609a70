import { expect, test } from 'vitest';
import { askedOf, rememberAsked } from './asked';

const plans = (set: number, needed_bytes = 1) => ({ plan_set: String(set), needed_bytes });

test('what plans are for is known again, also where nothing can be stored, and old sets are forgotten', () => {
  for (let set = 1; set <= 40; set += 1) rememberAsked(plans(set), { what: `Deploying ${set}` });
  expect(askedOf('40')?.what).toBe('Deploying 40');
  expect(askedOf('1')).toBeNull();
  rememberAsked(plans(40), { what: 'Waking x' });
  expect(askedOf('40')?.what).toBe('Waking x');
  expect(askedOf('9')?.what).toBe('Deploying 9');
});

test('a set of the same number that a restarted daemon made is another one', () => {
  rememberAsked(plans(50, 7), { what: 'Deploying x' });
  expect(askedOf('50', plans(50, 7))?.what).toBe('Deploying x');
  expect(askedOf('50', plans(50, 8))).toBeNull();
});
