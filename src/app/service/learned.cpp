#include "app/service/learned.h"

#include "base/masking.h"
#include "core/model/identity.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <vector>

namespace dgxmm::service {
namespace {

// Few enough to type, enough that two things of one host never share them.
constexpr std::size_t kIdDigits = 12;

std::string id_of_fields(std::string_view kind, const std::string& fingerprint, std::string_view key,
                         std::int64_t number) {
  model::Hasher hasher;
  hasher.add(kind);
  hasher.add(fingerprint);
  hasher.add(key);
  hasher.add(static_cast<std::uint64_t>(number));
  return model::to_hex(hasher.digest()).substr(0, kIdDigits);
}

template <class T>
void copy_named(const std::vector<T>& known, std::string_view id, std::vector<T>& found) {
  std::ranges::copy_if(known, std::back_inserter(found),
                       [&](const T& one) { return one.fingerprint == id || id_of(one) == id; });
}

}  // namespace

std::string id_of(const memory::CalibrationRecord& record) {
  // Milliseconds, as they are stored.
  const auto time = std::chrono::duration_cast<std::chrono::milliseconds>(record.recorded_at.time_since_epoch());
  return id_of_fields("record", record.fingerprint, record.configuration_key, time.count());
}

std::string id_of(const memory::OomFloor& floor) {
  return id_of_fields("oom_floor", floor.fingerprint, floor.configuration_key, 0);
}

std::string id_of(const memory::SleepRecord& record) {
  return id_of_fields("asleep", record.fingerprint, record.configuration_key, record.level);
}

std::string id_of(const planner::DurationRecord& record) {
  return id_of_fields("duration", record.fingerprint, planner::name_of(record.action), record.level);
}

Result<ports::Learned> named(const ports::Learned& known, std::string_view id) {
  ports::Learned found;
  copy_named(known.records, id, found.records);
  copy_named(known.oom_floors, id, found.oom_floors);
  copy_named(known.sleep_records, id, found.sleep_records);
  copy_named(known.durations, id, found.durations);
  if (found.records.empty() && found.oom_floors.empty() && found.sleep_records.empty() && found.durations.empty()) {
    return fail("calibration_not_found",
                fmt::format("nothing that was learned has the id or the fingerprint '{}'", printable(id)),
                "`dgxmm calibration` lists what was learned", "id");
  }
  return found;
}

}  // namespace dgxmm::service
