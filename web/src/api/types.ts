// The documents of the API, by hand from src/app/dto/dto.h until docs/openapi.json is there to generate them from.
// Sizes are whole bytes; null is unknown.

export interface Warning {
  code: string;
  message: string;
  hint: string;
  severity: string;
}

export interface Measured {
  total_bytes: number;
  anon_bytes: number | null;
  kernel_bytes: number | null;
  shmem_bytes: number | null;
  gpu_bytes: number | null;
  gpu_at_least_bytes: number | null;
  approximate: boolean;
  complete: boolean;
}

export interface BudgetDeployment {
  id: number;
  name: string;
  state: string;
  reserved_bytes: number;
  measured: Measured | null;
}

export interface Budget {
  revision: number;
  time: string | null;
  mem_total_bytes: number;
  mem_available_bytes: number;
  safety_margin_bytes: number;
  os_reserve_bytes: number;
  usable_bytes: number;
  committed_bytes: number;
  used_bytes: number;
  measured_by_managed_bytes: number;
  ready_gap_bytes: number;
  external_bytes: number;
  free_for_new_bytes: number;
  source: string;
  host_class: string;
  host_class_evidence: string;
  gpu_bytes: number | null;
  gpu_at_least_bytes: number | null;
  gpu_estimate_bytes: number | null;
  gpu_age_s: number | null;
  deployments: BudgetDeployment[];
  warnings: Warning[];
}

export interface Part {
  name: string;
  bytes: number;
  source: string;
  detail: string;
}

export interface Estimate {
  total_bytes: number;
  formula_bytes: number;
  confidence: string;
  total_source: string;
  parts: Part[];
  missing_fields: string[];
  contradictions: string[];
  null_block_bytes: number | null;
}

export interface Config {
  engine: string;
  ctx_size: number | null;
  parallel: number | null;
  batch: number | null;
  ubatch: number | null;
  cache_ram_mib: number | null;
  kv_unified: boolean | null;
  swa_full: boolean | null;
  cache_type_k: string | null;
  cache_type_v: string | null;
  flash_attn: string | null;
  max_model_len: number | null;
  max_num_seqs: number | null;
  max_num_batched_tokens: number | null;
  kv_tokens: number | null;
  kv_cache_dtype: string | null;
  enforce_eager: boolean | null;
  draft_model: string | null;
  mmproj: string | null;
  spec_type: string | null;
  spec_draft_n_max: number | null;
  cache_type_k_draft: string | null;
  cache_type_v_draft: string | null;
  tensor_parallel_size: number | null;
  num_speculative_tokens: number | null;
  max_loras: number | null;
  max_lora_rank: number | null;
  limit_mm_per_prompt: number | null;
  mm_processor_cache_gb: number | null;
  quantization: string | null;
  spec_method: string | null;
  enable_lora: boolean | null;
  language_model_only: boolean | null;
  sleep_mode: boolean | null;
}

export interface Failure {
  code: string;
  message: string;
  hint: string;
  last_lines: string[];
}

export interface Deployment {
  id: number;
  name: string;
  state: string;
  state_since: string;
  queue_place: number | null;
  phase: string;
  model: string;
  model_name: string;
  served_name: string;
  url: string;
  config: Config;
  reserved_bytes: number;
  measured: Measured | null;
  estimate: Estimate;
  footprint_bytes: number | null;
  sleep_level: number | null;
  asleep_bytes: number | null;
  sleep_freed_bytes: number | null;
  busy: boolean | null;
  idle_since: string | null;
  priority: number;
  pinned: boolean;
  labels: Record<string, string>;
  pid: number | null;
  runtime: string | null;
  image: string | null;
  image_id: string | null;
  container: string | null;
  outdated: string | null;
  created_at: string;
  ready_at: string | null;
  failure: Failure | null;
}

export interface PlannedSleep {
  id: number;
  level: number;
}

export interface Plan {
  id: string;
  kind: string;
  title: string;
  fits: boolean;
  recommended: boolean;
  unsafe: string[];
  needed_bytes: number;
  free_before_bytes: number;
  free_after_bytes: number;
  shortfall_bytes: number;
  left_bytes: number;
  confidence: string;
  config: Config;
  stops: number[];
  frees_bytes: number | null;
  model: string | null;
  sleeps: PlannedSleep[];
  takes_s: number | null;
  takes_measured: boolean;
  costs: string[];
  why: string | null;
}

export interface Plans {
  plan_set: string;
  fits_now: boolean;
  needed_bytes: number;
  free_for_new_bytes: number;
  shortfall_bytes: number;
  summary: string;
  plans: Plan[];
  missing_without_all_bytes: number | null;
}

export interface ModelInfo {
  name: string;
  path: string;
  format: string;
  architecture: string;
  quantization: string;
  file_bytes: number;
  training_context: number;
}

export interface Limit {
  value: number;
  needed_bytes: number;
  config: Config;
}

export interface SettingOption {
  name: string;
  as_asked: boolean;
  needed_bytes: number;
  fits: boolean;
  longest_context: number | null;
  config: Config;
}

