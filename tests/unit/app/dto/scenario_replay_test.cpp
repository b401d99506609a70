// Runs the fuzzer's check of scenarios in the normal tests: on its seeds, on the seeds cut and damaged in many places,
// and on the inputs that once failed (tests/fuzz/corpus).
#include "fuzz/scenario_checks.h"
#include "fuzz/scenario_seeds.h"

#include <gtest/gtest.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace dgxmm::testing {
namespace {

TEST(ScenarioFuzzReplay, AScenarioHoldsItsPromises) {
  for (const auto& seed : scenario_seeds()) {
    SCOPED_TRACE(seed.name);
    check_scenario(seed.bytes);
    for (std::size_t i = 0; i < seed.bytes.size(); i += 11) {
      check_scenario(seed.bytes.substr(0, i));
      auto damaged = seed.bytes;
      damaged[i] = damaged[i] == '"' ? ' ' : '"';
      check_scenario(damaged);
      if (std::isdigit(static_cast<unsigned char>(seed.bytes[i])) == 0) continue;
      for (const auto* digits : {"0", "-1", "99999999", "999999999999999", "1e300", "18446744073709551615"}) {
        check_scenario(seed.bytes.substr(0, i) + digits + seed.bytes.substr(i + 1));
      }
    }
  }
  const auto corpus = std::filesystem::path{DGXMM_TEST_DATA} / "fuzz" / "corpus" / "fuzz_scenario";
  if (!std::filesystem::exists(corpus)) return;
  for (const auto& entry : std::filesystem::directory_iterator{corpus}) {
    SCOPED_TRACE(entry.path().string());
    std::ifstream in{entry.path(), std::ios::binary};
    const std::string text{std::istreambuf_iterator<char>{in}, {}};
    check_scenario(text);
  }
}

TEST(ScenarioFuzzReplay, TheSeedsReachThePlans) {
  const auto nothing = [](const std::string&) -> Result<model::ModelDescription> {
    return fail("model_not_found", "nothing is on this disk");
  };
  int planned = 0;
  for (const auto& seed : scenario_seeds()) {
    const auto scenario = dto::read_scenario(seed.bytes, nothing);
    ASSERT_TRUE(scenario) << seed.name << ": " << scenario.error().message;
    if (!scenario->request) continue;
    const auto plans = planner::plans_of(*scenario, *scenario->request);
    ASSERT_TRUE(plans) << seed.name << ": " << plans.error().message;
    ++planned;
  }
  EXPECT_EQ(planned, 2);
}

}  // namespace
}  // namespace dgxmm::testing
