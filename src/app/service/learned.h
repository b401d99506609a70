#pragma once
#include "base/result.h"
#include "ports/store.h"

#include <string>
#include <string_view>

// What was learned, as things that a person can name and have forgotten.
namespace dgxmm::service {

/// 12 hex digits that stay the same for as long as the thing is known, also after a restart. A floor that is raised and
/// a duration that is measured again keep theirs.
std::string id_of(const memory::CalibrationRecord& record);
std::string id_of(const memory::OomFloor& floor);
std::string id_of(const memory::SleepRecord& record);
std::string id_of(const planner::DurationRecord& record);

/// What `id` names: one thing, or everything of the model whose fingerprint it is.
/// Errors: `calibration_not_found`.
Result<ports::Learned> named(const ports::Learned& known, std::string_view id);

}  // namespace dgxmm::service