export interface QuantizationOption {
  name: string;
  path: string;
  quantization: string;
  file_bytes: number;
  needed_bytes: number;
  fits: boolean;
  longest_context: number | null;
}

export interface Reach {
  longest_context: Limit | null;
  whole_context: boolean;
  most_sequences: Limit | null;
  settings: SettingOption[];
  quantizations: QuantizationOption[];
}

export interface Fit {
  verdict: string;
  total_bytes: number;
  formula_bytes: number;
  confidence: string;
  total_source: string;
  parts: Part[];
  missing_fields: string[];
  contradictions: string[];
  free_for_new_bytes: number;
  left_bytes: number;
  shortfall_bytes: number;
  after: Plan | null;
  reach: Reach;
  model: ModelInfo;
  config: Config;
  host: string;
  budget: Budget | null;
  notes: string[];
}

export interface CatalogModel {
  name: string;
  path: string;
  format: string;
  architecture: string;
  quantization: string;
  base_model: string;
  file_bytes: number | null;
  training_context: number | null;
  problem: string;
  group: string;
  engine: string;
  repository: string;
  revision: string;
}

export interface Models {
  folders: string[];
  models: CatalogModel[];
  warnings: string[];
  scanned_at: string;
  age_s: number;
}

export interface OperationStep {
  what: string;
  state: string;
  message: string;
  stops: number | null;
  sleeps: number | null;
  level: number | null;
  wakes: number | null;
}

export interface Operation {
  id: string;
  plan_set: string;
  plan: string;
  title: string;
  unsafe: string[];
  model: string;
  state: string;
  steps: OperationStep[];
  deployment: number | null;
  failure: Failure | null;
  cancelled_at: string | null;
  queue_place: number | null;
  new_plan_set: string | null;
}

export interface QueueEntry {
  id: string;
  queue: string;
  what: string;
  priority: number;
  place: number;
  since: string;
  deployment: number | null;
  operation: string | null;
}

export interface Queue {
  deciding: string | null;
  starting: string | null;
  waiting: QueueEntry[];
}

export interface Event {
  id: number;
  time: string;
  type: string;
  deployment: number | null;
  message: string;
  data: Record<string, string>;
}

export interface Process {
  pid: number;
  user: string;
  command: string;
  container: string;
  held_bytes: number;
  rss_bytes: number | null;
  gpu_bytes: number | null;
  orphan: boolean;
  parent_ended: boolean;
  container_name: string;
  orphan_id: string;
}

export interface Processes {
  processes: Process[];
  unattributed_bytes: number | null;
  warnings: Warning[];
}

export interface MemoryContainer {
  id: string;
  name: string;
  image: string;
  runtime: string;
  rootless_uid: number | null;
  processes: number;
  measured: Measured;
  own: boolean;
  orphan_id: string;
}

export interface Orphan {
  id: string;
  name: string;
  runtime: string;
  pid: number | null;
  container: string | null;
  command: string;
  processes: number;
  measured: Measured | null;
}

export interface MemoryProcesses {
  unit: string;
  user: string;
  processes: number;
  held_bytes: number;
  anon_bytes: number;
  gpu_bytes: number | null;
  gpu_at_least_bytes: number | null;
  own: boolean;
}

export interface OwnerlessMemory {
  name: string;
  bytes: number;
  user: string;
}

export interface Memory {
  revision: number;
  time: string;
  mem_total_bytes: number;
  mem_available_bytes: number;
  used_bytes: number;
  deployments_bytes: number;
  containers_bytes: number;
  processes_bytes: number;
  shared_memory_bytes: number | null;
  ownerless_shared_memory_bytes: number | null;
  hugepages_bytes: number | null;
  rest_bytes: number;
  unattributed_bytes: number | null;
  page_cache_bytes: number | null;
  free_bytes: number | null;
  safety_margin_bytes: number;
  os_reserve_bytes: number;
  promised_bytes: number;
  free_for_new_bytes: number;
  deployments: BudgetDeployment[];
  containers: MemoryContainer[];
  processes: MemoryProcesses[];
  ownerless_shared_memory: OwnerlessMemory[];
  ownerless_certain: boolean;
  names_unknown: string;
  warnings: Warning[];
}

export interface CalibrationRecord {
  model: string;
  fingerprint: string;
  configuration: string;
  measured_bytes: number;
  formula_bytes: number;
  recorded_at: string;
}

export interface OomFloor {
  model: string;
  fingerprint: string;
  configuration: string;
  killed_bytes: number;
  kills: number;
  evidence: string;
  recorded_at: string;
}

export interface Duration {
  model: string;
  fingerprint: string;
  action: string;
  level: number | null;
  took_s: number;
  recorded_at: string;
}

export interface Calibrations {
  records: CalibrationRecord[];
  oom_floors: OomFloor[];
  durations: Duration[];
}

export interface Version {
  version: string;
  commit: string;
  api: string;
}

export interface Problem {
  type: string;
  title: string;
  status: number | null;
  detail: string;
  code: string;
  hint: string;
  where: string;
  plans: Plans | null;
  holders: Process[];
  failure: Failure | null;
}
