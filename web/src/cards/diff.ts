/** What changed between two texts, by words; whole lines where the texts are long. */

export interface Piece {
  readonly is: 'same' | 'added' | 'removed';
  readonly text: string;
}

/** Cells of the table of common subsequences that are affordable. */
const MOST_CELLS = 400_000;

/** A stretch of which less than this share of words stays was written anew: the few that stay do so by chance. */
const LEAST_KEPT = 0.25;

export function diff(before: string, after: string): readonly Piece[] {
  const words = /\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu;
  const [a, b] = [before.match(words) ?? [], after.match(words) ?? []];
  const [head, tail] = common(a, b);
  const [midA, midB] = [a.slice(head, a.length - tail), b.slice(head, b.length - tail)];
  const same = (texts: readonly string[]) => texts.map((text): Piece => ({ is: 'same', text }));
  return joined([...same(a.slice(0, head)), ...between(midA, midB), ...same(a.slice(a.length - tail))]);
}

function between(a: readonly string[], b: readonly string[]): readonly Piece[] {
  const anew: readonly Piece[] = [
    { is: 'removed', text: a.join('') },
    { is: 'added', text: b.join('') },
  ];
  if (a.length * b.length > MOST_CELLS) return anew.filter((piece) => piece.text !== '');
  const pieces = subsequence(a, b);
  const kept = pieces.filter((piece) => piece.is === 'same' && isWord(piece.text)).length;
  const words = Math.max(a.filter(isWord).length, b.filter(isWord).length);
  return a.length > 0 && b.length > 0 && kept < words * LEAST_KEPT ? anew : gathered(pieces);
}

function isWord(text: string): boolean {
  return /[\p{L}\p{N}_]/u.test(text);
}

/** Changes with nothing but spaces and punctuation between them are one: first what goes, then what comes. */
function gathered(pieces: readonly Piece[]): readonly Piece[] {
  const out: Piece[] = [];
  let [removed, added, held] = ['', '', ''];
  const settle = () => {
    if (removed !== '') out.push({ is: 'removed', text: removed });
    if (added !== '') out.push({ is: 'added', text: added });
    if (held !== '') out.push({ is: 'same', text: held });
    [removed, added, held] = ['', '', ''];
  };
  for (const { is, text } of pieces) {
    if (is === 'same') {
      held += text;
      if (isWord(text) || (removed === '' && added === '')) settle();
    } else {
      [removed, added, held] = [removed + held, added + held, ''];
      if (is === 'removed') removed += text;
      else added += text;
    }
  }
  settle();
  return out;
}
/** How many pieces at the beginning and at the end are equal. */
function common(a: readonly string[], b: readonly string[]): readonly [number, number] {
  const least = Math.min(a.length, b.length);
  let head = 0;
  while (head < least && a[head] === b[head]) head += 1;
  let tail = 0;
  while (tail < least - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail += 1;
  return [head, tail];
}

function subsequence(a: readonly string[], b: readonly string[]): readonly Piece[] {
  const width = b.length + 1;
  const table = new Uint32Array((a.length + 1) * width);
  const at = (i: number, j: number): number => table[i * width + j] ?? 0;
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      table[i * width + j] = a[i] === b[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
    }
  }
  const pieces: Piece[] = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      pieces.push({ is: 'same', text: a[i] ?? '' });
      i += 1;
      j += 1;
    } else if (i < a.length && (j >= b.length || at(i + 1, j) >= at(i, j + 1))) {
      pieces.push({ is: 'removed', text: a[i] ?? '' });
      i += 1;
    } else {
      pieces.push({ is: 'added', text: b[j] ?? '' });
      j += 1;
    }
  }
  return pieces;
}

function joined(pieces: readonly Piece[]): readonly Piece[] {
  const out: Piece[] = [];
  for (const piece of pieces) {
    const last = out.at(-1);
    if (last?.is === piece.is) out[out.length - 1] = { is: last.is, text: last.text + piece.text };
    else out.push(piece);
  }
  return out;
}
