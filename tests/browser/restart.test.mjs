// Two tabs, and a daemon that goes away under them.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { assertNoComplaints, goTo, live, openBrowser, openTab, row } from './support/browser.mjs';
import { Daemon } from './support/daemon.mjs';

let browser, daemon;
before(async () => {
  [browser, daemon] = await Promise.all([openBrowser(), Daemon.start()]);
});
after(async () => {
  await browser?.close();
  await daemon?.close();
});

test('two tabs show the same, and a lost daemon is shown and comes back without a reload', async () => {
  const [one, other] = await Promise.all([openTab(browser), openTab(browser)]);
  await Promise.all([goTo(one, daemon), goTo(other, daemon)]);
  await one.getByText('Nothing is deployed').waitFor();

  await daemon.deploy({ name: 'shared' });
  for (const tab of [one, other])
    await row(tab, 'Deployments', 'shared').getByText('ready').waitFor({ timeout: 60_000 });

  // What one tab changes, the other one shows.
  await row(one, 'Deployments', 'shared').getByRole('button', { name: 'More for shared' }).click();
  await one.getByRole('menuitem', { name: 'Pin' }).click();
  await row(other, 'Deployments', 'shared').getByText('pinned').waitFor();

  await daemon.kill();
  for (const tab of [one, other])
    await tab
      .getByRole('banner')
      .getByText(/connection lost/)
      .waitFor();
  await one.evaluate(() => (globalThis.notReloaded = true));
  await daemon.restart();
  for (const tab of [one, other]) await live(tab);
  // Adopted by the new daemon, and shown as it is there.
  const { id } = await daemon.becomes('shared', 'ready');
  await daemon.send('PATCH', `/deployments/${id}`, { priority: 7 });
  for (const tab of [one, other]) {
    await row(tab, 'Deployments', 'shared')
      .getByRole('cell', { name: /^7\s*pinned$/ })
      .waitFor();
  }
  assert.equal(await one.evaluate(() => globalThis.notReloaded), true);
  for (const tab of [one, other]) assertNoComplaints(tab, [/ERR_(CONNECTION|EMPTY|INCOMPLETE)/]);
});
