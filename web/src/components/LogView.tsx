import { useEffect, useLayoutEffect, useRef, useState } from 'react';
import { open, path } from '../api/client';
import { asApiError, type ApiError } from '../api/problem';
import styles from './LogView.module.css';
import { ErrorNote } from './Note';

/** More characters than these of a log are not kept on the page; the file has all. */
const characters_kept = 400_000;

/** The end of a text, from the start of a line on. */
export function tailOf(text: string, characters: number): string {
  if (text.length <= characters) return text;
  const start = text.length - characters;
  const line = text.indexOf('\n', start);
  return text.slice(line < 0 ? start : line + 1);
}

/** The log of a deployment's engine as it grows. Stays at its end, unless the reader has scrolled up. */
export function LogView({ deployment, name, tail = 500 }: { deployment: number; name: string; tail?: number }) {
  const [text, setText] = useState('');
  const [state, setState] = useState<'reading' | 'following' | 'ended'>('reading');
  const [error, setError] = useState<ApiError | null>(null);
  const [attempt, setAttempt] = useState(0);
  const box = useRef<HTMLPreElement>(null);
  const atEnd = useRef(true);

  useEffect(() => {
    const controller = new AbortController();
    const read = async () => {
      const url = `${path`/api/v1/deployments/${deployment}/logs`}?tail=${tail}&follow=1`;
      const response = await open('GET', url, { signal: controller.signal });
      setState('following');
      const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
      while (reader) {
        const { done, value } = await reader.read();
        if (done) break;
        setText((old) => tailOf(old + value, characters_kept));
      }
      setState('ended');
    };
    setText('');
    setError(null);
    setState('reading');
    read().catch((thrown: unknown) => {
      if (!controller.signal.aborted) setError(asApiError(thrown));
    });
    return () => controller.abort();
  }, [deployment, tail, attempt]);

  useLayoutEffect(() => {
    if (box.current && atEnd.current) box.current.scrollTop = box.current.scrollHeight;
  }, [text]);

  return (
    <>
      <pre
        ref={box}
        className={styles.log}
        tabIndex={0}
        role="log"
        aria-label={`Log of ${name}`}
        aria-live="off"
        onScroll={(event) => {
          const { scrollHeight, scrollTop, clientHeight } = event.currentTarget;
          atEnd.current = scrollHeight - scrollTop - clientHeight < 8;
        }}
      >
        {text === '' ? (state === 'reading' ? 'Reading …' : 'It has written nothing yet.') : text}
      </pre>
      {error ? (
        <ErrorNote error={error} what="The log breaks off" retry={() => setAttempt(attempt + 1)} />
      ) : (
        <p className="quiet">{state === 'ended' ? 'The engine has ended.' : 'New lines appear as they are written.'}</p>
      )}
    </>
  );
}
