import type { HttpProxy } from 'vite';
import { defineConfig } from 'vitest/config';

const daemon = process.env.DGXMM_URL ?? 'http://127.0.0.1:8484';
// What the daemon sends with the page, so that `npm run preview` shows what it forbids.
const headers = {
  'Content-Security-Policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; " +
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
};
const target = {
  target: daemon,
  changeOrigin: true,
  headers: { origin: daemon },
  // A daemon that dies ends its streams here too.
  configure: (server: HttpProxy.Server) => {
    server.on('proxyRes', (answer, _request, response) => answer.on('close', () => response.destroy()));
  },
};
const proxy = { '/api': target, '/healthz': target };

// No React plugin: esbuild compiles TSX by itself, and a change reloads the page.
export default defineConfig({
  build: {
    target: 'es2022',
    assetsInlineLimit: 0, // the page's Content-Security-Policy knows files only
    modulePreload: { polyfill: false },
    rollupOptions: {
      // "use client" in the components' files means nothing here.
      onwarn: (warning, warn) => {
        if (warning.code !== 'MODULE_LEVEL_DIRECTIVE') warn(warning);
      },
    },
  },
  esbuild: { legalComments: 'none' },
  server: { host: '127.0.0.1', proxy },
  preview: { host: '127.0.0.1', proxy, headers },
  test: { environment: 'node', include: ['src/**/*.test.{ts,tsx}'], css: false },
});
