import { asApiError, errorOf } from './problem';
import { token } from './token';

export type Method = 'GET' | 'POST' | 'PATCH' | 'DELETE';

export interface RequestOptions {
  /** Sent as JSON. */
  body?: unknown;
  signal?: AbortSignal | undefined;
}

const unauthorized = new Set<() => void>();

/** Called whenever the daemon wants a token, or another one. */
export function onUnauthorized(listener: () => void): () => void {
  unauthorized.add(listener);
  return () => unauthorized.delete(listener);
}

/** The headers of every request: the token, where one is known. */
export function authorization(): Record<string, string> {
  const value = token.get();
  return value === null ? {} : { Authorization: `Bearer ${value}` };
}

/**
 * The answer as it comes, for a stream. Throws ApiError when it is not 2xx or nobody answers, and the AbortError of
 * `signal`.
 */
export async function open(
  method: Method,
  path: string,
  options: RequestOptions & { headers?: Record<string, string> } = {},
): Promise<Response> {
  const headers: Record<string, string> = { ...authorization(), ...options.headers };
  const init: RequestInit = { method, headers, cache: 'no-store' };
  if (options.signal) init.signal = options.signal;
  if (options.body !== undefined) {
    headers['Content-Type'] = 'application/json';
    init.body = JSON.stringify(options.body);
  }
  let response: Response;
  try {
    response = await fetch(path, init);
  } catch (thrown) {
    throw asApiError(thrown) ?? thrown;
  }
  if (response.ok) return response;
  if (response.status === 401) unauthorized.forEach((listener) => listener());
  throw errorOf(response.status, response.headers.get('Content-Type') ?? '', await response.text().catch(() => ''));
}

/** The document that a request is answered with; undefined for an answer without a body. Throws as `open` does. */
export async function request<T>(method: Method, path: string, options: RequestOptions = {}): Promise<T> {
  const response = await open(method, path, options);
  try {
    const text = await response.text();
    return (text === '' ? undefined : JSON.parse(text)) as T;
  } catch (thrown) {
    throw asApiError(thrown) ?? thrown;
  }
}

/** A path of the API with its parts escaped: path`/api/v1/deployments/${id}/stop`. */
export function path(parts: TemplateStringsArray, ...values: (string | number)[]): string {
  return String.raw({ raw: parts }, ...values.map((value) => encodeURIComponent(value)));
}
