// Fails when what a browser would load of dist/ is larger than the limit.
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';

const limitBytes = 200_000;
const dist = new URL('../dist/', import.meta.url).pathname;

const files = readdirSync(dist, { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile() && /\.(js|css|html|svg)$/.test(entry.name))
  .map((entry) => join(entry.parentPath ?? entry.path, entry.name))
  .map((path) => ({ path: path.slice(dist.length), bytes: gzipSync(readFileSync(path), { level: 9 }).length }))
  .sort((a, b) => b.bytes - a.bytes);
const total = files.reduce((sum, file) => sum + file.bytes, 0);

for (const { path, bytes } of files) console.log(`${(bytes / 1000).toFixed(1).padStart(7)} kB  ${path}`);
console.log(`${(total / 1000).toFixed(1).padStart(7)} kB  in all, gzipped; the limit is ${limitBytes / 1000} kB`);
if (total > limitBytes) {
  console.error('The page is too large: load less, or drop a dependency.');
  process.exit(1);
}
