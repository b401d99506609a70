// A daemon that wants a token.
import { after, before, test } from 'node:test';
import { assertNoComplaints, live, openBrowser, openTab } from './support/browser.mjs';
import { Daemon } from './support/daemon.mjs';

let browser, daemon;
before(async () => {
  [browser, daemon] = await Promise.all([openBrowser(), Daemon.start({ flags: ['--token', 'the right one'] })]);
});
after(async () => {
  await browser?.close();
  await daemon?.close();
});

test('the page asks for the token, says that one is wrong, and is live with the right one', async () => {
  const page = await openTab(browser);
  await page.goto(daemon.url);
  const dialog = page.getByRole('dialog', { name: 'This dgxmm wants a token' });
  const field = dialog.getByLabel('Token', { exact: true });
  await field.fill('a wrong one');
  await dialog.getByRole('button', { name: 'Connect' }).click();
  await dialog
    .getByRole('alert')
    .getByText(/not the right one/)
    .waitFor();
  await field.fill('the right one');
  await field.press('Enter');
  await live(page);
  await dialog.waitFor({ state: 'hidden' });
  await page.getByText('Nothing is deployed').waitFor();

  // Kept for this tab: a reload does not ask again, another tab does.
  await page.reload();
  await live(page);
  const other = await openTab(browser, { context: page.context() });
  await other.goto(daemon.url);
  await other.getByRole('dialog', { name: 'This dgxmm wants a token' }).waitFor();
  assertNoComplaints(page, [/401/]);
});
