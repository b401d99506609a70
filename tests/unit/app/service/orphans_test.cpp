// Engines of this installation that no deployment knows: shown, and ended when a person asks for it.
#include "unit/app/support/daemon.h"

#include <gmock/gmock.h>

namespace dgxmm::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

/// A daemon whose state was lost while one engine ran.
struct LostState {
  LostState() {
    {
      Daemon before{world};
      before.deploy_ready();
      before.kill();
    }
    world.store.remove_deployment(DeploymentId{1});
    daemon = std::make_unique<Daemon>(world);
  }
  boost::json::array orphans() { return json_of(daemon->request("GET", "/api/v1/orphans")).as_array(); }
  std::string id() { return std::string{orphans().at(0).at("id").as_string()}; }

  World world;
  std::unique_ptr<Daemon> daemon;
};

TEST(Orphans, AreShownWithWhatTheyHoldEverywhere) {
  LostState lost;
  ASSERT_EQ(lost.orphans().size(), 1U);
  const auto id = lost.id();
  EXPECT_EQ(lost.orphans().at(0).at("measured").at("anon_bytes").as_int64(), gib(6).count());
  const auto pid = lost.world.runtime.engines().at(0)->instance.pid;
  EXPECT_EQ(id, std::to_string(pid) + "-" + std::to_string(lost.world.runtime.engine(pid).instance.start_time_ticks));
  lost.world.host.rows = {{.pid = pid, .user = "root", .command = "llama-server", .container = {}, .held = gib(6)}};
  const auto processes = json_of(lost.daemon->request("GET", "/api/v1/processes"));
  EXPECT_EQ(processes.at("processes").at(0).at("orphan_id").as_string(), id) << "first, whatever its size";
  EXPECT_EQ(processes.at("processes").at(1).at("orphan_id").as_string(), "");
  EXPECT_THAT(std::string{processes.at("warnings").as_array().back().at("hint").as_string()},
              HasSubstr("dgxmm orphans --stop " + id));
}

TEST(Orphans, AreStoppedByTheirIdentityAndTheMemoryIsBack) {
  LostState lost;
  const auto available = lost.world.host.meminfo()->mem_available;
  const auto pid = lost.world.runtime.engines().at(0)->instance.pid;
  EXPECT_EQ(member(lost.daemon->request("POST", "/api/v1/orphans/" + std::to_string(pid) + "-1/stop"), "code"),
            "orphan_not_found")
      << "a pid alone may be somebody else's by now";
  const auto stopped = lost.daemon->request("POST", "/api/v1/orphans/" + lost.id() + "/stop");
  EXPECT_EQ(stopped.status, 200) << stopped.body;
  EXPECT_EQ(lost.world.runtime.running_count(), 0U);
  EXPECT_TRUE(lost.world.runtime.forgotten.contains(pid));
  EXPECT_GT(lost.world.host.meminfo()->mem_available, available);
  EXPECT_TRUE(lost.orphans().empty());
  EXPECT_THAT(lost.daemon->events().back(), HasSubstr("orphan.stopped"));
}

TEST(Orphans, OneThatDoesNotEndStaysAndSaysSo) {
  LostState lost;
  lost.world.runtime.engines().at(0)->script.survives_stop = true;
  EXPECT_EQ(member(lost.daemon->request("POST", "/api/v1/orphans/" + lost.id() + "/stop"), "code"), "still_running");
  EXPECT_EQ(lost.orphans().size(), 1U);
}

TEST(Orphans, EnginesOfDeploymentsAndOfOthersAreNone) {
  World world;
  Daemon daemon{world};
  const auto id = daemon.deploy_ready();
  EXPECT_EQ(daemon.request("GET", "/api/v1/orphans").body, "[]");
  const auto instance = world.runtime.newest(id)->instance;
  const auto path = "/api/v1/orphans/" + service::orphan_id(instance) + "/stop";
  EXPECT_EQ(daemon.request("POST", path).status, 404);
  EXPECT_EQ(daemon.at(id).state, deployment::State::ready);
  // Of an installation with another state folder.
  world.runtime.newest(id)->spec.name = "dgxmm-other-1";
  daemon.at(id).instance.reset();
  EXPECT_EQ(daemon.request("GET", "/api/v1/orphans").body, "[]");
}

TEST(Orphans, OneThatIsBeingStartedIsNone) {
  World world;
  world.runtime.next.start_returns_after = 5s;  // it exists, and the daemon has not heard of it yet
  Daemon daemon{world};
  daemon.deploy();
  daemon.loop->run_for(1s);
  EXPECT_EQ(world.runtime.running_count(), 1U);
  EXPECT_EQ(daemon.request("GET", "/api/v1/orphans").body, "[]");
}

}  // namespace
}  // namespace dgxmm::testing
