#pragma once
// The shapes of the API's JSON, of the command line's --json and of what is stored: one struct a document, described
// in dto_json.h. Sizes are whole bytes in fields named …_bytes; absent figures are null, never 0.
#include "base/bytes.h"
#include "base/ids.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dgxmm::dto {

struct Part {
  std::string name;
  Bytes bytes;
  std::string source;
  std::string detail;
};

struct Estimate {
  Bytes total_bytes;
  Bytes formula_bytes;
  std::string confidence;
  std::string total_source;
  std::vector<Part> parts;
  std::vector<std::string> missing_fields;
  std::vector<std::string> contradictions;     ///< of the model's files
  std::optional<Bytes> null_block_bytes = {};  ///< of vLLM: given to its pool beside kv and state, counted elsewhere
};

/// The resolved configuration: the settings of one engine; those of the other are null.
struct Config {
  std::string engine;
  std::optional<std::int64_t> ctx_size, parallel, batch, ubatch, cache_ram_mib;
  std::optional<bool> kv_unified, swa_full;
  std::optional<std::string> cache_type_k, cache_type_v, flash_attn;
  std::optional<std::int64_t> max_model_len, max_num_seqs, max_num_batched_tokens, kv_tokens;
  std::optional<std::string> kv_cache_dtype;
  std::optional<bool> enforce_eager;
  std::optional<std::string> draft_model;  ///< of either engine; null = none, as for the next
  std::optional<std::string> mmproj, spec_type;
  std::optional<std::int64_t> spec_draft_n_max;  ///< null unless tokens are drafted, as for the next
  std::optional<std::string> cache_type_k_draft, cache_type_v_draft;
  std::optional<std::int64_t> tensor_parallel_size, num_speculative_tokens, max_loras, max_lora_rank;
  std::optional<std::int64_t> limit_mm_per_prompt, mm_processor_cache_gb;
  std::optional<std::string> quantization, spec_method;
  std::optional<bool> enable_lora, language_model_only, sleep_mode;
};

struct Measured {
  Bytes total_bytes;  ///< sum of the known parts
  std::optional<Bytes> anon_bytes, kernel_bytes, shmem_bytes, gpu_bytes;
  std::optional<Bytes> gpu_at_least_bytes = {};  ///< what is known of the GPU part while gpu_bytes is null
  bool approximate = false;
  bool complete = false;  ///< every part is known
};

/// Of a deployment that gave way for a plan which then failed, and is not back: kept until someone starts, wakes, stops
/// or removes it (P11).
inline constexpr std::string_view kNotBroughtBack = "not_brought_back";

struct Failure {
  std::string code;
  std::string message;
  std::string hint;
  std::vector<std::string> last_lines;
};

struct Deployment {
  DeploymentId id;
  std::string name;
  std::string state;
  std::string state_since;
  std::optional<std::int64_t> queue_place = {};  ///< while it waits for others to load; 1: the next
  std::string phase;  ///< while starting: how far its image is; while loading: what it is doing, by its log; of one
                      ///< that wakes up: which part
  std::string model;
  std::string model_name;
  std::string served_name;
  std::string url;  ///< base of the engine's own API
  Config config;
  Bytes reserved_bytes;
  std::optional<Measured> measured;
  Estimate estimate;
  std::optional<Bytes> footprint_bytes;        ///< recorded after the last start (C1, C2)
  std::optional<std::int64_t> sleep_level;     ///< 1 or 2 while it sleeps
  std::optional<Bytes> asleep_bytes;           ///< what it held when it last slept, measured
  std::optional<Bytes> sleep_freed_bytes;      ///< what its last falling asleep gave back
  std::optional<Bytes> wake_needs_bytes = {};  ///< while it sleeps: what has to be free for it to wake up
  std::optional<bool> can_wake_now = {};       ///< likewise, whether that is free; null: not known
  std::optional<bool> busy;
  std::optional<std::int64_t> requests_in_flight;  ///< running and waiting in the engine; null: it does not say
  std::optional<std::string> idle_since;
  std::int64_t priority = 0;
  bool pinned = false;
  std::map<std::string, std::string> labels;
  std::optional<std::int64_t> pid;
  std::optional<std::string> runtime;    ///< "process" or "docker"
  std::optional<std::string> image;      ///< of a container: as it was asked for
  std::optional<std::string> image_id;   ///< … and what that was at the last start
  std::optional<std::string> container;  ///< its id
  std::optional<std::string> outdated;   ///< why a start now would make another one (D8); null: it would not
  std::string created_at;
  std::optional<std::string> ready_at;
  std::optional<Failure> failure;
  std::vector<std::string> notes = {};  ///< known trouble with what was asked for; another start of the same that was
                                        ///< under way when the host went down
};

