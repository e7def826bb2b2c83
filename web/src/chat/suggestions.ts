import { isObject } from '../markdown/record';
import type { Json, SessionFold } from '../fold';
import { outcomeOf } from '../fold';

/** What the agent offers to be said next: the last turn's result that holds prompts. */
export function suggestionsOf(session: SessionFold): readonly string[] {
  const last = session.turns.at(-1);
  if (last === undefined || outcomeOf(last)?.status !== 'completed') return [];
  for (const part of last.fold.assistant?.parts.toReversed() ?? []) {
    if (part.type !== 'tool_call' || part.status !== 'completed' || !isObject(part.output)) continue;
    const prompts = part.output.prompts;
    if (Array.isArray(prompts)) {
      return (prompts as readonly Json[]).filter((p): p is string => typeof p === 'string').slice(0, 4);
    }
  }
  return [];
}
