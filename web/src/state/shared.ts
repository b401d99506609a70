import { useRef } from 'react';
import { share } from './share';

/** `value`, with the parts that are as they were at the last render being the same objects. */
export function useShared<T>(value: T): T {
  const last = useRef(value);
  last.current = share(last.current, value);
  return last.current;
}
