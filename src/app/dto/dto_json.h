#pragma once
// Describes the DTOs for the JSON codec. Include it only where documents are read or written: it is slow to compile.
#include "app/dto/dto.h"
#include "base/json_codec.h"
#include "core/engine/request.h"

namespace dgxmm::dto {

BOOST_DESCRIBE_STRUCT(Part, (), (name, bytes, source, detail))
BOOST_DESCRIBE_STRUCT(Estimate, (),
                      (total_bytes, formula_bytes, confidence, total_source, parts, missing_fields, contradictions,
                       null_block_bytes))
BOOST_DESCRIBE_STRUCT(Config, (),
                      (engine, ctx_size, parallel, batch, ubatch, cache_ram_mib, kv_unified, swa_full, cache_type_k,
                       cache_type_v, flash_attn, max_model_len, max_num_seqs, max_num_batched_tokens, kv_tokens,
                       kv_cache_dtype, enforce_eager, draft_model, mmproj, spec_type, spec_draft_n_max,
                       cache_type_k_draft, cache_type_v_draft, tensor_parallel_size, num_speculative_tokens, max_loras,
                       max_lora_rank, limit_mm_per_prompt, mm_processor_cache_gb, quantization, spec_method,
                       enable_lora, language_model_only, sleep_mode))
BOOST_DESCRIBE_STRUCT(Measured, (),
                      (total_bytes, anon_bytes, kernel_bytes, shmem_bytes, gpu_bytes, gpu_at_least_bytes, approximate,
                       complete))
BOOST_DESCRIBE_STRUCT(Failure, (), (code, message, hint, last_lines))
BOOST_DESCRIBE_STRUCT(Deployment, (),
                      (id, name, state, state_since, queue_place, phase, model, model_name, served_name, url, config,
                       reserved_bytes, measured, estimate, footprint_bytes, sleep_level, asleep_bytes,
                       sleep_freed_bytes, wake_needs_bytes, can_wake_now, busy, requests_in_flight, idle_since,
                       priority, pinned, labels, pid, runtime, image, image_id, container, outdated, created_at,
                       ready_at, failure, notes))
BOOST_DESCRIBE_STRUCT(Activity, (), (id, busy, requests_in_flight, idle_since))
BOOST_DESCRIBE_STRUCT(Warning, (), (code, message, hint, severity))
BOOST_DESCRIBE_STRUCT(BudgetDeployment, (), (id, name, state, reserved_bytes, measured))
BOOST_DESCRIBE_STRUCT(Budget, (),
                      (revision, time, mem_total_bytes, mem_available_bytes, safety_margin_bytes, os_reserve_bytes,
                       usable_bytes, committed_bytes, used_bytes, measured_by_managed_bytes, ready_gap_bytes,
                       external_bytes, free_for_new_bytes, page_cache_bytes, free_bytes, swap_total_bytes,
                       swap_used_bytes, pressure_some_avg10_permyriad, pressure_full_avg10_permyriad, source,
                       host_class, host_class_evidence, gpu_bytes, gpu_at_least_bytes, gpu_estimate_bytes, gpu_age_s,
                       deployments, warnings))
BOOST_DESCRIBE_STRUCT(PlannedSleep, (), (id, level))
BOOST_DESCRIBE_STRUCT(Plan, (),
                      (id, kind, title, fits, recommended, unsafe, needed_bytes, free_before_bytes, free_after_bytes,
                       shortfall_bytes, left_bytes, confidence, config, stops, frees_bytes, model, sleeps, takes_s,
                       takes_measured, costs, why))
BOOST_DESCRIBE_STRUCT(Plans, (),
                      (plan_set, fits_now, needed_bytes, free_for_new_bytes, shortfall_bytes, summary, plans,
                       missing_without_all_bytes))
BOOST_DESCRIBE_STRUCT(ModelInfo, (), (name, path, format, architecture, quantization, file_bytes, training_context))
BOOST_DESCRIBE_STRUCT(Limit, (), (value, needed_bytes, config))
BOOST_DESCRIBE_STRUCT(SettingOption, (), (name, as_asked, needed_bytes, fits, longest_context, config))
BOOST_DESCRIBE_STRUCT(QuantizationOption, (),
                      (name, path, quantization, file_bytes, needed_bytes, fits, longest_context))
BOOST_DESCRIBE_STRUCT(Reach, (), (longest_context, whole_context, most_sequences, settings, quantizations))
BOOST_DESCRIBE_STRUCT(Fit, (),
                      (verdict, total_bytes, formula_bytes, confidence, total_source, parts, missing_fields,
                       contradictions, free_for_new_bytes, left_bytes, shortfall_bytes, after, reach, model, config,
                       host, budget, notes))
BOOST_DESCRIBE_STRUCT(CatalogModel, (),
                      (name, path, format, architecture, quantization, base_model, file_bytes, training_context,
                       problem, group, engine, repository, revision))
BOOST_DESCRIBE_STRUCT(Models, (), (folders, models, warnings, scanned_at, age_s))
BOOST_DESCRIBE_STRUCT(OperationStep, (), (what, state, message, stops, sleeps, level, wakes))
BOOST_DESCRIBE_STRUCT(Operation, (),
                      (id, plan_set, plan, title, unsafe, model, state, steps, deployment, failure, cancelled_at,
                       queue_place, new_plan_set))
BOOST_DESCRIBE_STRUCT(QueueEntry, (), (id, queue, what, priority, place, since, deployment, operation))
BOOST_DESCRIBE_STRUCT(Queue, (), (deciding, starting, waiting))
BOOST_DESCRIBE_STRUCT(History, (),
                      (interval_s, mem_total_bytes, time_s, deployments_bytes, ready_gap_bytes, external_bytes,
                       page_cache_bytes, free_bytes, committed_bytes, swap_used_bytes, pressure_some_avg10_permyriad))
BOOST_DESCRIBE_STRUCT(Event, (), (id, time, type, deployment, message, data))
BOOST_DESCRIBE_STRUCT(Process, (),
                      (pid, user, command, container, held_bytes, rss_bytes, gpu_bytes, orphan, parent_ended,
                       container_name, orphan_id))
BOOST_DESCRIBE_STRUCT(Processes, (), (processes, unattributed_bytes, warnings))
BOOST_DESCRIBE_STRUCT(MemoryContainer, (),
                      (id, name, image, runtime, rootless_uid, processes, measured, own, orphan_id))
BOOST_DESCRIBE_STRUCT(Orphan, (), (id, name, runtime, pid, container, command, processes, measured))
BOOST_DESCRIBE_STRUCT(MemoryProcesses, (),
                      (unit, user, processes, held_bytes, anon_bytes, gpu_bytes, gpu_at_least_bytes, own))
BOOST_DESCRIBE_STRUCT(OwnerlessMemory, (), (name, bytes, user))
BOOST_DESCRIBE_STRUCT(Memory, (),
                      (revision, time, mem_total_bytes, mem_available_bytes, used_bytes, deployments_bytes,
                       containers_bytes, processes_bytes, shared_memory_bytes, ownerless_shared_memory_bytes,
                       hugepages_bytes, rest_bytes, unattributed_bytes, page_cache_bytes, free_bytes,
                       safety_margin_bytes, os_reserve_bytes, promised_bytes, free_for_new_bytes, deployments,
                       containers, processes, ownerless_shared_memory, ownerless_certain, names_unknown, warnings))
BOOST_DESCRIBE_STRUCT(Fact, (), (code, name, value, state, advice))
BOOST_DESCRIBE_STRUCT(Doctor, (), (facts))
BOOST_DESCRIBE_STRUCT(CalibrationRecord, (),
                      (id, model, fingerprint, configuration, measured_bytes, formula_bytes, recorded_at))
BOOST_DESCRIBE_STRUCT(OomFloor, (), (id, model, fingerprint, configuration, killed_bytes, kills, evidence, recorded_at))
BOOST_DESCRIBE_STRUCT(Duration, (), (id, model, fingerprint, action, level, took_s, recorded_at))
BOOST_DESCRIBE_STRUCT(SizeAsleep, (),
                      (id, model, fingerprint, configuration, level, asleep_bytes, freed_bytes, recorded_at))
BOOST_DESCRIBE_STRUCT(Calibrations, (), (records, oom_floors, durations, asleep))
BOOST_DESCRIBE_STRUCT(Version, (), (version, commit, api, host))
BOOST_DESCRIBE_STRUCT(Health, (), (status, detail))
BOOST_DESCRIBE_STRUCT(Setting, (), (name, value, source, description))
BOOST_DESCRIBE_STRUCT(Problem, (), (type, title, status, detail, code, hint, where, plans, holders, failure))
BOOST_DESCRIBE_STRUCT(FitOfModel, (), (model, fit, error))
BOOST_DESCRIBE_STRUCT(DeploymentChange, (), (priority, pinned, labels))

}  // namespace dgxmm::dto

namespace dgxmm::engine {

BOOST_DESCRIBE_STRUCT(DeployRequest, (),
                      (model, name, engine, context, sequences, ctx_size, parallel, batch, ubatch, cache_ram_mib,
                       cache_type_k, cache_type_v, flash_attn, kv_unified, swa_full, max_model_len, max_num_seqs,
                       max_num_batched_tokens, kv_tokens, kv_cache_dtype, enforce_eager, draft_model, mmproj, spec_type,
                       spec_draft_n_max, cache_type_k_draft, cache_type_v_draft, tensor_parallel_size,
                       num_speculative_tokens, max_loras, max_lora_rank, limit_mm_per_prompt, mm_processor_cache_gb,
                       quantization, spec_method, enable_lora, language_model_only, sleep_mode, runtime, image,
                       served_name, port, priority, pinned, labels))

}  // namespace dgxmm::engine
