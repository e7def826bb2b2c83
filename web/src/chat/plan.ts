/** Plans, recognised by their shape, wherever they come from. */

import { isObject } from '../markdown/record';
import type { Json, Part, SessionFold } from '../fold';

export type StepStatus = 'pending' | 'running' | 'completed' | 'failed';

export interface PlanStep {
  readonly id: string;
  readonly label: string;
  readonly detail: string | null;
  readonly status: StepStatus;
}

export interface Plan {
  readonly steps: readonly PlanStep[];
}

const STATUSES: readonly string[] = ['pending', 'running', 'completed', 'failed'];

export function planOf(value: Json | undefined): Plan | null {
  if (!isObject(value) || !Array.isArray(value.steps)) return null;
  const steps = (value.steps as readonly Json[]).map((step, i): PlanStep | null => {
    if (!isObject(step)) return null;
    const { id, label, detail, status } = step;
    if (typeof label !== 'string' || typeof status !== 'string' || !STATUSES.includes(status)) return null;
    return {
      id: typeof id === 'string' ? id : String(i + 1),
      label,
      detail: typeof detail === 'string' ? detail : null,
      status: status as StepStatus,
    };
  });
  const whole = steps.filter((step) => step !== null);
  return whole.length === steps.length && whole.length > 0 ? { steps: whole } : null;
}

/** The plan in force: the one last told of, else the last one that a tool gave. */
export function currentPlan(session: SessionFold): Plan | null {
  const told = planOf(session.plan ?? undefined);
  if (told !== null) return told;
  for (const turn of session.turns.toReversed()) {
    const found = turn.fold.assistant && lastPlan(turn.fold.assistant.parts);
    if (found) return found;
  }
  return null;
}

function lastPlan(parts: readonly Part[]): Plan | null {
  for (const part of parts.toReversed()) {
    if (part.type !== 'tool_call') continue;
    const plan = planOf(part.output) ?? (part.child ? lastPlan(part.child.parts) : null);
    if (plan !== null) return plan;
  }
  return null;
}

export function isOver(plan: Plan): boolean {
  return plan.steps.every((step) => step.status === 'completed' || step.status === 'failed');
}
