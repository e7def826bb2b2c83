import { expect, test } from 'vitest';
import { diff } from './diff';

const marks = { same: '', removed: '-', added: '+' } as const;
const told = (before: string, after: string) =>
  diff(before, after).map(({ is, text }) => (is === 'same' ? text : `[${marks[is]}${text}]`)).join('');

test.each([
  ['one word', 'thank you for writing to us', 'thank you for turning to us', 'thank you for [-writing][+turning] to us'],
  ['words side by side', 'We ship it on Monday, we think.', 'We ship it by Friday, we think.', 'We ship it [-on Monday][+by Friday], we think.'],
  ['an addition', 'It is late.', 'It is very late.', 'It is [+very ]late.'],
  ['a removal', 'It is very late.', 'It is late.', 'It is [-very ]late.'],
  ['a text written anew', 'wash the tank, soak it and wait', 'Dear customer, it is on its way', '[-wash the tank, soak it and wait][+Dear customer, it is on its way]'],
  ['the middle written anew', 'Hello Sven, brush the group daily. Bye', 'Hello Sven, we call you. Bye', 'Hello Sven, [-brush the group daily][+we call you]. Bye'],
  ['nothing before', '', 'Hello', '[+Hello]'],
  ['nothing after', 'Hello', '', '[-Hello]'],
  ['no change', 'a, b', 'a, b', 'a, b'],
])('%s', (_, before, after, expected) => {
  expect(told(before, after)).toBe(expected);
});

test('what is shown holds both texts, whatever they are', () => {
  const words = ['a', 'b', ' ', ',', 'c', '\n', 'Ü', '9'];
  let seed = 7;
  const random = () => (seed = (seed * 1103515245 + 12345) % 2147483648) / 2147483648;
  const text = () => Array.from({ length: Math.floor(random() * 14) }, () => words[Math.floor(random() * words.length)]).join('');
  for (let i = 0; i < 2000; i += 1) {
    const [before, after] = [text(), text()];
    const pieces = diff(before, after);
    const without = (is: 'added' | 'removed') => pieces.filter((piece) => piece.is !== is).map((piece) => piece.text).join('');
    expect([without('added'), without('removed')]).toEqual([before, after]);
  }
});
