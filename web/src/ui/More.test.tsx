import { render, screen } from '@testing-library/react';
import userEvent from '@testing-library/user-event';
import { expect, test, vi } from 'vitest';
import { More } from './More';

test('what could not be loaded is said, and can be tried again', async () => {
  const load = vi.fn<() => Promise<void>>().mockRejectedValueOnce(new Error('The server cannot be reached.')).mockResolvedValueOnce();
  render(<More label="Older chats" load={load} />);
  await userEvent.click(screen.getByRole('button', { name: 'Older chats' }));
  await userEvent.click(await screen.findByRole('button', { name: 'That did not work. Try again' }));
  expect(await screen.findByRole('button', { name: 'Older chats' })).toHaveProperty('disabled', false);
  expect(load).toHaveBeenCalledTimes(2);
});

test('what is being loaded is not asked for once more', async () => {
  const load = vi.fn(() => new Promise<void>(() => undefined));
  render(<More label="Older chats" load={load} />);
  await userEvent.click(screen.getByRole('button'));
  await userEvent.click(screen.getByRole('button'));
  expect(load).toHaveBeenCalledTimes(1);
});
