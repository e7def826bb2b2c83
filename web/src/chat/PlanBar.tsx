import { Collapsible } from '@base-ui/react/collapsible';
import { ChevronDown, ListChecks } from 'lucide-react';
import { memo } from 'react';
import type { Plan } from './plan';
import { PlanSteps } from './PlanSteps';
import styles from './PlanBar.module.css';

/** The plan above the field: where it stands in one line, its steps when unfolded. */
export const PlanBar = memo(function PlanBar({ plan }: { readonly plan: Plan }) {
  const done = plan.steps.filter((step) => step.status === 'completed').length;
  const now = plan.steps.find((step) => step.status === 'running') ?? plan.steps.find((step) => step.status === 'pending');
  return (
    <Collapsible.Root className={styles.bar}>
      <Collapsible.Trigger className={styles.line}>
        <ListChecks size={15} />
        <span className={styles.count}>
          Plan, {done} of {plan.steps.length} done
        </span>
        <span className={styles.now}>{now?.label}</span>
        <span className={styles.meter} aria-hidden="true">
          <span style={{ width: `${(100 * done) / plan.steps.length}%` }} />
        </span>
        <ChevronDown size={15} className={styles.chevron} />
      </Collapsible.Trigger>
      <Collapsible.Panel className={styles.panel}>
        <div className={styles.steps}>
          <PlanSteps plan={plan} />
        </div>
      </Collapsible.Panel>
    </Collapsible.Root>
  );
});
