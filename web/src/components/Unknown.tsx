/** What is not known. */
export function Unknown({ reason, word = 'unknown' }: { reason?: string | undefined; word?: string }) {
  return (
    <span className="quiet" title={reason}>
      {word}
    </span>
  );
}
