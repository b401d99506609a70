import { exactBytes, formatBytes } from '../format/bytes';
import { Unknown } from './Unknown';

export interface SizeProps {
  /** null: unknown. */
  bytes: number | null | undefined;
  /** It is that much or more. */
  atLeast?: boolean;
  /** Why it is unknown, for the title. */
  reason?: string;
}

/** A size: GiB with one decimal, the exact bytes on hover; what is unknown says so and is never 0. */
export function Size({ bytes, atLeast = false, reason }: SizeProps) {
  if (bytes === null || bytes === undefined) return <Unknown reason={reason} />;
  return (
    <span className="number" title={`${atLeast ? 'at least ' : ''}${exactBytes(bytes)}`}>
      {atLeast && '≥ '}
      {formatBytes(bytes)}
    </span>
  );
}
