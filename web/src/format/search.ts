/** Whether every word of `query` is somewhere in `texts`, whatever their case. */
export function matches(query: string, texts: readonly string[]): boolean {
  const all = texts.join('\n').toLowerCase();
  return query
    .toLowerCase()
    .split(/\s+/)
    .every((word) => all.includes(word));
}
