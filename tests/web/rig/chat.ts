/** What a person does with the page, and what they see of it. */

import { expect, type Locator, type Page } from '@playwright/test';

export class Chat {
  constructor(readonly page: Page) {}

  get field(): Locator {
    return this.page.getByRole('textbox', { name: 'Message' });
  }

  get log(): Locator {
    return this.page.getByRole('log', { name: 'Conversation' });
  }

  /** The turns, oldest first. */
  get turns(): Locator {
    return this.log.getByRole('article');
  }

  get last(): Locator {
    return this.turns.last();
  }

  get cards(): Locator {
    return this.page.locator('[data-card]');
  }

  get list(): Locator {
    return this.page.getByRole('navigation', { name: 'Chats' });
  }

  get stopButton(): Locator {
    return this.page.getByRole('button', { name: 'Stop', exact: true });
  }

  card(title: string | RegExp): Locator {
    return this.page.getByRole('region', { name: title });
  }

  /** A tool's line in the last turn. */
  tool(title: string | RegExp): Locator {
    return this.last.getByRole('listitem').getByRole('button', { name: title });
  }

  async open(url: string): Promise<void> {
    await this.page.goto(url);
    await expect(this.field).toBeVisible();
  }

  async ask(text: string): Promise<void> {
    await this.field.fill(text);
    await this.field.press('Enter');
  }

  /** Waits until the last turn has come to its end. */
  async done(): Promise<void> {
    await expect(this.last).toHaveAttribute('aria-busy', 'false', { timeout: 90_000 });
    await expect(this.stopButton).toBeHidden();
  }

  /** The id of the session that is shown. */
  async session(): Promise<string> {
    await this.page.waitForURL(/\/s\/[^/]+$/);
    return decodeURIComponent(new URL(this.page.url()).pathname.slice('/s/'.length));
  }

  /** All that the conversation shows. */
  async shown(): Promise<string> {
    return this.log.innerText();
  }

  /** The text of the last answer as far as it is there. */
  async answer(): Promise<string> {
    return (await this.last.locator('[data-markdown]').allInnerTexts()).join('\n');
  }
}
