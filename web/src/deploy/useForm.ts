import { useCallback, useEffect, useRef, useState } from 'react';
import { href, navigate, usePlace } from '../app/router';
import type { FormValues } from './fields';

/** So long after the last key the address has what was typed. */
const write_ms = 400;

function valuesOf(query: URLSearchParams): FormValues {
  return Object.fromEntries([...query].filter(([, value]) => value !== ''));
}

function queryOf(values: FormValues): Record<string, string> {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== ''));
}

/** A form whose values are in the address, so that a reload, a link and the way back keep them. */
export function useForm(page: string): [FormValues, (changes: Record<string, string>) => void] {
  const { query } = usePlace();
  const [values, setValues] = useState<FormValues>(() => valuesOf(query));
  const written = useRef(query.toString());

  // Somebody came by a link, or went back.
  useEffect(() => {
    if (query.toString() === written.current) return;
    written.current = query.toString();
    setValues(valuesOf(query));
  }, [query]);

  useEffect(() => {
    const wanted = queryOf(values);
    const text = new URLSearchParams(wanted).toString();
    if (text === written.current) return;
    const timer = setTimeout(() => {
      written.current = text;
      navigate(href(page, [], wanted), { replace: true });
    }, write_ms);
    return () => clearTimeout(timer);
  }, [values, page]);

  const change = useCallback((changes: Record<string, string>) => setValues((old) => ({ ...old, ...changes })), []);
  return [values, change];
}
