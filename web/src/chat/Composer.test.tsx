import { render, screen, waitFor } from '@testing-library/react';
import userEvent from '@testing-library/user-event';
import { expect, test, vi } from 'vitest';
import { Composer } from './Composer';

test('a text that could not be taken comes back', async () => {
  const onSend = vi.fn(() => Promise.reject(new Error('The server cannot be reached.')));
  render(<Composer name="a" phase="idle" onSend={onSend} />);
  const field = screen.getByRole('textbox', { name: 'Message' });
  await userEvent.type(field, 'Where is my parcel?{Enter}');
  expect(onSend).toHaveBeenCalledWith('Where is my parcel?', 'queue');
  await waitFor(() => expect(field).toHaveProperty('value', 'Where is my parcel?'));
});

test('a text that was taken is gone, and what is written meanwhile stays', async () => {
  let refuse: (why: Error) => void = () => undefined;
  render(<Composer name="b" phase="idle" onSend={() => new Promise((_, reject) => (refuse = reject))} />);
  const field = screen.getByRole('textbox', { name: 'Message' });
  await userEvent.type(field, 'First{Enter}');
  expect(field).toHaveProperty('value', '');
  await userEvent.type(field, 'Second');
  refuse(new Error('too late'));
  await Promise.resolve();
  expect(field).toHaveProperty('value', 'Second');
});

test.each([
  ['idle', '{Enter}', 'queue'],
  ['idle', '{Control>}{Enter}{/Control}', 'queue'],
  ['running', '{Enter}', 'queue'],
  ['running', '{Control>}{Enter}{/Control}', 'steer'],
  ['paused', '{Enter}', 'queue'],
] as const)('while %s, %s sends to %s', async (phase, keys, delivery) => {
  const onSend = vi.fn();
  render(<Composer name={`${phase}${keys}`} phase={phase} onSend={onSend} />);
  await userEvent.type(screen.getByRole('textbox', { name: 'Message' }), `Hello${keys}`);
  expect(onSend.mock.calls).toEqual([['Hello', delivery]]);
});
