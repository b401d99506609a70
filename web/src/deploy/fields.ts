// The fields of a deploy request, as a form: what is typed → the request, an error's place → the field.

export type Engine = 'llama.cpp' | 'vllm';

/** What was typed, by the field's name; one that is not given is absent or empty. */
export type FormValues = Readonly<Record<string, string>>;

export interface Field {
  /** Of the request. */
  name: string;
  label: string;
  help: string;
  kind: 'whole' | 'text' | 'choice' | 'switch' | 'labels';
  /** Which engine has it; absent: both. */
  engine?: Engine;
  /** Of a choice; of a text, suggestions. */
  options?: readonly string[];
  /** Where the form has it. */
  place: 'main' | 'memory' | 'drafting' | 'deployment';
}

const cacheTypes = ['f32', 'f16', 'bf16', 'q8_0', 'q5_1', 'q5_0', 'q4_1', 'q4_0', 'iq4_nl'] as const;
const llama = 'llama.cpp';

export const fields: readonly Field[] = [
  {
    name: 'context',
    label: 'Context',
    help: 'Tokens. Of llama.cpp over all slots together, of vLLM of one request. Empty: what the model was trained for.',
    kind: 'whole',
    place: 'main',
  },
  { name: 'sequences', label: 'Sequences', help: 'Requests that are served at once.', kind: 'whole', place: 'main' },
  {
    name: 'cache_type_k',
    label: 'KV cache: keys',
    help: 'Smaller types take less memory, at some cost in quality.',
    kind: 'choice',
    engine: llama,
    options: cacheTypes,
    place: 'main',
  },
  {
    name: 'cache_type_v',
    label: 'KV cache: values',
    help: 'A quantized one needs flash attention.',
    kind: 'choice',
    engine: llama,
    options: cacheTypes,
    place: 'main',
  },
  {
    name: 'kv_cache_dtype',
    label: 'KV cache type',
    help: 'Smaller types take less memory, at some cost in quality.',
    kind: 'text',
    engine: 'vllm',
    options: ['auto', 'bfloat16', 'float16', 'fp8', 'fp8_e4m3', 'fp8_e5m2', 'nvfp4'],
    place: 'main',
  },

  {
    name: 'kv_unified',
    label: 'One KV cache for all slots',
    help: 'On: a request may use what the others leave. Off: each slot has its own.',
    kind: 'switch',
    engine: llama,
    place: 'memory',
  },
  {
    name: 'cache_ram_mib',
    label: 'Prompt cache (MiB)',
    help: 'Bound of the cache of earlier prompts in memory; 0 is none.',
    kind: 'whole',
    engine: llama,
    place: 'memory',
  },
  {
    name: 'flash_attn',
    label: 'Flash attention',
    help: 'Smaller compute buffers, and the way to a quantized cache of values.',
    kind: 'choice',
    engine: llama,
    options: ['auto', 'on', 'off'],
    place: 'memory',
  },
  { name: 'batch', label: 'Logical batch', help: 'Tokens.', kind: 'whole', engine: llama, place: 'memory' },
  {
    name: 'ubatch',
    label: 'Physical batch',
    help: 'Tokens that are computed at once: the compute buffers grow with it.',
    kind: 'whole',
    engine: llama,
    place: 'memory',
  },
  {
    name: 'swa_full',
    label: 'Whole context of sliding-window layers',
    help: 'Keeps more than the window of such layers.',
    kind: 'switch',
    engine: llama,
    place: 'memory',
  },
  {
    name: 'mmproj',
    label: 'Projector',
    help: 'Path of a projector for pictures or sound; none is loaded unasked.',
    kind: 'text',
    engine: llama,
    place: 'memory',
  },
  {
    name: 'max_num_batched_tokens',
    label: 'Tokens in one step',
    help: 'At least as many as sequences.',
    kind: 'whole',
    engine: 'vllm',
    place: 'memory',
  },
  {
    name: 'kv_tokens',
    label: 'KV cache (tokens)',
    help: 'Its size; empty: as much as the sequences need at full context.',
    kind: 'whole',
    engine: 'vllm',
    place: 'memory',
  },
  {
    name: 'enforce_eager',
    label: 'No CUDA graphs',
    help: 'Takes less memory and starts sooner, answers slower.',
    kind: 'switch',
    engine: 'vllm',
    place: 'memory',
  },
  {
    name: 'sleep_mode',
    label: 'Can be put to sleep',
    help: 'Its memory can be given back without stopping it.',
    kind: 'switch',
    engine: 'vllm',
    place: 'memory',
  },
  {
    name: 'quantization',
    label: 'Quantization while loading',
    help: 'Of 16-bit weights.',
    kind: 'text',
    engine: 'vllm',
    options: [
      'fp8',
      'fp8_per_tensor',
      'fp8_per_channel',
      'fp8_per_block',
      'int8_per_channel_weight_only',
      'experts_int8',
      'mxfp8',
      'mxfp4',
      'nvfp4_per_token',
    ],
    place: 'memory',
  },
  {
    name: 'tensor_parallel_size',
    label: 'Tensor parallel size',
    help: 'Ranks, one of them on this host; figures are of one rank.',
    kind: 'whole',
    engine: 'vllm',
    place: 'memory',
  },
  {
    name: 'enable_lora',
    label: 'Room for LoRA adapters',
    help: 'Memory for adapters beside the weights.',
    kind: 'switch',
    engine: 'vllm',
    place: 'memory',
  },
  {
    name: 'max_loras',
    label: 'Adapters in one step',
    help: 'Needs room for LoRA adapters.',
    kind: 'whole',
    engine: 'vllm',
    place: 'memory',
  },
  {
    name: 'max_lora_rank',
    label: 'Rank of the largest adapter',
    help: 'Needs room for LoRA adapters.',
    kind: 'whole',
    engine: 'vllm',
    place: 'memory',
  },
  {
    name: 'language_model_only',
    label: 'Text only',
    help: 'Encoders for pictures and sound are not loaded.',
    kind: 'switch',
    engine: 'vllm',
    place: 'memory',
  },
  {
    name: 'limit_mm_per_prompt',
    label: 'Pictures, videos and sounds in a prompt',
    help: 'Of each kind; 0 leaves the encoders out.',
    kind: 'whole',
    engine: 'vllm',
    place: 'memory',
  },
  {
    name: 'mm_processor_cache_gb',
    label: 'Cache of prepared pictures (GiB)',
    help: 'In host memory.',
    kind: 'whole',
    engine: 'vllm',
    place: 'memory',
  },

  {
    name: 'draft_model',
    label: 'Draft model',
    help: 'A smaller model that drafts tokens: a path, or a name of the catalog.',
    kind: 'text',
    place: 'drafting',
  },
  {
    name: 'spec_type',
    label: 'Who drafts',
    help: 'draft-mtp: layers of the model itself.',
    kind: 'choice',
    engine: llama,
    options: ['none', 'draft-simple', 'draft-mtp'],
    place: 'drafting',
  },
  {
    name: 'spec_draft_n_max',
    label: 'Tokens drafted at once',
    help: 'Needs somebody who drafts.',
    kind: 'whole',
    engine: llama,
    place: 'drafting',
  },
  {
    name: 'cache_type_k_draft',
    label: 'KV cache of the draft: keys',
    help: 'Needs somebody who drafts.',
    kind: 'choice',
    engine: llama,
    options: cacheTypes,
    place: 'drafting',
  },
  {
    name: 'cache_type_v_draft',
    label: 'KV cache of the draft: values',
    help: 'Needs somebody who drafts.',
    kind: 'choice',
    engine: llama,
    options: cacheTypes,
    place: 'drafting',
  },
  {
    name: 'spec_method',
    label: 'Speculative decoding',
    help: 'Who drafts tokens.',
    kind: 'choice',
    engine: 'vllm',
    options: ['mtp', 'ngram', 'draft_model', 'eagle', 'eagle3'],
    place: 'drafting',
  },
  {
    name: 'num_speculative_tokens',
    label: 'Tokens drafted in one step',
    help: 'Needs speculative decoding.',
    kind: 'whole',
    engine: 'vllm',
    place: 'drafting',
  },

  {
    name: 'name',
    label: 'Name',
    help: 'Letters, digits, ".", "_" and "-". Empty: made from the model.',
    kind: 'text',
    place: 'deployment',
  },
  {
    name: 'served_name',
    label: 'Model name in its API',
    help: 'Empty: the name of the deployment.',
    kind: 'text',
    place: 'deployment',
  },
  { name: 'port', label: 'Port', help: 'Of its API. Empty: a free one.', kind: 'whole', place: 'deployment' },
  {
    name: 'priority',
    label: 'Priority',
    help: 'When memory is short, those with a lower one give way first. Empty: 0.',
    kind: 'whole',
    place: 'deployment',
  },
  {
    name: 'pinned',
    label: 'Pinned',
    help: 'On: it is never stopped for another without a warning.',
    kind: 'switch',
    place: 'deployment',
  },
  {
    name: 'runtime',
    label: 'Runs as',
    help: 'A process of this host, or a container. Empty: as the settings say.',
    kind: 'choice',
    options: ['process', 'docker'],
    place: 'deployment',
  },
  {
    name: 'image',
    label: 'Image',
    help: 'Of the container, whose entrypoint is the engine. Implies docker.',
    kind: 'text',
    place: 'deployment',
  },
  {
    name: 'labels',
    label: 'Labels',
    help: 'Marks of your own, one NAME=VALUE a line.',
    kind: 'labels',
    place: 'deployment',
  },
];

