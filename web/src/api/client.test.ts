import { afterEach, expect, test, vi } from 'vitest';
import { onUnauthorized, path, request } from './client';
import { ApiError } from './problem';

function answerWith(response: () => Promise<Response>) {
  vi.stubGlobal('fetch', response);
}

afterEach(() => vi.unstubAllGlobals());

const failure = () =>
  request('GET', '/api/v1/budget').then(
    () => null,
    (thrown: unknown) => thrown as ApiError,
  );

test('a problem document becomes an error with its code, sentence, hint and place', async () => {
  const problem = {
    status: 409,
    title: 'Does not fit',
    detail: 'needs 3 GiB',
    code: 'does_not_fit',
    hint: 'apply a plan',
    where: 'model',
  };
  answerWith(() =>
    Promise.resolve(Response.json(problem, { status: 409, headers: { 'Content-Type': 'application/problem+json' } })),
  );
  const error = await failure();
  expect(error).toBeInstanceOf(ApiError);
  expect(error).toMatchObject({
    code: 'does_not_fit',
    message: 'needs 3 GiB',
    hint: 'apply a plan',
    where: 'model',
    status: 409,
  });
});

test('nobody there is an error that says so', async () => {
  answerWith(() => Promise.reject(new TypeError('Failed to fetch')));
  expect(await failure()).toMatchObject({ code: 'unreachable', status: null });
});

test("a proxy's page is not shown as dgxmm's answer", async () => {
  answerWith(() =>
    Promise.resolve(new Response('<html>Bad gateway', { status: 502, headers: { 'Content-Type': 'text/html' } })),
  );
  expect(await failure()).toMatchObject({ code: 'bad_answer', status: 502 });
});

test('a daemon in trouble says what is wrong, also without a code', async () => {
  answerWith(() => Promise.resolve(Response.json({ status: 'trouble', detail: 'the disk is full' }, { status: 503 })));
  expect(await failure()).toMatchObject({ code: 'bad_answer', status: 503, message: 'the disk is full' });
});

test('401 is told to whoever asks for the token', async () => {
  let told = 0;
  const stop = onUnauthorized(() => (told += 1));
  answerWith(() => Promise.resolve(new Response('', { status: 401 })));
  await failure();
  stop();
  expect(told).toBe(1);
});

test('an answer without a body is undefined', async () => {
  answerWith(() => Promise.resolve(new Response(null, { status: 204 })));
  expect(await request('DELETE', '/api/v1/deployments/1')).toBeUndefined();
});

test('parts of a path are escaped', () => {
  expect(path`/api/v1/plans/${3}/${'kv:q8_0/../x'}/apply`).toBe('/api/v1/plans/3/kv%3Aq8_0%2F..%2Fx/apply');
});