/// Who is at work with a deployment that serves: the fields of the same names there, which change without an event.
struct Activity {
  DeploymentId id;
  std::optional<bool> busy;
  std::optional<std::int64_t> requests_in_flight;
  std::optional<std::string> idle_since;
};

/// Something about the host's memory that a person should know.
struct Warning {
  std::string code;  ///< stable, for programs
  std::string message;
  std::string hint;      ///< the next step; empty: none, or the message has it
  std::string severity;  ///< "warning", or "note": worth knowing, nothing to do at once
};

struct BudgetDeployment {
  DeploymentId id;
  std::string name;
  std::string state;
  Bytes reserved_bytes;
  std::optional<Measured> measured;
};

/// Every quantity of B1–B7.
struct Budget {
  std::int64_t revision = 0;
  std::optional<std::string> time;  ///< null for a host that is only described
  Bytes mem_total_bytes, mem_available_bytes;
  Bytes safety_margin_bytes, os_reserve_bytes;
  Bytes usable_bytes, committed_bytes, used_bytes;
  Bytes measured_by_managed_bytes, ready_gap_bytes;
  Bytes external_bytes, free_for_new_bytes;
  std::optional<Bytes> page_cache_bytes, free_bytes;  ///< together what is available
  std::optional<Bytes> swap_total_bytes, swap_used_bytes;
  std::optional<std::int64_t> pressure_some_avg10_permyriad;  ///< of 10 s, how long some task waited for memory
  std::optional<std::int64_t> pressure_full_avg10_permyriad;  ///< the same of all tasks
  std::string source;                                         ///< "daemon", or "direct reading" when there is no daemon
  std::string host_class;  ///< none, integrated, coherent, discrete, mixed, unknown; empty without a daemon
  std::string host_class_evidence;
  std::optional<Bytes> gpu_bytes;           ///< of all processes, by NVML; a part of managed and external
  std::optional<Bytes> gpu_at_least_bytes;  ///< what is known of it while gpu_bytes is null
  std::optional<Bytes> gpu_estimate_bytes;  ///< the same by what /proc/meminfo leaves out
  std::optional<std::int64_t> gpu_age_s;    ///< of what NVML said; null when it was not asked
  std::vector<BudgetDeployment> deployments;
  std::vector<Warning> warnings;
};

/// A deployment that a plan puts to sleep.
struct PlannedSleep {
  DeploymentId id;
  std::int64_t level = 1;
};

struct Plan {
  std::string id;
  std::string kind;
  std::string title;
  bool fits = false;
  bool recommended = false;
  std::vector<std::string> unsafe;
  Bytes needed_bytes, free_before_bytes, free_after_bytes, shortfall_bytes, left_bytes;
  std::string confidence;
  Config config;
  std::vector<DeploymentId> stops;
  std::optional<Bytes> frees_bytes = {};  ///< less needed than as asked, or more free than now
  std::optional<std::string> model = {};  ///< path of another quantization; null: the model that was asked for
  std::vector<PlannedSleep> sleeps = {};
  std::optional<std::int64_t> takes_s = {};  ///< until the request is served
  bool takes_measured = false;               ///< by what was measured here; else an estimate by size
  std::vector<std::string> costs = {};       ///< "quality: …", "context: …", "service: …"
  std::optional<std::string> why = {};       ///< why it is the recommended one
};

struct Plans {
  std::string plan_set;  ///< empty when the plans cannot be carried out (computed without a daemon)
  bool fits_now = false;
  Bytes needed_bytes, free_for_new_bytes, shortfall_bytes;
  std::string summary;
  std::vector<Plan> plans;
  std::optional<Bytes> missing_without_all_bytes =
      {};  ///< still too little with everything stopped; null: it would fit
};

struct ModelInfo {
  std::string name;
  std::string path;
  std::string format;
  std::string architecture;
  std::string quantization;
  Bytes file_bytes;
  std::int64_t training_context = 0;
};

/// The largest value of a setting with which a model still fits.
struct Limit {
  std::int64_t value = 0;
  Bytes needed_bytes;  ///< the whole model with it
  Config config;
};

