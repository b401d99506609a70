// A real Chromium, and what every test wants to know of a page: that it complained of nothing.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { chromium } from 'playwright-core';
import { eventually } from './daemon.mjs';

const program = process.env.DGXMM_TEST_CHROMIUM ?? '/usr/bin/chromium';

export const pages = ['memory', 'deploy', 'calibration', 'processes', 'events', 'settings'];

export async function openBrowser() {
  // A container's root may have no sandbox, and no /dev/shm worth the name.
  return chromium.launch({ executablePath: program, args: ['--no-sandbox', '--disable-dev-shm-usage'] });
}

/**
 * A tab in a context of its own, or in `context`. `complaints` collects what the console and the Content-Security-Policy
 * had to say; requests that fail because the daemon is down, or answers that a test provokes, are taken off by `allow`.
 */
export async function openTab(browser, { context, width = 1440, height = 900, theme = 'light' } = {}) {
  const own =
    context ??
    (await browser.newContext({
      viewport: { width, height },
      colorScheme: theme,
      reducedMotion: 'reduce',
      locale: 'en-GB',
    }));
  const page = await own.newPage();
  page.complaints = [];
  page.on('pageerror', (error) => page.complaints.push(`exception: ${error.message}`));
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) page.complaints.push(`console: ${message.text()}`);
  });
  page.on('dialog', async (dialog) => {
    page.complaints.push(`dialog: ${dialog.message()}`);
    await dialog.dismiss();
  });
  return page;
}

/** Runs `body` with a new tab; of a failure there is a picture in build/test-results, and what the page complained of. */
export async function inTab(browser, options, body) {
  const page = await openTab(browser, options);
  try {
    await body(page);
  } catch (error) {
    const picture = join('build', 'test-results', `browser-${Date.now()}.png`);
    await page.screenshot({ path: picture, fullPage: true }).catch(() => undefined);
    error.message += `\n${picture} shows the page; it complained of: ${JSON.stringify(page.complaints)}`;
    throw error;
  } finally {
    await page.context().close();
  }
}

export function assertNoComplaints(page, allow = []) {
  const left = page.complaints.filter((text) => !allow.some((expected) => expected.test(text)));
  assert.deepEqual(left, [], 'the page complained');
}

/** Opens a page of the daemon and waits until it is connected. */
export async function goTo(page, daemon, name = 'memory') {
  await page.goto(`${daemon.url}/#/${name}`);
  await live(page);
  await settled(page);
}

/** Until the event stream is there. */
export async function live(page) {
  await page.getByRole('banner').getByText('live', { exact: true }).waitFor({ timeout: 20_000 });
}

/** Until nothing is being read any more. */
export async function settled(page) {
  await eventually(
    async () => (await page.getByRole('status', { name: /^(Reading|Loading)/ }).count()) === 0,
    'the page has read what it shows',
  );
}

/** The row of a table that has that text as a cell's first line. */
export function row(page, table, text) {
  return page.getByRole('table', { name: table }).getByRole('row').filter({ hasText: text });
}
