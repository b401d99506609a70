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

/// What one start really took (C1).
struct CalibrationRecord {
  std::string fingerprint;        ///< same model (C7)
  std::string configuration_key;  ///< same configuration (C3)
  Bytes measured;                 ///< the footprint of C2
  Bytes formula;                  ///< what the formula said then
  WallTime recorded_at;
  std::string image;  ///< recorded, not compared (C7)
};

/// A size that once ran out of memory (C5).
struct OomFloor {
  std::string fingerprint;
  std::string configuration_key;
  Bytes killed_size;  ///< the estimate that was killed; after further kills at least 1.1 x the one before
  std::int64_t kills = 0;
  std::string evidence;
  WallTime recorded_at;
};

/// C2: the engine's own accounting of its device buffers + the host part of measured; without accounting, measured.
Bytes footprint(const Measured& measured, std::optional<Bytes> engine_device_bytes);

/// C3–C6: the estimate with its total raised by what was learned; parts stay as the formula gave them.
/// `records`, oldest first, and `floors` may hold those of other models too.
Estimate calibrate(Estimate formula, std::string_view fingerprint, std::string_view configuration_key,
                   std::span<const CalibrationRecord> records, std::span<const OomFloor> floors);

/// C5: the floor after one more kill of an estimate of that size. Every kill raises it by a tenth or more.
OomFloor raise_floor(std::optional<OomFloor> before, std::string fingerprint, std::string configuration_key,
                     Bytes killed_estimate, std::string evidence, WallTime now);

}  // namespace dgxmm::memory
