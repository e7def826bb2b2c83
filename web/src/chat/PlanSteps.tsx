import { Check, Minus, X } from 'lucide-react';
import { Spinner } from '../ui/Spinner';
import type { Plan, StepStatus } from './plan';
import styles from './PlanSteps.module.css';

export function PlanSteps({ plan }: { readonly plan: Plan }) {
  return (
    <ol className={styles.steps}>
      {plan.steps.map((step) => (
        <li key={step.id} className={styles.step} data-status={step.status}>
          <span className={styles.mark}>
            <Mark status={step.status} />
          </span>
          <span>
            <span className={styles.label}>{step.label}</span>
            {step.detail !== null && <span className={styles.detail}>{step.detail}</span>}
            <span className="sr-only">, {step.status}</span>
          </span>
        </li>
      ))}
    </ol>
  );
}

function Mark({ status }: { readonly status: StepStatus }) {
  switch (status) {
    case 'completed':
      return <Check size={12} strokeWidth={3} />;
    case 'failed':
      return <X size={12} strokeWidth={3} />;
    case 'running':
      return <Spinner size={14} />;
    case 'pending':
      return <Minus size={12} opacity={0} />;
  }
}
