import { Undo2 } from 'lucide-react';
import { useId } from 'react';
import { AutoText } from '../ui/AutoText';
import { TextChange, textOf } from './Changes';
import { draftOf, readDraft, type Draft, type Field } from './fields';
import styles from './FieldInput.module.css';

export interface FieldInputProps {
  readonly field: Field;
  readonly draft: Draft;
  readonly wrong: string | undefined;
  readonly disabled: boolean;
  readonly onChange: (draft: Draft) => void;
}

export function FieldInput({ field, draft, wrong, disabled, onChange }: FieldInputProps) {
  const id = useId();
  const original = draftOf(field);
  const changed = draft !== original;
  const read = readDraft(field, draft);
  const describedBy = [field.hint !== null && `${id}-hint`, wrong !== undefined && `${id}-wrong`].filter(Boolean).join(' ');
  const common = {
    id,
    disabled,
    className: styles.input,
    'aria-invalid': wrong !== undefined || undefined,
    'aria-describedby': describedBy === '' ? undefined : describedBy,
  };
  const { kind } = field;
  const text = typeof draft === 'string' ? draft : '';
  return (
    <div className={styles.field} data-changed={changed || undefined}>
      <div className={styles.head}>
        <label htmlFor={id}>{field.label}</label>
        {changed && (
          <button type="button" className={styles.undo} onClick={() => onChange(original)} disabled={disabled}>
            <Undo2 size={12} /> Undo change
          </button>
        )}
      </div>
      {kind.is === 'flag' ? (
        <input {...common} type="checkbox" className={styles.check} checked={draft === true} onChange={(e) => onChange(e.target.checked)} />
      ) : kind.is === 'choice' ? (
        <select {...common} value={text} onChange={(e) => onChange(e.target.value)}>
          {(field.optional || !kind.options.includes(text)) && <option value="">{field.optional ? 'none' : 'choose'}</option>}
          {kind.options.map((option) => (
            <option key={option} value={option}>
              {option}
            </option>
          ))}
        </select>
      ) : kind.is === 'line' ? (
        <input {...common} type={kind.input} value={text} onChange={(e) => onChange(e.target.value)} />
      ) : kind.is === 'number' ? (
        <input
          {...common}
          type="number"
          inputMode="decimal"
          step={kind.integer ? 1 : 'any'}
          value={text}
          onChange={(e) => onChange(e.target.value)}
        />
      ) : (
        <AutoText
          {...common}
          value={text}
          minRows={kind.is === 'text' ? 3 : 1}
          maxRows={14}
          spellCheck={kind.is === 'text'}
          data-code={kind.is === 'json' || undefined}
          placeholder={kind.is === 'lines' ? 'One a line' : undefined}
          onChange={(e) => onChange(e.target.value)}
        />
      )}
      {field.hint !== null && (
        <div className={styles.hint} id={`${id}-hint`}>
          {field.hint}
        </div>
      )}
      {wrong !== undefined && (
        <div className={styles.wrong} id={`${id}-wrong`} role="alert">
          {wrong}
        </div>
      )}
      {changed && read.is === 'value' && kind.is !== 'flag' && (
        <TextChange before={textOf(field.value)} after={textOf(read.value)} />
      )}
    </div>
  );
}
