import { forwardRef, type AnchorHTMLAttributes, type ButtonHTMLAttributes } from 'react';
import { classes } from './classes';
import styles from './Button.module.css';

export type ButtonKind = 'plain' | 'primary' | 'danger' | 'quiet';

export interface ButtonProps extends ButtonHTMLAttributes<HTMLButtonElement> {
  kind?: ButtonKind;
  small?: boolean;
  /** What it started is not done yet: it cannot be pressed, and says so. */
  busy?: boolean;
}

export const Button = forwardRef<HTMLButtonElement, ButtonProps>(function Button(
  { kind = 'plain', small = false, busy = false, disabled, className, children, ...rest },
  ref,
) {
  return (
    <button
      ref={ref}
      type="button"
      className={classes(styles.button, kind !== 'plain' && styles[kind], small && styles.small, className)}
      disabled={disabled || busy}
      aria-busy={busy || undefined}
      {...rest}
    >
      {children}
      {busy && '…'}
    </button>
  );
});

/** A link that looks like a button, for going somewhere. */
export function ButtonLink({
  kind = 'plain',
  small = false,
  className,
  children,
  ...rest
}: AnchorHTMLAttributes<HTMLAnchorElement> & { href: string; kind?: ButtonKind; small?: boolean }) {
  return (
    <a className={classes(styles.button, kind !== 'plain' && styles[kind], small && styles.small, className)} {...rest}>
      {children}
    </a>
  );
}
