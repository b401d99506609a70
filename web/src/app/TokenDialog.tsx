import { useId, useState, type FormEvent } from 'react';
import { token } from '../api/token';
import { Button } from '../components/Button';
import { Dialog } from '../components/Dialog';
import { Note } from '../components/Note';
import { useDaemon } from '../state/daemon';

/** Asks for the token when the daemon wants one, or another one. */
export function TokenDialog() {
  const wanted = useDaemon((state) => state.connection.kind === 'token');
  return (
    <Dialog title="This dgxmm wants a token" open={wanted} onClose={() => undefined} closable={false}>
      <TokenForm refused={token.get() !== null} />
    </Dialog>
  );
}

/** Takes a token; the page connects with it at once. `refused`: the one that it has is wrong. */
export function TokenForm({ refused = false }: { refused?: boolean }) {
  const id = useId();
  const [value, setValue] = useState('');
  const [onThisComputer, setOnThisComputer] = useState(false);
  const [wrong] = useState(refused);

  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (value.trim() !== '') token.set(value.trim(), onThisComputer);
  };
  return (
    <form className="stack" onSubmit={submit}>
      {wrong && (
        <Note kind="error" role="alert">
          The token that was given is not the right one.
        </Note>
      )}
      <p>
        It is the setting <code>token</code> of the daemon, or the content of its <code>token_file</code>.
      </p>
      <div className="stack">
        <label htmlFor={id}>Token</label>
        <input
          id={id}
          type="password"
          autoComplete="current-password"
          spellCheck={false}
          required
          aria-invalid={wrong}
          value={value}
          onChange={(event) => setValue(event.target.value)}
        />
      </div>
      <label className="row">
        <input type="checkbox" checked={onThisComputer} onChange={(event) => setOnThisComputer(event.target.checked)} />
        Keep it on this computer; else only in this tab
      </label>
      <div className="row">
        <Button type="submit" kind="primary">
          Connect
        </Button>
      </div>
    </form>
  );
}
