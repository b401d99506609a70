import { useCallback, useEffect, useRef, useState } from 'react';
import { request } from '../api/client';
import { asApiError, type ApiError } from '../api/problem';
import { useDaemon } from './daemon';
import type { Topic } from './effects';
import { share } from './share';

export interface Resource<T> {
  /** The newest that could be read; null until then. */
  data: T | null;
  /** Why the newest attempt failed; null when it did not. */
  error: ApiError | null;
  /** Nothing is there yet, and it is being read. */
  loading: boolean;
  reload: () => void;
}

/**
 * A document that only some pages need: read when the component appears, and again after a reconnect and whenever one of
 * `topics` has changed. `every_s` is for what has no event: then it is also read that often while the tab is seen. A null
 * `url` reads nothing.
 */
export function useResource<T>(url: string | null, options: { topics?: Topic[]; every_s?: number } = {}): Resource<T> {
  const [state, setState] = useState<{ url: string | null; data: T | null; error: ApiError | null }>({
    url,
    data: null,
    error: null,
  });
  const running = useRef<AbortController | null>(null);
  const topics = options.topics ?? [];
  const revision = useDaemon((daemon) =>
    topics.reduce((sum, topic) => sum + daemon.topics[topic], daemon.topics.connection),
  );

  const reload = useCallback(() => {
    if (url === null) return;
    running.current?.abort();
    const controller = new AbortController();
    running.current = controller;
    request<T>('GET', url, { signal: controller.signal }).then(
      (data) => setState((old) => ({ url, data: share(old.url === url ? old.data : null, data), error: null })),
      (thrown: unknown) => {
        const error = asApiError(thrown);
        if (error) setState((old) => ({ url, data: old.url === url ? old.data : null, error }));
      },
    );
  }, [url]);

  useEffect(() => {
    reload();
    return () => running.current?.abort();
  }, [reload, revision]);

  const every_s = options.every_s;
  useEffect(() => {
    if (every_s === undefined) return;
    const timer = setInterval(() => {
      if (!document.hidden) reload();
    }, every_s * 1000);
    return () => clearInterval(timer);
  }, [every_s, reload]);

  const current = state.url === url ? state : { data: null, error: null };
  return {
    data: current.data,
    error: current.error,
    loading: current.data === null && current.error === null && url !== null,
    reload,
  };
}
