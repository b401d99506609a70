import type { Process } from '../../api/types';
import { matches } from '../../format/search';

const whole_container_id = 64;

/** The container or unit that a process is in, as people know it; empty: in neither. */
export function placeOf(process: Pick<Process, 'container' | 'container_name'>): string {
  if (process.container_name !== '') return process.container_name;
  return process.container.length === whole_container_id ? process.container.slice(0, 12) : process.container;
}

/** The program of a command line, without its folder and its arguments; never empty. */
export function programOf(command: string): string {
  // A program that has given itself a title has it in quotes.
  const [program = ''] = command.replace(/^'([^']*)'/, '$1').split(' ', 1);
  if (program.startsWith('[')) return program; // a thread of the kernel
  const name = program.slice(program.lastIndexOf('/') + 1);
  return name === '' ? command || '(no name)' : name;
}

/** What is to be said of a process that is, or may be, left over; empty: nothing. */
export function noteOf(process: Pick<Process, 'orphan' | 'parent_ended' | 'orphan_id'>): string {
  if (process.orphan_id !== '') return 'an engine of dgxmm that no deployment knows';
  if (process.orphan) return 'holds GPU memory for nobody: what started it has ended';
  if (process.parent_ended) return 'holds GPU memory, and what started it has ended; it may be in use all the same';
  return '';
}

/** Those in which every word of the query is found: in the command line, the user, the place, the pid. */
export function searchProcesses(processes: Process[], query: string): Process[] {
  if (query.trim() === '') return processes;
  return processes.filter((one) =>
    matches(query.trim(), [one.command, one.user, placeOf(one), one.container, `${one.pid}`, noteOf(one)]),
  );
}
