#include "core/memory/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <utility>

namespace dgxmm::memory {
namespace {

/// How many records speak: older ones may come from an engine that is no longer installed.
constexpr std::size_t kLatest = 5;
/// Ratios are applied in millionths, so that the result does not depend on how a double rounds.
constexpr std::int64_t kMillion = 1'000'000;

using Records = std::vector<const CalibrationRecord*>;

/// The newest `kLatest` usable records that `wanted` accepts, oldest first.
template <class Wanted>
Records latest(std::span<const CalibrationRecord> records, Wanted wanted) {
  Records result;
  for (const auto& record : records) {
    // A record without sizes says nothing, and would divide by zero.
    if (record.measured > Bytes{} && record.formula > Bytes{} && wanted(record)) result.push_back(&record);
  }
  if (result.size() > kLatest) result.erase(result.begin(), result.end() - kLatest);
  return result;
}

Bytes largest_measured(const Records& records) {
  Bytes largest;
  for (const auto* record : records) largest = std::max(largest, record->measured);
  return largest;
}

/// C4: mean of measured / estimated, clamped to 1.0–1.5, in millionths.
std::int64_t mean_ratio_ppm(const Records& records) {
  double sum = 0;
  for (const auto* record : records) {
    sum += static_cast<double>(record->measured.count()) / static_cast<double>(record->formula.count());
  }
  const double mean = std::clamp(sum / static_cast<double>(records.size()), 1.0, 1.5);
  return std::llround(mean * static_cast<double>(kMillion));
}

/// C5: what an estimate must reach after a size was killed.
Bytes floor_above(Bytes killed_size) { return scale_up(killed_size, 11, 10); }

std::string times(std::int64_t n) { return n == 1 ? "once" : n == 2 ? "twice" : fmt::format("{} times", n); }

}  // namespace

Bytes footprint(const Measured& measured, std::optional<Bytes> engine_device_bytes) {
  // C2: buffers that the engine keeps in host memory are in the host part already.
  if (engine_device_bytes) return *engine_device_bytes + measured.host();
  return measured.total();
}

Estimate calibrate(Estimate formula, std::string_view fingerprint, std::string_view configuration_key,
                   std::span<const CalibrationRecord> records, std::span<const OomFloor> floors) {
  Estimate result = std::move(formula);
  const auto same_model = [&](const CalibrationRecord& record) { return record.fingerprint == fingerprint; };
  const auto same_configuration = [&](const CalibrationRecord& record) {
    return same_model(record) && record.configuration_key == configuration_key;
  };

  Bytes learned;
  std::string learned_source;
  if (const auto same = latest(records, same_configuration); !same.empty()) {  // C3
    const Bytes largest = largest_measured(same);
    learned = scale_up(largest, 105, 100);
    learned_source = fmt::format("measured {} with this configuration, {}{} x 1.05", times(std::ssize(same)),
                                 same.size() > 1 ? "largest " : "", format_bytes(largest));
    result.confidence = Confidence::measured;
  } else if (const auto others = latest(records, same_model); !others.empty()) {  // C4
    const auto ratio = mean_ratio_ppm(others);
    learned = scale_up(result.formula, ratio, kMillion);
    learned_source = fmt::format("sum of the parts x {:.2f}, as measured with other configurations of this model",
                                 static_cast<double>(ratio) / static_cast<double>(kMillion));
    result.confidence = Confidence::calibrated;
  }
  if (learned > result.total) {  // C6
    result.total = learned;
    result.total_source = std::move(learned_source);
  } else if (!learned_source.empty()) {
    result.total_source = fmt::format("sum of the parts; {}, is not more", learned_source);
  }

  for (const auto& floor : floors) {  // C5
    if (floor.fingerprint != fingerprint || floor.configuration_key != configuration_key) continue;
    const Bytes least = floor_above(floor.killed_size);
    if (least <= result.total) continue;
    result.total = least;
    result.total_source = fmt::format("{} was not enough (killed for lack of memory {}): that x 1.1",
                                      format_bytes(floor.killed_size), times(floor.kills));
  }
  return result;
}

OomFloor raise_floor(std::optional<OomFloor> before, std::string fingerprint, std::string configuration_key,
                     Bytes killed_estimate, std::string evidence, WallTime now) {
  OomFloor floor{
      .fingerprint = std::move(fingerprint),
      .configuration_key = std::move(configuration_key),
      .killed_size = killed_estimate,
      .kills = 1,
      .evidence = std::move(evidence),
      .recorded_at = now,
  };
  if (before) {
    // A further kill always raises: one below the present floor (two starts of the same size, say) counts as if the
    // floor itself had been killed, so n kills of an estimate E ask for at least E x 1.1^n.
    floor.killed_size = std::max(killed_estimate, floor_above(before->killed_size));
    floor.kills = before->kills + 1;
  }
  return floor;
}

}  // namespace dgxmm::memory
