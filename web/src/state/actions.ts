import { path, request } from '../api/client';
import type { Deployment } from '../api/types';
import { forgetDeployment, keepDeployment } from './daemon';

// What can be done with a deployment. Each throws ApiError; what it changes is seen by the events too, in every tab.

async function changed(answer: Promise<Deployment | undefined>): Promise<void> {
  const deployment = await answer;
  if (deployment) keepDeployment(deployment);
}

/** Resolves when its memory is back. */
export function stopDeployment(id: number): Promise<void> {
  return changed(request('POST', path`/api/v1/deployments/${id}/stop`));
}

/** An ended one once more. `does_not_fit` brings plans. */
export function startDeployment(id: number): Promise<void> {
  return changed(request('POST', path`/api/v1/deployments/${id}/start`));
}

export async function restartDeployment(id: number): Promise<void> {
  await stopDeployment(id);
  await startDeployment(id);
}

/** Resolves when it sleeps. `busy` unless forced; then its requests are finished first. */
export function sleepDeployment(id: number, level: number, force: boolean): Promise<void> {
  return changed(request('POST', `${path`/api/v1/deployments/${id}/sleep`}?level=${level}${force ? '&force=1' : ''}`));
}

/** `does_not_fit` brings plans. */
export function wakeDeployment(id: number): Promise<void> {
  return changed(request('POST', path`/api/v1/deployments/${id}/wake`));
}

/** Forgets one that has ended. */
export async function removeDeployment(id: number): Promise<void> {
  await request('DELETE', path`/api/v1/deployments/${id}`);
  forgetDeployment(id);
}

export function changeDeployment(id: number, change: { priority?: number; pinned?: boolean }): Promise<void> {
  return changed(request('PATCH', path`/api/v1/deployments/${id}`, { body: change }));
}
