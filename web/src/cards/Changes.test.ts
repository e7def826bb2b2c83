import { expect, test } from 'vitest';
import { shortened } from './Changes';

test.each([
  ['a short text', 'a short text'],
  [`${'before '.repeat(20)}${'behind '.repeat(20)}`.trim(), `${'before '.repeat(10)}… ${'behind '.repeat(10)}`.trim()],
  ['x'.repeat(200), `${'x'.repeat(70)} … ${'x'.repeat(70)}`],
])('a stretch without a change: %s', (text, short) => {
  expect(shortened(text)).toBe(short);
});
