import { createContext } from 'react';
import type { Decision } from '../client/api';
import type { Answering } from '../client/feed';

export interface DecisionPort {
  readonly answering: ReadonlyMap<string, Answering>;
  readonly decide: (card: string, decision: Decision) => void;
}

/** How cards, wherever they are, reach the session. */
export const Decisions = createContext<DecisionPort>({ answering: new Map(), decide: () => undefined });
