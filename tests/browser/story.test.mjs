// The story of tests/e2e/story_test.cpp by clicks alone, and its beginning by keys alone.
import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import { assertNoComplaints, goTo, inTab, openBrowser, openTab, row } from './support/browser.mjs';
import { model, roomFor } from './support/daemon.mjs';

const loading = { timeout: 60_000 };
const quantization = 'Q4_1';

let browser, daemon;
before(async () => {
  browser = await openBrowser();
  // Enough for either of them. What the first one reserves and does not use is credited against what others hold (B4).
  daemon = await roomFor({ ctx_size: 8192, parallel: 1 }, 1.9);
});
after(async () => {
  await browser?.close();
  await daemon?.close();
});
beforeEach(async () => {
  for (const { id, state } of await daemon.get('/deployments')) {
    if (state !== 'stopped' && state !== 'failed') await daemon.send('POST', `/deployments/${id}/stop`);
    await daemon.send('DELETE', `/deployments/${id}`);
  }
});

async function describeDeployment(page, name, { context, sequences }) {
  await page.getByRole('link', { name: 'Deploy', exact: true }).click();
  await page
    .getByRole('group', { name: 'Models of the catalog' })
    .getByRole('button', { name: quantization })
    .first()
    .click();
  await page.getByLabel('Context', { exact: true }).fill(context);
  await page.getByLabel('Sequences', { exact: true }).fill(sequences);
  await page.getByText('Name, port, priority, container, labels').click();
  await page.getByLabel('Name', { exact: true }).fill(name);
}

test('deploy, see that a second one does not fit, carry a plan out, stop, start, read the log, remove', () =>
  inTab(browser, {}, async (page) => {
    await goTo(page, daemon, 'memory');
    await page.getByText('Nothing is deployed').waitFor();

    await describeDeployment(page, 'first', { context: '8192', sequences: '1' });
    const estimate = page.getByRole('region', { name: 'Will it fit?' });
    for (const part of ['Weights', 'KV cache', 'State', 'Activations', 'Runtime', 'Margin', 'Total']) {
      await estimate.getByRole('row', { name: new RegExp(`^${part}`) }).waitFor();
    }
    await page.getByRole('button', { name: 'Start it' }).click();
    await page.getByRole('heading', { level: 1, name: 'first' }).waitFor();
    await page.getByText('first is ready').waitFor(loading);
    const address = await page.getByLabel('Address of its API').inputValue();
    const answer = await fetch(`${address}/chat/completions`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ model: 'first', max_tokens: 4, messages: [{ role: 'user', content: 'Hello' }] }),
    });
    assert.equal(answer.status, 200);
    await page
      .getByRole('log', { name: 'Log of first' })
      .getByText(/server is listening|listening on/)
      .waitFor();

    // A second one: nothing has happened when the plans are shown.
    await describeDeployment(page, 'second', { context: '65536', sequences: '8' });
    await page.getByRole('button', { name: 'Show the plans' }).click();
    await page.getByRole('heading', { level: 1, name: 'Does not fit' }).waitFor();
    assert.deepEqual(
      (await daemon.get('/deployments')).map(({ name, state }) => [name, state]),
      [['first', 'ready']],
    );
    const plan = page.getByRole('article', { name: /^Stop first/ });
    await plan.getByRole('toolbar', { name: /^Memory before the plan/ }).waitFor();
    await plan.getByRole('toolbar', { name: /^Memory after the plan/ }).waitFor();
    await plan.getByRole('button', { name: /^Carry it out/ }).click();
    const question = page.getByRole('alertdialog', { name: 'Carry this plan out?' });
    await question.getByText(/first.*\(ready\).*is stopped/).waitFor();
    await question.getByRole('button', { name: 'Carry it out', exact: true }).click();
    const steps = page.getByRole('region', { name: 'Steps' });
    await steps.getByText('succeeded').first().waitFor(loading);
    await page.getByText('second is ready').waitFor(loading);

    await page.getByRole('link', { name: 'To the memory' }).first().click();
    await row(page, 'Deployments', 'first').getByText('stopped').waitFor();
    await row(page, 'Deployments', 'second').getByText('ready').waitFor();

    await page.getByRole('button', { name: 'Stop second' }).click();
    await page.getByRole('alertdialog', { name: 'Stop second?' }).getByRole('button', { name: 'Stop second' }).click();
    await row(page, 'Deployments', 'second').getByText('stopped').waitFor(loading);
    await page.getByRole('button', { name: 'Start second again' }).click();
    await row(page, 'Deployments', 'second').getByText('ready').waitFor(loading);

    await page.getByRole('button', { name: 'More for second' }).click();
    await page.getByRole('menuitem', { name: 'Logs' }).click();
    const log = page.getByRole('dialog', { name: 'Log of second' });
    await log
      .getByText(/listening/)
      .first()
      .waitFor();
    await page.keyboard.press('Escape');
    await log.waitFor({ state: 'hidden' });

    await page.getByRole('button', { name: 'More for first' }).click();
    await page.getByRole('menuitem', { name: 'Remove …' }).click();
    await page
      .getByRole('alertdialog', { name: 'Remove first?' })
      .getByRole('button', { name: 'Remove first' })
      .click();
    await row(page, 'Deployments', 'first').waitFor({ state: 'detached' });
    assertNoComplaints(page);
  }));

/** Presses Tab until the element has the focus: it can be reached, and the focus goes forward only. */
async function tabTo(page, element) {
  for (let presses = 0; presses < 60; ++presses) {
    await page.keyboard.press('Tab');
    if (await element.evaluate((one) => one === document.activeElement).catch(() => false)) return;
  }
  throw new Error('Tab does not reach it');
}

test('a model is chosen, started and stopped by keys alone', () =>
  inTab(browser, {}, async (page) => {
    await goTo(page, daemon, 'memory');
    await tabTo(page, page.getByRole('link', { name: 'Deploy', exact: true }));
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { level: 1, name: 'Deploy' }).waitFor();
    const choice = page
      .getByRole('group', { name: 'Models of the catalog' })
      .getByRole('button', { name: quantization })
      .first();
    await choice.waitFor();
    await tabTo(page, choice);
    await page.keyboard.press('Enter');
    const context = page.getByLabel('Context', { exact: true });
    await context.waitFor();
    await tabTo(page, context);
    await page.keyboard.type('2048');
    const start = page.getByRole('button', { name: 'Start it' });
    await start.waitFor();
    await start.and(page.locator(':enabled')).waitFor();
    await tabTo(page, start);
    await page.keyboard.press('Enter');
    await page.getByText('is ready').first().waitFor(loading);
    await tabTo(page, page.getByRole('button', { name: 'Stop it …' }));
    await page.keyboard.press('Enter');
    const question = page.getByRole('alertdialog');
    await question.waitFor();
    // The harmless answer has the focus; Escape is "no" as well.
    assert.equal(
      await question.getByRole('button', { name: 'Cancel' }).evaluate((one) => one === document.activeElement),
      true,
    );
    await page.keyboard.press('Escape');
    await question.waitFor({ state: 'hidden' });
    await page.keyboard.press('Enter');
    await question.waitFor();
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    await page.getByText('It was stopped.').waitFor(loading);
    assertNoComplaints(page);
    assert.ok(model().includes(quantization));
  }));