/// A model with one setting changed: "KV cache q8_0", "no prompt cache".
struct SettingOption {
  std::string name;
  bool as_asked = false;
  Bytes needed_bytes;
  bool fits = false;
  std::optional<std::int64_t> longest_context;  ///< tokens of one sequence; null: none fits
  Config config;
};

struct QuantizationOption {
  std::string name;
  std::string path;
  std::string quantization;
  Bytes file_bytes;
  Bytes needed_bytes;
  bool fits = false;
  std::optional<std::int64_t> longest_context;
};

/// What the free memory holds of a model: each figure estimated, none scaled.
struct Reach {
  std::optional<Limit> longest_context;  ///< tokens of one sequence
  bool whole_context = false;            ///< no more can be had: what the model was trained for, or what was asked
  std::optional<Limit> most_sequences;   ///< that can fill their context at the same time
  std::vector<SettingOption> settings;
  std::vector<QuantizationOption> quantizations;  ///< others of the same model on disk, largest first
};

/// Will it fit?
struct Fit {
  std::string verdict;  ///< "fits", "fits_after" (a plan) or "does_not_fit"
  Bytes total_bytes;
  Bytes formula_bytes;
  std::string confidence;
  std::string total_source;
  std::vector<Part> parts;
  std::vector<std::string> missing_fields;
  std::vector<std::string> contradictions;
  Bytes free_for_new_bytes;
  Bytes left_bytes;           ///< what stays free once it runs; negative = short by that much
  Bytes shortfall_bytes;      ///< 0 when it fits
  std::optional<Plan> after;  ///< the plan to begin with: the recommended one, else the first that fits
  Reach reach;
  ModelInfo model;
  Config config;
  std::string host;                ///< "this host", or the one that was described
  std::optional<Budget> budget;    ///< null when only the free memory was given
  std::vector<std::string> notes;  ///< what lies beside the model and is not loaded; known trouble with what is asked
                                   ///< for; a start of the same that was under way when the host went down
};

struct CatalogModel {
  std::string name;
  std::string path;
  std::string format;  ///< "gguf", "safetensors"; empty: no file of it is there yet
  std::string architecture;
  std::string quantization;
  std::string base_model;
  std::optional<Bytes> file_bytes;  ///< of what is there; nothing: no file is
  std::optional<std::int64_t> training_context = {};
  std::string problem;
  std::string group = {};       ///< equal for the quantizations of one model in every format; empty = not known
  std::string engine = {};      ///< that runs this format
  std::string repository = {};  ///< "ORG/NAME" in a Hugging Face cache
  std::string revision = {};    ///< its commit
};

struct Models {
  std::vector<std::string> folders;
  std::vector<CatalogModel> models;
  std::vector<std::string> warnings;  ///< folders that cannot be searched or watched, unfinished downloads
  std::string scanned_at = {};        ///< when the folders were looked at
  std::int64_t age_s = 0;             ///< seconds since then
};

struct OperationStep {
  std::string what;
  std::string state;  ///< waiting, running, done, failed, undoing, undone, undo_failed
  std::string message;
  std::optional<DeploymentId> stops;        ///< the deployment that this step stops
  std::optional<DeploymentId> sleeps = {};  ///< the deployment that it puts to sleep
  std::optional<std::int64_t> level = {};   ///< of that sleep, or of the one that it is stopped in or woken from
  std::optional<DeploymentId> wakes = {};   ///< the deployment that this step wakes up
};

/// A plan being carried out (P11).
struct Operation {
  std::string id;
  std::string plan_set;
  std::string plan;
  std::string title;                ///< of the plan
  std::vector<std::string> unsafe;  ///< P12: reasons of the plan
  std::string model;                ///< of the request
  std::string state;                ///< running, succeeded, failed, cancelled
  std::vector<OperationStep> steps;
  std::optional<DeploymentId> deployment;
  std::optional<Failure> failure;
  std::optional<std::string> cancelled_at = {};  ///< when that was asked for; what was done is undone from then on
  std::optional<std::int64_t> queue_place = {};  ///< while it waits for its turn; 1: the next
  std::optional<std::string> new_plan_set = {};  ///< the plans by now, of one that had changed when its turn came
};

/// One that waits for its turn.
struct QueueEntry {
  std::string id;     ///< to take it out
  std::string queue;  ///< "admission": to be decided on; "start": for others to load
  std::string what;
  std::int64_t priority = 0;
  std::int64_t place = 1;  ///< 1: the next
  std::string since;
  std::optional<DeploymentId> deployment;
  std::optional<std::string> operation;
};

