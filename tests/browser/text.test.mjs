// What others chose as a name is text, whatever it looks like.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { assertNoComplaints, goTo, openBrowser, openTab, pages, row, settled } from './support/browser.mjs';
import { Daemon, model } from './support/daemon.mjs';

const hostile = `<img src=x onerror=alert(1)>"'><script>alert(2)<`;
const folder = mkdtempSync(join(tmpdir(), 'dgxmm-hostile-'));
const file = join(folder, `${hostile}\u202egnp.Q4_1.gguf`);

let browser, daemon, stranger;
before(async () => {
  copyFileSync(model(), file);
  // Large enough to be among the processes that are shown.
  stranger = spawn(process.execPath, [
    '-e',
    'const b = Buffer.alloc(3e8, 1); setInterval(() => b, 1e6)',
    hostile,
    'x'.repeat(10_000),
  ]);
  [browser, daemon] = await Promise.all([openBrowser(), Daemon.start({ flags: ['--model-folders', folder] })]);
});
after(async () => {
  stranger?.kill('SIGKILL');
  await browser?.close();
  await daemon?.close();
  rmSync(folder, { recursive: true });
});

test('a hostile model, label and command line are shown as text on every page', async () => {
  await daemon.deploy({ model: file, name: 'victim', labels: { [hostile]: hostile } });
  await daemon.becomes('victim', 'ready');
  const page = await openTab(browser);
  for (const name of pages) {
    await goTo(page, daemon, name);
    assert.equal(await page.locator('main img, main script').count(), 0, name);
  }
  await goTo(page, daemon, 'memory');
  await row(page, 'Deployments', '<img src=x onerror=alert(1)>').waitFor();
  await row(page, 'Deployments', 'victim').getByRole('button', { name: 'Details of victim' }).click();
  await page.getByText(`${hostile}=${hostile}`).or(page.getByText(hostile)).first().waitFor();
  await goTo(page, daemon, 'processes');
  await page.getByText('<img src=x onerror=alert(1)>').first().waitFor();
  await settled(page);
  assert.equal(await page.locator('main img, main script').count(), 0);
  assertNoComplaints(page);
});
