/** The heading of a card, or of the first one that is shown; the focus goes there when a card is to be seen. */
export function cardHeading(id?: string): HTMLElement | null {
  const card = id === undefined ? '[data-card]' : `[data-card="${CSS.escape(id)}"]`;
  return document.querySelector<HTMLElement>(`${card} h2`);
}
