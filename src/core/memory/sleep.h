#pragma once
#include "base/bytes.h"
#include "base/clock.h"
#include "core/memory/budget.h"
#include "core/memory/estimate.h"

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace dgxmm::memory {

// vLLM asleep, on a host whose CPU and GPU share one pool (vllm/device_allocator/cumem.py, 0.32). Level 1 moves the
// weights to pinned host memory, which is the same pool, and drops the KV cache; level 2 drops both, and reads the
// weights again when it wakes up.

/// What one deployment held asleep, measured.
struct SleepRecord {
  std::string fingerprint;        ///< same model (C7)
  std::string configuration_key;  ///< same configuration (C3)
  int level = 1;
  Bytes asleep;  ///< held when it slept
  Bytes freed;   ///< given back by falling asleep; negative when it took more
  WallTime recorded_at;
};

/// The newest record of that model, configuration and level; null when there is none. `records`, oldest first.
const SleepRecord* last_sleep(std::span<const SleepRecord> records, std::string_view fingerprint,
                              std::string_view configuration_key, int level);

/// P10: the last measured size asleep; without one, what stays by the formula: the runtime, which is all host memory
/// here (graphs and contexts stay too), and with level 1 the pinned copies of the weights.
Bytes size_asleep(const Estimate& estimate, int level, std::optional<Bytes> measured_asleep);

/// What its falling asleep frees: the size it counts with now less the one asleep; 0 when that is not less.
Bytes freed_by_sleep(Bytes counted_now, Bytes asleep);

/// Pinned copies of so many bytes of weights: each segment takes a power of two, so up to twice the bytes; 1.45 times
/// for segments of the usual sizes (torch's CachingHostAllocator).
Bytes pinned_copies(Bytes weights);

/// What it takes in the moment when all of it is awake: what it held asleep, weights and KV cache. Pinned copies of
/// level 1 are in what it held; they stay with the process, and are not taken back before the cache is there (vLLM
/// issue 50011). Never below what it reserves.
Bytes wake_peak(const Estimate& estimate, int level, std::optional<Bytes> measured_asleep);

/// What has to be free for it to wake up: the peak less what it is counted with now (B2).
Bytes needed_to_wake(const Estimate& estimate, int level, std::optional<Bytes> measured_asleep, Bytes counted_now);

}  // namespace dgxmm::memory
