import { memo } from 'react';
import type { SystemMessage, ToolCallPart, ThinkingPart, Json } from '../fold';
import { ThinkingLine } from './ThinkingLine';
import { ToolLine } from './ToolLine';
import styles from './Steps.module.css';

export interface Step { readonly index: number; readonly part: ThinkingPart | ToolCallPart }

export interface StepsProps {
  readonly steps: readonly Step[];
  readonly cards: readonly SystemMessage[];
  readonly snapshots?: Readonly<Record<string, Json>> | undefined;
  /** Whether the last step may still go on. */
  readonly live: boolean;
}

/** Thinking and tool calls in a row, each folded to one line. */
export const Steps = memo(function Steps({ steps, cards, live }: StepsProps) {
  return (
    <ul className={styles.steps}>
      {steps.map(({ index, part }, i) => (
        <li key={index} className={styles.step}>
          {part.type === 'thinking' ? (
            <ThinkingLine part={part} live={live && i === steps.length - 1} />
          ) : (
            <ToolLine call={part} cards={cards} />
          )}
        </li>
      ))}
    </ul>
  );
});
