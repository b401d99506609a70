import { useEffect, useRef, useState, useSyncExternalStore } from 'react';
import { token } from '../../api/token';
import { TokenForm } from '../../app/TokenDialog';
import { Button } from '../../components/Button';
import { ConfirmDialog } from '../../components/Dialog';

/** Whether this page has a token and where it is kept; never the token itself. */
export function TokenCard() {
  const kept = useSyncExternalStore(token.subscribe, token.keptIn);
  const [entering, setEntering] = useState(false);
  const [forgetting, setForgetting] = useState(false);
  const button = useRef<HTMLButtonElement>(null);

  // A token that was given, or forgotten, ends the form.
  useEffect(
    () =>
      token.subscribe(() => {
        setEntering(false);
        button.current?.focus();
      }),
    [],
  );

  return (
    <div className="card stack">
      <h2>Token</h2>
      <p>
        {kept === null &&
          'This page has none. The daemon wants one only when it is told to, or listens beyond this host.'}
        {kept === 'tab' && 'A token is kept in this tab, until the tab is closed.'}
        {kept === 'computer' &&
          'A token is kept on this computer, in the storage of this browser, until it is forgotten.'}
      </p>
      {entering && <TokenForm />}
      <div className="row">
        <Button ref={button} aria-expanded={entering} onClick={() => setEntering(!entering)}>
          {entering ? 'Cancel' : kept === null ? 'Enter a token' : 'Enter another one'}
        </Button>
        {kept !== null && <Button onClick={() => setForgetting(true)}>Forget it …</Button>}
      </div>
      <ConfirmDialog
        title="Forget the token?"
        open={forgetting}
        onClose={() => setForgetting(false)}
        action="Forget it"
        onConfirm={() => {
          token.forget();
          return Promise.resolve();
        }}
      >
        <p>
          {kept === 'computer' ? 'Every tab of this browser' : 'This tab'} asks for it again when the daemon wants one.
        </p>
      </ConfirmDialog>
    </div>
  );
}