struct Queue {
  std::optional<std::string> deciding;  ///< what has the turn to be decided on, as for the next
  std::optional<std::string> starting;
  std::vector<QueueEntry> waiting;
};

struct Event {
  std::int64_t id = 0;
  std::string time;
  std::string type;
  std::optional<DeploymentId> deployment;
  std::string message;
  std::map<std::string, std::string> data;
};

/// The last hour of the memory bar, a list a figure: the n-th entries of all lists are of one moment. An entry that
/// knows nothing is a gap.
struct History {
  std::int64_t interval_s = 0;  ///< between two entries
  std::optional<Bytes> mem_total_bytes;
  std::vector<std::int64_t> time_s;  ///< since 1970, UTC
  std::vector<std::optional<Bytes>> deployments_bytes, ready_gap_bytes, external_bytes, page_cache_bytes, free_bytes;
  std::vector<std::optional<Bytes>> committed_bytes, swap_used_bytes;
  std::vector<std::optional<std::int64_t>> pressure_some_avg10_permyriad;
};

struct Process {
  std::int64_t pid = 0;
  std::string user;
  std::string command;
  std::string container;  ///< its id, or the unit that the process is in; empty: neither
  Bytes held_bytes;
  std::optional<Bytes> rss_bytes, gpu_bytes;
  bool orphan = false;              ///< holds GPU memory for nobody: what it worked for has ended
  bool parent_ended = false;        ///< holds GPU memory, and what started it has ended; it may be in use all the same
  std::string container_name = {};  ///< as its engine calls it; empty: not known, or no container
  std::string orphan_id = {};       ///< it belongs to this orphan, which can be stopped
};

struct Processes {
  std::vector<Process> processes;           ///< orphans first, then the largest
  std::optional<Bytes> unattributed_bytes;  ///< used, and held by nobody who can be seen; negative: counted twice
  std::vector<Warning> warnings;
};

/// A container that is no deployment, measured by its group and by what its processes hold on the GPU.
struct MemoryContainer {
  std::string id;       ///< or its name, of LXC and machines
  std::string name;     ///< as its engine calls it; empty: not known
  std::string image;    ///< likewise
  std::string runtime;  ///< docker, podman, kubernetes, containerd, cri-o, lxc, machine; empty: not known
  std::optional<std::int64_t> rootless_uid;  ///< of the user whose own engine runs it
  std::int64_t processes = 0;
  Measured measured;
  bool own = false;       ///< dgxmm itself runs in it
  std::string orphan_id;  ///< it is this orphan, which can be stopped
};

/// An engine of this installation that no deployment knows.
struct Orphan {
  std::string id;
  std::string name;     ///< under which it was started
  std::string runtime;  ///< process or docker
  std::optional<std::int64_t> pid;
  std::optional<std::string> container;
  std::string command;  ///< of its largest process
  std::int64_t processes = 0;
  std::optional<Measured> measured;
};

/// The processes of one unit, or those outside of any, that are in no container.
struct MemoryProcesses {
  std::string unit;  ///< "ollama.service", "session-3.scope"; empty: in no unit
  std::string user;  ///< empty: several
  std::int64_t processes = 0;
  Bytes held_bytes;  ///< anon and what is known of the GPU part; shared memory is a line of its own
  Bytes anon_bytes;
  std::optional<Bytes> gpu_bytes;
  std::optional<Bytes> gpu_at_least_bytes = {};  ///< what is known of it while gpu_bytes is null
  bool own = false;                              ///< dgxmm itself is one of them
};

/// Shared memory that no process has open.
struct OwnerlessMemory {
  std::string name;  ///< "/dev/shm/vllm_offload_1.mmap", "System V segment 7"
  Bytes bytes;
  std::string user;
};

