import { render, screen } from '@testing-library/react';
import userEvent from '@testing-library/user-event';
import { expect, test } from 'vitest';
import { PlainText } from './PlainText';

test('a text is shown as it was written', () => {
  const { container } = render(<PlainText text={'<b>one</b>\n  two'} />);
  expect(container.textContent).toBe('<b>one</b>\n  two');
});

test('a long text is cut until it is asked for', async () => {
  const text = 'word '.repeat(10_000);
  const { container } = render(<PlainText text={text} />);
  expect(container.textContent).toHaveLength(4_001 + 'Show all 50,000 characters'.length);
  await userEvent.click(screen.getByRole('button', { name: 'Show all 50,000 characters' }));
  expect(container.textContent).toBe(`${text}Show less`);
  await userEvent.click(screen.getByRole('button', { name: 'Show less' }));
  expect(container.textContent).toMatch(/…Show all 50,000 characters$/);
});
