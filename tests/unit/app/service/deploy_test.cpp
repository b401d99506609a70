#include "unit/app/support/daemon.h"

#include <algorithm>

namespace dgxmm::testing {
namespace {

using namespace std::chrono_literals;
using deployment::State;

TEST(Deploy, GoesFromStartingOverLoadingToReadyAndSaysSo) {
  World world;
  Daemon daemon{world};
  const auto id = daemon.deploy();
  EXPECT_EQ(daemon.at(id).state, State::starting);
  daemon.expect_state(id, State::loading);
  daemon.expect_state(id, State::ready);
  const auto events = daemon.events();
  EXPECT_EQ(std::ranges::count_if(events, [](const auto& text) { return text.starts_with("deployment.state"); }), 2);
  EXPECT_TRUE(std::ranges::any_of(events, [](const auto& text) { return text.find("ready after 3.") != std::string::npos; }))
      << events.back();
  EXPECT_TRUE(daemon.loop->failures().empty());
}

}  // namespace
}  // namespace dgxmm::testing