/// Who holds the memory. mem_total = deployments + containers + processes + shared_memory + ownerless_shared_memory +
/// hugepages + rest (all used) + page_cache + free (available); what is null counts as 0 there, and is in the rest.
struct Memory {
  std::int64_t revision = 0;
  std::string time;
  Bytes mem_total_bytes, mem_available_bytes, used_bytes;
  Bytes deployments_bytes, containers_bytes, processes_bytes;
  std::optional<Bytes> shared_memory_bytes;            ///< outside of deployments and containers, in use
  std::optional<Bytes> ownerless_shared_memory_bytes;  ///< likewise, in use by nobody
  std::optional<Bytes> hugepages_bytes;                ///< the pools, used or not
  Bytes rest_bytes;                                    ///< used by none of these, or not known to be
  std::optional<Bytes> unattributed_bytes;             ///< the same, when nothing is unknown; negative: counted twice
  std::optional<Bytes> page_cache_bytes, free_bytes;
  /// Of what is available: kept, promised to starts that have not taken it yet, and free for new models (B5).
  Bytes safety_margin_bytes, os_reserve_bytes, promised_bytes, free_for_new_bytes;
  std::vector<BudgetDeployment> deployments;
  std::vector<MemoryContainer> containers;  ///< of others, largest first
  std::vector<MemoryProcesses> processes;   ///< of others, outside of containers, largest first
  std::vector<OwnerlessMemory> ownerless_shared_memory;
  bool ownerless_certain = true;  ///< false: some process may not be looked at, and may have them open
  std::string names_unknown;      ///< why containers have no names; empty: they were asked for
  std::vector<Warning> warnings;
};

/// One thing that is worth knowing about a host before models are run on it.
struct Fact {
  std::string code;  ///< stable, for programs
  std::string name;
  std::string value;
  std::string state;   ///< good, warning, unknown
  std::string advice;  ///< what to do; empty when there is nothing to do
};

struct Doctor {
  std::vector<Fact> facts;
};

struct CalibrationRecord {
  std::string id;     ///< of this one, to have it forgotten; stays the same
  std::string model;  ///< name of a deployment's model with these weights; empty when there is none any more
  std::string fingerprint;
  std::string configuration;
  Bytes measured_bytes, formula_bytes;
  std::string recorded_at;
};

struct OomFloor {
  std::string id;     ///< as above
  std::string model;  ///< as above
  std::string fingerprint;
  std::string configuration;
  Bytes killed_bytes;
  std::int64_t kills = 0;
  std::string evidence;
  std::string recorded_at;
};

/// How long something took with a model, the last time.
struct Duration {
  std::string id;     ///< as above
  std::string model;  ///< as above
  std::string fingerprint;
  std::string action;                      ///< load, stop, sleep, wake
  std::optional<std::int64_t> level = {};  ///< of a sleep, and of a wake from it
  std::int64_t took_s = 0;                 ///< rounded up
  std::string recorded_at;
};

/// What a deployment held asleep, the last time.
struct SizeAsleep {
  std::string id;     ///< as above
  std::string model;  ///< as above
  std::string fingerprint;
  std::string configuration;
  std::int64_t level = 1;
  Bytes asleep_bytes;
  Bytes freed_bytes;  ///< given back by falling asleep; negative when it took more
  std::string recorded_at;
};

struct Calibrations {
  std::vector<CalibrationRecord> records;
  std::vector<OomFloor> oom_floors;
  std::vector<Duration> durations = {};
  std::vector<SizeAsleep> asleep = {};
};

struct Version {
  std::string version;
  std::string commit;
  std::string api = "v1";
  std::optional<std::string> host = {};  ///< name of the machine that the daemon runs on
};

struct Health {
  std::string status;  ///< ok, trouble
  std::string detail;  ///< what is wrong; empty when nothing is
};

/// One of dgxmm's own.
struct Setting {
  std::string name;
  std::string value;   ///< masked when it is a secret
  std::string source;  ///< where it came from: a file and line, a variable, a flag, or "default"
  std::string description;
};

/// RFC 9457, with a stable `code`.
struct Problem {
  std::string type = "about:blank";
  std::string title;
  std::optional<std::int64_t> status;  ///< of the HTTP answer; absent when there was none
  std::string detail;
  std::string code;
  std::string hint;
  std::string where;
  std::optional<Plans> plans;      ///< 409 does_not_fit
  std::vector<Process> holders;    ///< then: who else holds memory; certain orphans first, then the 3 largest
  std::optional<Failure> failure;  ///< an engine that died, with its last lines
};

/// One of several models in an answer of `dgxmm fit --json`: either member is there.
struct FitOfModel {
  std::string model;  ///< as it was asked for
  std::optional<Fit> fit;
  std::optional<Problem> error;
};

/// PATCH /deployments/{id}: only what is given changes.
struct DeploymentChange {
  std::optional<std::int64_t> priority;
  std::optional<bool> pinned;
  std::optional<std::map<std::string, std::string>> labels;
};

}  // namespace dgxmm::dto
