// The page before its script has come: on a slow connection, or while a busy host reads it.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { inTab, live, openBrowser } from './support/browser.mjs';
import { Daemon } from './support/daemon.mjs';

let browser, daemon;
before(async () => {
  [browser, daemon] = await Promise.all([openBrowser(), Daemon.start()]);
});
after(async () => {
  await browser?.close();
  await daemon?.close();
});

test('something is painted before the script has come, and the page takes its place', async () => {
  await inTab(browser, {}, async (page) => {
    let letGo;
    const held = new Promise((resolve) => (letGo = resolve));
    await page.route('**/*.js', async (route) => {
      await held;
      await route.continue();
    });
    await page.goto(`${daemon.url}/`, { waitUntil: 'commit' });
    await page.getByRole('status').getByText('Loading').waitFor();
    const painted = () => page.evaluate(() => performance.getEntriesByName('first-contentful-paint').length);
    while ((await painted()) === 0) await page.evaluate(() => new Promise(requestAnimationFrame));
    letGo();
    await live(page);
    assert.equal(await page.locator('.shell-main').count(), 0);
  });
});
