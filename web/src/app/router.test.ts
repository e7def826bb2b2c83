import { expect, test } from 'vitest';
import { pathOf, placeOf } from './router';

test.each([
  ['/', { is: 'new' }],
  ['/elsewhere', { is: 'new' }],
  ['/s/', { is: 'new' }],
  ['/s/s_1', { is: 'session', id: 's_1' }],
  ['/s/s_1/', { is: 'session', id: 's_1' }],
  ['/s/a%2Fb', { is: 'session', id: 'a/b' }],
  ['/s/%E0%A4%A', { is: 'session', id: '%E0%A4%A' }],
] as const)('%s is a place', (path, place) => {
  expect(placeOf(path)).toEqual(place);
});

test.each(['s_1', 'a/b', '%', '100%', 'ä ö', '../v1'])('the session %s is found at its address', (id) => {
  expect(placeOf(pathOf({ is: 'session', id }))).toEqual({ is: 'session', id });
});
