const kib = 1024;
export const mib = 1024 ** 2;
export const gib = 1024 ** 3;

/**
 * A size for people: GiB with one decimal, as everywhere in dgxmm; below 0.1 GiB in the unit that shows it. The sign stays.
 */
export function formatBytes(bytes: number): string {
  const size = Math.abs(bytes);
  if (size >= gib / 10) return `${(bytes / gib).toFixed(1)} GiB`;
  if (size >= mib) return `${(bytes / mib).toFixed(1)} MiB`;
  if (size >= kib) return `${(bytes / kib).toFixed(1)} KiB`;
  return `${bytes} B`;
}

const digits = new Intl.NumberFormat('en-US');

/** The exact figure: "13,204,889,600 bytes". */
export function exactBytes(bytes: number): string {
  return `${digits.format(bytes)} bytes`;
}

/** A count with separators: "131,072". */
export function formatCount(count: number): string {
  return digits.format(count);
}