const byName = new Map(fields.map((field) => [field.name, field]));

/** The engines' own names of what both have. */
const alsoCalled: Record<string, string> = {
  ctx_size: 'context',
  max_model_len: 'context',
  parallel: 'sequences',
  max_num_seqs: 'sequences',
};

/** The field that a name of the request or of a configuration stands for; null: the form has none. */
export function fieldOf(name: string): string | null {
  const own = alsoCalled[name] ?? name;
  return own === 'model' || own === 'engine' || byName.has(own) ? own : null;
}

/** The fields of an engine; of an unknown one, those of both. */
export function fieldsOf(engine: Engine | null): Field[] {
  return fields.filter((field) => field.engine === undefined || field.engine === engine);
}

export type DeployRequest = { model: string } & Record<string, string | number | boolean | Record<string, string>>;

export interface Asked {
  request: DeployRequest;
  /** What cannot be sent at all, by field. */
  problems: Record<string, string>;
}

/** The request that a form asks for. Fields of the other engine are left out: they are there for when it is chosen again. */
export function requestOf(values: FormValues, engine: Engine | null): Asked {
  const request: DeployRequest = { model: (values.model ?? '').trim() };
  const problems: Record<string, string> = {};
  if (values.engine) request.engine = values.engine;
  for (const field of fieldsOf(engine)) {
    const text = (values[field.name] ?? '').trim();
    if (text === '') continue;
    if (field.kind === 'whole') {
      const number = wholeNumber(text);
      if (number === null) problems[field.name] = 'Give a whole number.';
      else request[field.name] = number;
    } else if (field.kind === 'switch') {
      request[field.name] = text === 'on';
    } else if (field.kind === 'labels') {
      const labels = readLabels(text);
      if (labels === null) problems[field.name] = 'Write NAME=VALUE, one a line.';
      else request[field.name] = labels;
    } else {
      request[field.name] = text;
    }
  }
  return { request, problems };
}

