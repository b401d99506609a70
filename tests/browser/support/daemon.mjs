// A real daemon with the real engine, in a folder of its own; as tests/e2e/support/daemon.cpp.
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const gib = 1024 ** 3;
const heldByOthers_bytes = gib; // on a host with a given room
const mark = 'E2E_DAEMON'; // passed on to the engines

function fromEnvironment(name) {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set: run ./dev test --filter Browser, which sets it`);
  return value;
}

export const model = () => fromEnvironment('DGXMM_TEST_MODEL');
export const models = () => fromEnvironment('DGXMM_TEST_MODELS_DIR');

export function memTotal_bytes() {
  return Number(/^MemTotal:\s+(\d+) kB$/m.exec(readFileSync('/proc/meminfo', 'utf8'))[1]) * 1024;
}

/** Waits until `condition` gives something true, and returns it. */
export async function eventually(condition, what, limit_ms = 20_000) {
  const giveUpAt = Date.now() + limit_ms;
  for (;;) {
    const value = await condition();
    if (value) return value;
    if (Date.now() > giveUpAt) throw new Error(`${what}: not within ${limit_ms / 1000} s`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** A daemon with room for `times` what a deployment of `request` takes. */
export async function roomFor(request = {}, times = 1.5) {
  const asking = await Daemon.start();
  let needed_bytes;
  try {
    const { document } = await asking.send('POST', '/fit', { model: model(), ...request });
    needed_bytes = document.total_bytes;
  } finally {
    await asking.close();
  }
  const daemon = await Daemon.start({ room_bytes: needed_bytes * times, flags: ['--min-headroom-gib', '0'] });
  return daemon;
}

export class Daemon {
  #folder = mkdtempSync(join(tmpdir(), 'dgxmm-browser-'));
  #flags;
  #variables = {};
  #process = null;
  #log = '';
  port = 0;

  /** `room_bytes`: so much is free for new models, whatever else runs here or begins to. */
  static async start({ room_bytes = null, budget_interval_s = 0.2, flags = [] } = {}) {
    const daemon = new Daemon();
    const margin_bytes = room_bytes === null ? 0 : memTotal_bytes() - heldByOthers_bytes - room_bytes;
    if (room_bytes !== null) daemon.#variables = { DGXMM_TEST_OTHERS_HOLD: String(heldByOthers_bytes) };
    daemon.#flags = [
      ['--state-dir', daemon.#folder],
      ['--llama-server', fromEnvironment('DGXMM_LLAMA_SERVER')],
      ['--model-folders', models()],
      ['--safety-margin-gib', (margin_bytes / gib).toFixed(6)],
      ['--os-reserve-gib', '0'],
      ['--budget-interval-s', String(budget_interval_s)],
      ['--calibration-delay-s', '0.2'],
      flags,
    ].flat();
    await daemon.restart();
    return daemon;
  }

  get url() {
    return `http://127.0.0.1:${this.port}`;
  }

  get log() {
    return this.#log;
  }

  /** Starts it on its folder, at the port that it had. */
  async restart() {
    this.#log = '';
    this.#process = spawn(fromEnvironment('DGXMM'), ['serve', '--listen', `127.0.0.1:${this.port}`, ...this.#flags], {
      env: { ...process.env, ...this.#variables, HOME: this.#folder, HF_HOME: this.#folder, [mark]: this.#folder },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    this.#process.stderr.on('data', (text) => (this.#log += text));
    const listening = /listening on http:\/\/127\.0\.0\.1:(\d+)/;
    await eventually(() => listening.test(this.#log) || this.#process.exitCode !== null, 'the daemon listens');
    const found = listening.exec(this.#log);
    if (!found) throw new Error(`the daemon did not come up: ${this.#log}`);
    this.port = Number(found[1]);
  }

  /** Ends it without a chance to tidy up. Its engines go on. */
  async kill() {
    const ended = this.#process;
    this.#process = null;
    if (ended.exitCode !== null || ended.signalCode !== null) return;
    const gone = new Promise((resolve) => ended.once('exit', resolve));
    ended.kill('SIGKILL');
    await gone;
  }

  /** Ends it and every engine that it started. */
  async close() {
    if (this.#process) await this.kill();
    for (const pid of this.#marked()) {
      try {
        process.kill(pid, 'SIGKILL');
      } catch {
        // it has ended meanwhile
      }
    }
    await eventually(() => this.#marked().length === 0, 'the engines end');
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #marked() {
    return readdirSync('/proc')
      .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
      .filter((pid) => {
        try {
          return readFileSync(`/proc/${pid}/environ`, 'latin1').split('\0').includes(`${mark}=${this.#folder}`);
        } catch {
          return false; // not ours, or gone
        }
      })
      .map(Number);
  }

  async get(path, headers = {}) {
    const answer = await fetch(`${this.url}/api/v1${path}`, { headers });
    if (!answer.ok) throw new Error(`GET ${path}: ${answer.status} ${await answer.text()}`);
    return answer.json();
  }

  /** Answers with the status and the document: a refusal is an answer. */
  async send(method, path, body = {}) {
    const answer = await fetch(`${this.url}/api/v1${path}`, {
      method,
      headers: { 'Content-Type': 'application/json' },
      body: method === 'DELETE' ? undefined : JSON.stringify(body),
    });
    const text = await answer.text();
    return { status: answer.status, document: text === '' ? null : JSON.parse(text) };
  }

  async deploy(request) {
    const { status, document } = await this.send('POST', '/deployments', {
      model: model(),
      ctx_size: 2048,
      parallel: 1,
      cache_ram_mib: 0,
      ...request,
    });
    if (status !== 201) throw new Error(`deploy: ${status} ${JSON.stringify(document)}`);
    return document;
  }

  async becomes(name, state) {
    return eventually(
      async () => (await this.get('/deployments')).find((one) => one.name === name && one.state === state),
      `${name} becomes ${state}`,
      60_000,
    );
  }
}
