import * as Ariakit from '@ariakit/react';
import { useRef, useState, type ReactNode, type RefObject } from 'react';
import { asApiError, type ApiError } from '../api/problem';
import { Button } from './Button';
import styles from './Dialog.module.css';
import { ErrorNote } from './Note';

export interface DialogProps {
  title: string;
  open: boolean;
  onClose: () => void;
  children: ReactNode;
  /** Buttons at its end. */
  foot?: ReactNode;
  /** At the side of the page and as high as it, for what is long. */
  drawer?: boolean;
  /** "alertdialog" for a question that interrupts. */
  role?: 'dialog' | 'alertdialog';
  /** False: only its own buttons close it. */
  closable?: boolean;
  /** What has the focus first; else the first thing that can have it. */
  initialFocus?: RefObject<HTMLElement>;
}

/** A window over the page: keeps the focus, gives it back, closes with Escape. */
export function Dialog({
  title,
  open,
  onClose,
  children,
  foot,
  drawer = false,
  role = 'dialog',
  closable = true,
  initialFocus,
}: DialogProps) {
  return (
    <Ariakit.Dialog
      open={open}
      onClose={onClose}
      hideOnEscape={closable}
      hideOnInteractOutside={closable}
      unmountOnHide
      {...(initialFocus && { initialFocus })}
      role={role}
      backdrop={<div className={styles.backdrop} />}
      className={drawer ? styles.drawer : styles.dialog}
    >
      <div className={styles.head}>
        <Ariakit.DialogHeading render={<h2 className="foreign">{title}</h2>} />
        {closable && (
          <Button kind="quiet" small onClick={onClose} aria-label="Close">
            ✕
          </Button>
        )}
      </div>
      {children}
      {foot !== undefined && <div className={styles.foot}>{foot}</div>}
    </Ariakit.Dialog>
  );
}

export interface ConfirmDialogProps {
  title: string;
  open: boolean;
  onClose: () => void;
  /** Who is interrupted, and what is lost. */
  children: ReactNode;
  /** On the button: "Stop qwen3". */
  action: string;
  danger?: boolean;
  /** Does it; the dialog closes when that succeeds, and shows why when it does not. */
  onConfirm: () => Promise<void>;
}

/** Asks before something that interrupts somebody. The first focus is on "Cancel". */
export function ConfirmDialog({
  title,
  open,
  onClose,
  children,
  action,
  danger = false,
  onConfirm,
}: ConfirmDialogProps) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<ApiError | null>(null);
  const cancel = useRef<HTMLButtonElement>(null);

  const close = () => {
    setError(null);
    onClose();
  };
  const confirm = async () => {
    setBusy(true);
    setError(null);
    try {
      await onConfirm();
      close();
    } catch (thrown) {
      setError(asApiError(thrown));
    } finally {
      setBusy(false);
    }
  };

  return (
    <Dialog
      title={title}
      open={open}
      onClose={close}
      role="alertdialog"
      initialFocus={cancel}
      foot={
        <>
          <Button ref={cancel} onClick={close}>
            Cancel
          </Button>
          <Button kind={danger ? 'danger' : 'primary'} busy={busy} onClick={() => void confirm()}>
            {action}
          </Button>
        </>
      }
    >
      <div className="stack">{children}</div>
      {error && <ErrorNote error={error} />}
    </Dialog>
  );
}
