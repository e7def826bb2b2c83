import clsx from 'clsx';
import type { ButtonHTMLAttributes, Ref } from 'react';
import styles from './Button.module.css';

export interface ButtonProps extends ButtonHTMLAttributes<HTMLButtonElement> {
  readonly look?: 'plain' | 'primary' | 'quiet' | 'danger';
  readonly size?: 'normal' | 'small';
  readonly ref?: Ref<HTMLButtonElement>;
}

export function Button({ look = 'plain', size = 'normal', className, ...rest }: ButtonProps) {
  return <button type="button" className={clsx(styles.button, styles[look], styles[size], className)} {...rest} />;
}

export interface IconButtonProps extends ButtonHTMLAttributes<HTMLButtonElement> {
  /** What it does, for those who do not see the icon. */
  readonly label: string;
  readonly ref?: Ref<HTMLButtonElement>;
}

export function IconButton({ label, className, ...rest }: IconButtonProps) {
  return <button type="button" aria-label={label} title={label} className={clsx(styles.icon, className)} {...rest} />;
}
