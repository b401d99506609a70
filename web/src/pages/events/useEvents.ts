import { useCallback, useEffect, useRef, useState } from 'react';
import { open } from '../../api/client';
import { asApiError, type ApiError } from '../../api/problem';
import { SseParser } from '../../api/sse';
import type { Event } from '../../api/types';
import { useDaemon } from '../../state/daemon';
import { withEvents, type EventList } from './list';

/** The daemon sends what is stored in portions of so many, and the budget after the first of them. */
const portion = 100;

/** Reads stored events until one with `last_id` has come, or the first portion has. */
async function readEvents(query: string, last_id: number | null, signal: AbortSignal): Promise<Event[]> {
  const response = await open('GET', `/api/v1/events?${query}`, { signal });
  const reader = response.body?.getReader();
  const events: Event[] = [];
  if (!reader) return events;
  const decoder = new TextDecoder();
  const parser = new SseParser();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return events;
    for (const message of parser.feed(decoder.decode(value, { stream: true }))) {
      if (message.id !== '') events.push(JSON.parse(message.data) as Event);
      const complete = last_id === null ? message.type === 'budget' : Number(message.id) >= last_id;
      if (!complete) continue;
      void reader.cancel();
      return events;
    }
  }
}

export interface Events {
  /** Newest first, without gaps; null until they were read. */
  list: EventList | null;
  /** Why they, or older ones, could not be read. */
  error: ApiError | null;
  /** Older ones are being read. */
  reading: boolean;
  /** There are, or may be, older ones. */
  more: boolean;
  readOlder: () => void;
  reload: () => void;
}

/** What happened: what is stored when the page is opened, what comes, and older ones on demand. */
export function useEvents(): Events {
  const [list, setList] = useState<EventList | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const [reading, setReading] = useState(false);
  const [more, setMore] = useState(true);
  const live = useDaemon((daemon) => daemon.events);
  const connection = useDaemon((daemon) => daemon.topics.connection);
  const request = useRef<AbortController | null>(null);

  const read = useCallback(
    (query: string, last_id: number | null, add: (list: EventList | null, read: Event[]) => EventList) => {
      request.current?.abort();
      const controller = new AbortController();
      request.current = controller;
      setReading(true);
      readEvents(query, last_id, controller.signal)
        .then(
          (events) => {
            setError(null);
            setList((old) => add(old, events));
          },
          (thrown: unknown) => {
            const failed = asApiError(thrown);
            if (failed) setError(failed);
          },
        )
        .finally(() => {
          if (request.current === controller) setReading(false);
        });
    },
    [],
  );

  const reload = useCallback(() => {
    read(`tail=${portion}`, null, (old, events) => {
      // A daemon with another state folder begins its ids anew.
      const another = old !== null && (events.at(-1)?.id ?? 0) < (old[0]?.id ?? 0);
      const merged = withEvents(another ? [] : (old ?? []), events);
      setMore((merged.at(-1)?.id ?? 1) > 1);
      return merged;
    });
  }, [read]);

  // Also after a reconnect: what the stream has not brought by itself is in the newest portion, or begins the list anew.
  useEffect(() => {
    reload();
    return () => request.current?.abort();
  }, [reload, connection]);

  useEffect(() => setList((old) => (old === null ? null : withEvents(old, live))), [live]);

  const oldest = list?.at(-1)?.id;
  const readOlder = useCallback(() => {
    if (oldest === undefined || oldest <= 1) return;
    read(`after=${Math.max(oldest - 1 - portion, 0)}`, oldest - 1, (old, events) => {
      // Fewer than were asked for: the others are kept no longer.
      setMore((events[0]?.id ?? 1) > 1 && events.length >= Math.min(portion, oldest - 1));
      return withEvents(
        old ?? [],
        events.filter((one) => one.id < oldest),
      );
    });
  }, [read, oldest]);

  return { list, error, reading, more, readOlder, reload };
}
