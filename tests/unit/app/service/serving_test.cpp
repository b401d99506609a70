#include "core/host/gpu.h"
#include "unit/app/support/daemon.h"

#include <string>

namespace dgxmm::testing {
namespace {

using namespace std::chrono_literals;
using deployment::State;

// An engine that serves, and then does not, although its process runs.

TEST(Serving, D10_OneThatSaysThatItIsNotWellIsUnknownThoughItsMetricsAnswer) {
  World world;
  Daemon daemon{world};
  const auto id = daemon.deploy_ready();
  world.runtime.newest(id)->script.healthy = false;
  daemon.expect_state(id, State::unknown);
  world.runtime.newest(id)->script.healthy = true;
  daemon.expect_state(id, State::ready);
}

TEST(Serving, ALostGpuMakesWhatUsesItUnknownAndNothingElse) {
  World world;
  Daemon daemon{world};
  const auto on_cpu = daemon.deploy_ready();
  world.runtime.next.holds = {.anon = gib(1), .kernel = mib(8), .shmem = Bytes{0}, .gpu = gib(5)};
  const auto on_gpu = daemon.deploy_ready(R"("model": "/models/b.gguf")");
  world.gpu.reading.no_starts = Error{std::string{host::kGpuFailed}, "the GPU is lost", {}, {}};
  daemon.expect_state(on_gpu, State::unknown);
  daemon.loop->run_for(30s);
  EXPECT_EQ(daemon.at(on_gpu).state, State::unknown) << "its answers prove nothing";
  EXPECT_EQ(daemon.at(on_cpu).state, State::ready);
  EXPECT_EQ(world.runtime.running_count(), 2U) << "nothing is ended for that alone";
  world.gpu.reading.no_starts.reset();
  daemon.expect_state(on_gpu, State::ready);
}

}  // namespace
}  // namespace dgxmm::testing
