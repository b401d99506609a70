import type { Problem } from './types';

/** A request that was not answered with what was asked for: what the daemon said, or that it could not be reached. */
export class ApiError extends Error {
  /** Stable, for programs: "does_not_fit", "unreachable", … */
  readonly code: string;
  /** Of the HTTP answer; null when there was none. */
  readonly status: number | null;
  /** What to do; empty when the daemon gives none. */
  readonly hint: string;
  /** The field, file or header that it is about; may be empty. */
  readonly where: string;
  /** The whole document, with `plans` and `holders` of a refusal; null when there was none. */
  readonly problem: Problem | null;

  constructor(
    code: string,
    detail: string,
    rest: { status?: number | null; hint?: string; where?: string; problem?: Problem } = {},
  ) {
    super(detail);
    this.name = 'ApiError';
    this.code = code;
    this.status = rest.status ?? null;
    this.hint = rest.hint ?? '';
    this.where = rest.where ?? '';
    this.problem = rest.problem ?? null;
  }
}

/** The error that an answer which is not 2xx stands for. */
export function errorOf(status: number, contentType: string, body: string): ApiError {
  if (contentType.includes('json')) {
    try {
      const problem = JSON.parse(body) as Partial<Problem>;
      if (typeof problem.code === 'string' || typeof problem.detail === 'string') {
        const code = problem.code ?? 'bad_answer'; // /healthz has none
        return new ApiError(code, problem.detail ?? problem.title ?? code, {
          status,
          hint: problem.hint ?? '',
          where: problem.where ?? '',
          problem: problem as Problem,
        });
      }
    } catch {
      // not JSON after all: told below
    }
  }
  return new ApiError('bad_answer', `The answer was ${status}, without saying why.`, {
    status,
    hint: 'Something between this page and dgxmm, such as a proxy, may have answered.',
  });
}

/** Any thrown thing as an ApiError; null for an aborted request, which is nobody's error. */
export function asApiError(thrown: unknown): ApiError | null {
  if (thrown instanceof ApiError) return thrown;
  if (thrown instanceof DOMException && thrown.name === 'AbortError') return null;
  if (thrown instanceof SyntaxError) return new ApiError('bad_answer', 'The answer could not be read.');
  return new ApiError('unreachable', 'dgxmm does not answer.', {
    hint: 'Is the daemon running? `systemctl status dgxmm` tells. This page connects again by itself.',
  });
}
