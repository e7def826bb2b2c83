import { useLayoutEffect, useRef, type Ref, type TextareaHTMLAttributes } from 'react';

export interface AutoTextProps extends TextareaHTMLAttributes<HTMLTextAreaElement> {
  readonly minRows?: number;
  readonly maxRows?: number;
  readonly ref?: Ref<HTMLTextAreaElement>;
}

/** A text field as high as its text, within bounds. */
export function AutoText({ minRows = 1, maxRows = 10, ref, ...rest }: AutoTextProps) {
  const own = useRef<HTMLTextAreaElement>(null);
  const { value } = rest;
  useLayoutEffect(() => {
    const field = own.current;
    if (field === null) return;
    const style = getComputedStyle(field);
    const line = Number.parseFloat(style.lineHeight) || 22;
    const around = field.offsetHeight - field.clientHeight;
    const padding = Number.parseFloat(style.paddingTop) + Number.parseFloat(style.paddingBottom) || 0;
    field.style.height = 'auto';
    const wanted = field.scrollHeight;
    const least = minRows * line + padding;
    const most = maxRows * line + padding;
    field.style.height = `${Math.min(Math.max(wanted, least), most) + around}px`;
    field.style.overflowY = wanted > most + 1 ? 'auto' : 'hidden';
  }, [value, minRows, maxRows]);
  return (
    <textarea
      rows={minRows}
      {...rest}
      style={{ resize: 'none', ...rest.style }}
      ref={(field) => {
        own.current = field;
        if (typeof ref === 'function') ref(field);
        else if (ref) ref.current = field;
      }}
    />
  );
}
