#pragma once
// What must hold for any text given as a scenario: used by the fuzzer, and by a normal test that replays its corpus.
#include "app/dto/scenario.h"
#include "fuzz/model_checks.h"

#include <string>
#include <string_view>

namespace dgxmm::testing {

inline void must_be_sound(const planner::Plans& plans) {
  must(plans.fits_now == (plans.shortfall == Bytes{}));
  int recommended = 0;
  for (const auto& plan : plans.plans) {
    must(!plan.id.empty() && !plan.title.empty());
    must(plan.fits == (plan.shortfall == Bytes{}));
    must(plan.left == plan.free_after - plan.needed);
    must(!plan.recommended || (plan.fits && plan.unsafe.empty()));
    recommended += plan.recommended ? 1 : 0;
  }
  must(recommended <= 1);
}

/// An error that names what is wrong; or a host that is written and read again as it is, that can be masked, and whose
/// plans hold what plans promise.
inline void check_scenario(std::string_view text) {
  const dto::DescribeModel nothing = [](const std::string&) -> Result<model::ModelDescription> {
    return fail("model_not_found", "nothing is on this disk");
  };
  const auto scenario = dto::read_scenario(text, nothing);
  if (!scenario) return must_be_told(scenario.error());
  const auto written = dto::write_scenario(*scenario);
  const auto again = dto::read_scenario(written, nothing);
  must(again.has_value() && dto::write_scenario(*again) == written);
  const auto masked = planner::masked(*scenario);
  if (!scenario->request) return;
  const auto plans = planner::plans_of(*scenario, *scenario->request);
  if (!plans) return must_be_told(plans.error());
  must_be_sound(*plans);
  if (masked.request) static_cast<void>(planner::plans_of(masked, *masked.request));
}

}  // namespace dgxmm::testing