/** A whole number, with or without separators: "131072", "131,072", and "128k" for 131072. */
export function wholeNumber(text: string): number | null {
  const match = /^(-?\d+)(k?)$/i.exec(text.replaceAll(/[\s,_]/g, ''));
  if (!match?.[1]) return null;
  const number = Number(match[1]) * (match[2] === '' ? 1 : 1024);
  return Number.isSafeInteger(number) ? number : null;
}

export function readLabels(text: string): Record<string, string> | null {
  const labels: Record<string, string> = {};
  for (const line of text.split('\n').map((one) => one.trim())) {
    if (line === '') continue;
    const equals = line.indexOf('=');
    if (equals <= 0) return null;
    labels[line.slice(0, equals).trim()] = line.slice(equals + 1).trim();
  }
  return labels;
}

type Setting = string | number | boolean | null;

/** A setting as the form has it. */
function typed(value: Setting): string {
  if (value === null) return '';
  return typeof value === 'boolean' ? (value ? 'on' : 'off') : String(value);
}

/**
 * What to put into the form so that the configuration becomes `to`: the settings in which it differs from `from`, which
 * is what the form asks for now.
 */
export function valuesFor<T extends object>(from: T, to: T): Record<string, string> {
  const before = from as Record<string, Setting>;
  const changes: Record<string, string> = {};
  for (const [name, value] of Object.entries(to) as [string, Setting][]) {
    const field = fieldOf(name);
    if (field !== null && value !== before[name]) changes[field] = typed(value);
  }
  // A number of slots that is given has each of them its own cache, unless that is said too.
  const { kv_unified } = to as { kv_unified?: Setting };
  if (changes.sequences !== undefined && kv_unified !== undefined && kv_unified !== null) {
    changes.kv_unified = typed(kv_unified);
  }
  return changes;
}

/** What the engine would take for a field that is left empty. */
export function valueInUse(field: Field, config: object): string {
  const settings = config as Record<string, Setting>;
  const names = [field.name, ...Object.keys(alsoCalled).filter((name) => alsoCalled[name] === field.name)];
  return typed(names.map((name) => settings[name] ?? null).find((value) => value !== null) ?? null);
}
