import { describe, expect, it } from 'vitest';
import type { Process } from '../../api/types';
import { noteOf, placeOf, programOf, searchProcesses } from './rows';

function process(change: Partial<Process> = {}): Process {
  return {
    pid: 4711,
    user: 'root',
    command: '/usr/bin/python3 -m vllm',
    container: '',
    held_bytes: 1,
    rss_bytes: 1,
    gpu_bytes: null,
    orphan: false,
    parent_ended: false,
    container_name: '',
    orphan_id: '',
    ...change,
  };
}

describe('a process in words', () => {
  it('is where people know it to be', () => {
    expect(placeOf(process({ container_name: 'web', container: 'c'.repeat(64) }))).toBe('web');
    expect(placeOf(process({ container: 'c'.repeat(64) }))).toBe('c'.repeat(12));
    expect(placeOf(process({ container: 'ssh.service' }))).toBe('ssh.service');
  });

  it('is called as its program', () => {
    expect(programOf('/usr/bin/python3 -m vllm')).toBe('python3');
    expect(programOf('[kworker/0:1]')).toBe('[kworker/0:1]');
    expect(programOf("'npm run dev'")).toBe('npm');
    expect(programOf("'/opt/chromium --type=renderer' x")).toBe('chromium');
    expect(programOf('')).toBe('(no name)');
    expect(programOf('/')).toBe('/');
  });

  it('says what is left over, and how certain that is', () => {
    expect(noteOf(process())).toBe('');
    expect(noteOf(process({ orphan_id: '1-2', orphan: true }))).toMatch(/no deployment knows/);
    expect(noteOf(process({ orphan: true }))).toMatch(/for nobody/);
    expect(noteOf(process({ parent_ended: true }))).toMatch(/may be in use/);
  });
});

describe('searchProcesses', () => {
  const all = [process(), process({ pid: 12, user: 'ann', command: 'node server', container: 'app.service' })];
  it('looks into everything that is shown', () => {
    const found = (query: string) => searchProcesses(all, query).map((one) => one.pid);
    expect(found('VLLM')).toEqual([4711]);
    expect(found('app ann')).toEqual([12]);
    expect(found('471')).toEqual([4711]);
    expect(found('nothing')).toEqual([]);
  });
  it('stays the same list without a query', () => {
    expect(searchProcesses(all, ' ')).toBe(all);
  });
});
