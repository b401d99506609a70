import { useEffect, useMemo, useRef, useState } from 'react';
import { request } from '../../api/client';
import { asApiError, type ApiError } from '../../api/problem';
import type { Deployment, Models, Plans } from '../../api/types';
import { href, navigate } from '../../app/router';
import { Button } from '../../components/Button';
import { ErrorNote, Note } from '../../components/Note';
import { Empty, Skeleton } from '../../components/Placeholder';
import { findModel } from '../../deploy/catalog';
import { fieldOf, requestOf, type Engine } from '../../deploy/fields';
import { useFit } from '../../deploy/useFit';
import { useForm } from '../../deploy/useForm';
import { gib } from '../../format/bytes';
import { rememberAsked } from '../../plans/asked';
import { keepDeployment, useDaemon } from '../../state/daemon';
import { showRefusal } from '../../state/refusal';
import { useResource } from '../../state/resource';
import styles from './DeployPage.module.css';
import { EstimatePanel } from './EstimatePanel';
import { ModelPicker } from './ModelPicker';
import { ReachPanel } from './ReachPanel';
import { SettingsForm } from './SettingsForm';

function engineNamed(name: string | undefined): Engine | null {
  return name === 'llama.cpp' || name === 'vllm' ? name : null;
}

const noConfig = {};

/** A model with its settings, what it would take while that is typed, and the button that starts it. */
export function DeployForm() {
  const [values, change] = useForm('deploy');
  const catalog = useResource<Models>('/api/v1/models', { topics: ['catalog'] });
  const free_bytes = useDaemon((daemon) => daemon.budget?.free_for_new_bytes ?? null);
  const deployments = useDaemon((daemon) => daemon.deployments);
  const model = values.model ?? '';
  const models = catalog.data?.models;
  const known = models ? findModel(models, model) : null;

  const [learned, setLearned] = useState<{ model: string; engine: Engine | null }>({ model: '', engine: null });
  const engine =
    engineNamed(values.engine) ?? engineNamed(known?.engine) ?? (learned.model === model ? learned.engine : null);
  const asked = useMemo(() => requestOf(values, engine), [values, engine]);
  const faulty = Object.keys(asked.problems).length > 0;

  // Asked anew when the answer may have changed: who runs, whether it still fits, or much of the free memory.
  const [total_bytes, setTotal] = useState(0);
  const fits_by_budget = free_bytes !== null && total_bytes <= free_bytes;
  const running = deployments?.map((one) => `${one.id} ${one.state}`).join() ?? '';
  const revision = `${running} ${fits_by_budget} ${useSteady(free_bytes)}`;
  const estimated = useFit(model === '' || faulty ? null : asked.request, revision);
  const { fit, error, pending } = estimated;
  useEffect(() => {
    if (!fit) return;
    setTotal(fit.total_bytes);
    setLearned({ model, engine: engineNamed(fit.config.engine) });
  }, [fit, model]);

  const [starting, setStarting] = useState(false);
  const [refused, setRefused] = useState<ApiError | null>(null);
  const body = JSON.stringify(asked.request);
  useEffect(() => setRefused(null), [body]);

  // What is wrong is told at its field, once.
  const errors: Record<string, string> = { ...asked.problems };
  const untold: ApiError[] = [];
  for (const one of [error, refused]) {
    const field = one === null ? null : fieldOf(one.where);
    if (one === null) continue;
    if (field !== null) errors[field] ??= sentence(one, field);
    else if (!untold.some((other) => other.message === one.message)) untold.push(one);
  }

  const names = useMemo(() => (models ?? []).filter((one) => one.problem === '').map((one) => one.path), [models]);

  const start = async () => {
    setStarting(true);
    setRefused(null);
    const name = values.name || (fit?.model.name ?? model);
    const what = `Deploying ${name}`;
    const rest = { name, request: asked.request, form: values };
    try {
      if (fit && fit.verdict !== 'fits') {
        const plans = await request<Plans>('POST', '/api/v1/plans', { body: asked.request });
        if (!plans.fits_now) {
          rememberAsked(plans, { what, ...rest });
          navigate(href('plans', [plans.plan_set]));
          return;
        }
      }
      const deployment = await request<Deployment>('POST', '/api/v1/deployments', { body: asked.request });
      keepDeployment(deployment);
      navigate(href('deploy', [deployment.id]));
    } catch (thrown) {
      const problem = asApiError(thrown);
      if (problem && !showRefusal(problem, what, rest)) setRefused(problem);
    } finally {
      setStarting(false);
    }
  };

  const ready = model !== '' && !faulty && error === null && !pending;
  return (
    <>
      <h1>Deploy</h1>
      <div className={styles.page}>
        <div className="stack">
          <ModelPicker
            catalog={catalog}
            model={model}
            error={errors.model ?? null}
            onChoose={(path) => change({ model: path })}
          />
          {model !== '' && (
            <SettingsForm
              engine={engine}
              values={values}
              errors={errors}
              config={fit?.config ?? noConfig}
              models={names}
              onChange={change}
            />
          )}
        </div>
        <div className="stack">
          <section className="card stack" aria-labelledby="deploy-estimate" aria-busy={pending}>
            <div className={styles.head}>
              <h2 id="deploy-estimate">Will it fit?</h2>
              {pending && fit && <span className="quiet">estimating …</span>}
            </div>
            {untold.map((one) => (
              <ErrorNote key={one.message} error={one} {...(one === error && { retry: estimated.retry })} />
            ))}
            {model === '' && (
              <Empty title="Choose a model">What it would take is shown here, nothing is started.</Empty>
            )}
            {model !== '' && !fit && !error && !faulty && <Skeleton label="Estimating" lines={5} />}
            {fit && (error !== null || faulty) && <Note kind="info">The figures are of what was typed before.</Note>}
            {fit && (
              <EstimatePanel
                fit={fit}
                actions={
                  <div className="row">
                    <Button kind="primary" busy={starting} disabled={!ready} onClick={() => void start()}>
                      {fit.verdict === 'fits' ? 'Start it' : 'Show the plans'}
                    </Button>
                    <span className="quiet">
                      {fit.verdict === 'fits'
                        ? 'Its memory is reserved first, then its engine is started.'
                        : 'Ways to make it fit. Nothing is started or stopped by looking.'}
                    </span>
                  </div>
                }
              />
            )}
          </section>
          {fit && <ReachPanel fit={fit} onChange={change} />}
        </div>
      </div>
    </>
  );
}

/** A figure that moves all the time, changed only when it has moved far. */
function useSteady(bytes: number | null): number | null {
  const kept = useRef(bytes);
  if (bytes === null || kept.current === null || Math.abs(bytes - kept.current) > gib / 4) kept.current = bytes;
  return kept.current;
}

/** The daemon begins with the name of the field, which the label says already. */
function sentence(error: ApiError, field: string): string {
  const text = error.message.replace(new RegExp(`^(${field}|${error.where}):\\s*`), '');
  const whole = text.charAt(0).toUpperCase() + text.slice(1);
  return error.hint === '' ? whole : `${whole}. ${error.hint.charAt(0).toUpperCase()}${error.hint.slice(1)}.`;
}
