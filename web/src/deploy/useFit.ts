import { useEffect, useState } from 'react';
import { request } from '../api/client';
import { asApiError, type ApiError } from '../api/problem';
import type { Fit } from '../api/types';
import type { DeployRequest } from './fields';

/** So long after the last key the estimate is asked for. */
const debounce_ms = 250;

export interface Estimated {
  /** The newest answer; of an earlier request while `pending` or when there is an `error`. */
  fit: Fit | null;
  /** The request that `fit` answers. */
  answered: DeployRequest | null;
  error: ApiError | null;
  /** An answer to what is asked now is on its way. */
  pending: boolean;
  retry: () => void;
}

/**
 * Will it fit? Asked anew whenever the request or `revision` changes; an answer that is overtaken by another question is
 * dropped. null asks nothing.
 */
export function useFit(asked: DeployRequest | null, revision: string): Estimated {
  const [state, setState] = useState<Omit<Estimated, 'pending' | 'retry'> & { done: string }>({
    fit: null,
    answered: null,
    error: null,
    done: '',
  });
  const [attempt, setAttempt] = useState(0);
  const body = asked === null ? '' : JSON.stringify(asked);
  const question = body === '' ? '' : `${body} ${revision} ${attempt}`;

  useEffect(() => {
    if (body === '') return;
    const controller = new AbortController();
    const answered = JSON.parse(body) as DeployRequest;
    const timer = setTimeout(() => {
      request<Fit>('POST', '/api/v1/fit', { body: answered, signal: controller.signal }).then(
        (fit) => setState({ fit, answered, error: null, done: question }),
        (thrown: unknown) => {
          const error = asApiError(thrown);
          if (!error || controller.signal.aborted) return;
          // Of another model nothing that was estimated holds.
          setState((old) => ({
            fit: old.answered?.model === answered.model ? old.fit : null,
            answered: old.answered,
            error,
            done: question,
          }));
        },
      );
    }, debounce_ms);
    return () => {
      clearTimeout(timer);
      controller.abort();
    };
  }, [body, question]);

  const retry = () => setAttempt((old) => old + 1);
  if (body === '') return { fit: null, answered: null, error: null, pending: false, retry };
  const ofThisModel = state.answered?.model === asked?.model;
  return {
    fit: ofThisModel ? state.fit : null,
    answered: state.answered,
    error: state.done === question ? state.error : null,
    pending: state.done !== question,
    retry,
  };
}
