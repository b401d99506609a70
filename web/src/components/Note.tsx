import type { ReactNode } from 'react';
import type { ApiError } from '../api/problem';
import type { Warning } from '../api/types';
import { Button } from './Button';
import { classes } from './classes';
import styles from './Note.module.css';

const marks = { info: 'i', warning: '!', error: '✕' };

/** A sentence that stands out, and what to do about it. */
export function Note({
  kind,
  role,
  children,
}: {
  kind: 'info' | 'warning' | 'error';
  role?: 'alert' | 'status';
  children: ReactNode;
}) {
  return (
    <div className={classes(styles.note, styles[kind])} role={role}>
      <span className={styles.mark} aria-hidden="true">
        {marks[kind]}
      </span>
      <div className={styles.body}>{children}</div>
    </div>
  );
}

/** Warnings of the host's memory with their next step. */
export function Warnings({ warnings }: { warnings: Warning[] }) {
  if (warnings.length === 0) return null;
  return (
    <ul className="stack" aria-label="Warnings">
      {warnings.map((warning, index) => (
        <li key={`${warning.code} ${index}`}>
          <Note kind={warning.severity === 'note' ? 'info' : 'warning'}>
            <p>{warning.message}</p>
            {warning.hint !== '' && <p className="quiet">{warning.hint}</p>}
          </Note>
        </li>
      ))}
    </ul>
  );
}

/** What went wrong, what to do, and a way to try again or to put the note away. */
export function ErrorNote({
  error,
  what,
  retry,
  close,
}: {
  error: ApiError;
  what?: string;
  retry?: () => void;
  close?: () => void;
}) {
  return (
    <Note kind="error" role="alert">
      <p>
        {what !== undefined && <strong>{what}: </strong>}
        {error.message}
      </p>
      {error.hint !== '' && <p className="quiet">{error.hint}</p>}
      {(retry ?? close) && (
        <div className="row">
          {retry && (
            <Button small onClick={retry}>
              Try again
            </Button>
          )}
          {close && (
            <Button small onClick={close}>
              Close
            </Button>
          )}
        </div>
      )}
    </Note>
  );
}
