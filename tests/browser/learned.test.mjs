// What was learned, what happened, who holds the memory, and how it is set.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { assertNoComplaints, goTo, openBrowser, openTab, row } from './support/browser.mjs';
import { Daemon, eventually } from './support/daemon.mjs';

let browser, daemon, id;
before(async () => {
  [browser, daemon] = await Promise.all([openBrowser(), Daemon.start()]);
  await daemon.deploy({ name: 'pupil' });
  ({ id } = await daemon.becomes('pupil', 'ready'));
  await eventually(async () => (await daemon.get('/calibration')).records.length === 1, 'it is measured');
});
after(async () => {
  await browser?.close();
  await daemon?.close();
});

test('a record is forgotten by keys alone, after a question, and the event tells', async () => {
  const page = await openTab(browser);
  await goTo(page, daemon, 'calibration');
  const forget = row(page, 'Records', 'SmolLM2').getByRole('button', { name: /^Forget … SmolLM2/ });
  await forget.focus();
  await page.keyboard.press('Enter');
  const question = page.getByRole('alertdialog', { name: 'Forget this measurement?' });
  await question.waitFor();
  // The first focus is where nothing is lost.
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Cancel');
  await page.keyboard.press('Escape');
  await question.waitFor({ state: 'detached' });
  assert.equal((await daemon.get('/calibration')).records.length, 1);

  await page.keyboard.press('Enter'); // the focus is back on the button
  await question.waitFor();
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await page.getByRole('table', { name: 'Records' }).waitFor({ state: 'detached' });
  await page.getByRole('table', { name: 'Durations' }).waitFor();
  assert.deepEqual((await daemon.get('/calibration')).records, []);

  await goTo(page, daemon, 'events');
  await page.getByText(/forgot 1 measurement/).waitFor();
  assertNoComplaints(page);
});

test('events come live, older ones on demand, and none is missing', async () => {
  for (let priority = 1; priority <= 120; ++priority) await daemon.send('PATCH', `/deployments/${id}`, { priority });
  const page = await openTab(browser);
  await goTo(page, daemon, 'events');
  const numbers = () =>
    page.locator('[title^="event "]').evaluateAll((all) => all.map((one) => Number(one.title.slice('event '.length))));
  await page.getByText('pupil: priority 120').waitFor();
  await page.getByRole('button', { name: 'Older events' }).click();
  await page.getByText('That is all of it.').waitFor();
  await daemon.send('PATCH', `/deployments/${id}`, { priority: 500 });
  await page.getByText('pupil: priority 500').waitFor();
  const seen = await numbers();
  assert.deepEqual(
    seen,
    seen.map((_, index) => seen.length - index),
  );

  await page.getByLabel('Kind').selectOption('Calibration');
  await page.getByText('pupil: priority 500').waitFor({ state: 'detached' });
  assert.ok((await numbers()).length >= 1);
  assertNoComplaints(page);
});

test('processes are found by their words, settings by their names', async () => {
  const page = await openTab(browser);
  await goTo(page, daemon, 'processes');
  // The browser that runs this test.
  await page.getByLabel('Search').fill('type=renderer');
  await row(page, 'Processes', '--type=renderer').first().waitFor();
  await goTo(page, daemon, 'settings');
  await page.getByLabel('Search').fill('calibration_delay');
  const setting = row(page, 'Settings', 'calibration_delay_s');
  await setting.getByText('0.2').waitFor();
  await setting.getByText('--calibration-delay-s').waitFor();
  assertNoComplaints(page);
});
