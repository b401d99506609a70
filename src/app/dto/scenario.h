#pragma once
#include "base/result.h"
#include "core/model/layout.h"
#include "core/planner/scenario.h"

#include <boost/json/fwd.hpp>

#include <functional>
#include <string>
#include <string_view>

namespace dgxmm::json {
class Components;
}  // namespace dgxmm::json

// A described host as a JSON document; docs/scenario.md says what stands in it.
namespace dgxmm::dto {

/// Reads a model from its files, for those that a scenario only names by path.
using DescribeModel = std::function<Result<model::ModelDescription>(const std::string& path)>;

/// Errors: `bad_json`, `bad_field`, `missing_field`, `unknown_field`, each naming the field; `bad_scenario` for what
/// does not go together; those of `describe`.
Result<planner::Scenario> read_scenario(std::string_view text, const DescribeModel& describe);

/// As one line. What is not known is left out.
std::string write_scenario(const planner::Scenario& scenario);

/// Of a document that `read_scenario` takes and `write_scenario` writes.
boost::json::value scenario_schema(json::Components& components);

}  // namespace dgxmm::dto
