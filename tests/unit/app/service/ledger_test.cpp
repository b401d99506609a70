// GET /api/v1/memory: who holds the memory, of a host that the test describes.
#include "unit/app/support/daemon.h"

#include <gmock/gmock.h>

namespace dgxmm::testing {
namespace {

using ::testing::HasSubstr;

const std::string kId(64, 'a');

host::ProcessGroup container_group_of(const std::string& id, Bytes anon) {
  return {.owner = host::group_owner("/docker/" + id), .processes = 2, .user = "jo", .anon = anon, .gpu = Bytes{}};
}

boost::json::value memory_of(Daemon& daemon) {
  const auto response = daemon.request("GET", "/api/v1/memory");
  EXPECT_EQ(response.status, 200) << response.body;
  return json_of(response);
}

std::int64_t number(const boost::json::value& document, std::string_view name) {
  return document.at(name).is_null() ? 0 : document.at(name).as_int64();
}

/// Every part that is used or available: what /memory says adds up to MemTotal.
std::int64_t sum_of_parts(const boost::json::value& memory) {
  std::int64_t sum = 0;
  for (const auto* part : {"deployments_bytes", "containers_bytes", "processes_bytes", "shared_memory_bytes",
                           "ownerless_shared_memory_bytes", "hugepages_bytes", "rest_bytes"}) {
    sum += number(memory, part);
  }
  EXPECT_EQ(sum, number(memory, "used_bytes"));
  return sum + number(memory, "mem_available_bytes");
}

TEST(LedgerReading, DeploymentsContainersAndProcessesAddUpToAllMemory) {
  World world;
  world.host.unlisted = gib(2);
  world.host.held_by_the_kernel = gib(3);
  Daemon daemon{world};
  daemon.deploy_ready(R"("model": "/models/a.gguf", "name": "chat")");
  world.host.groups = {container_group_of(kId, gib(1))};
  world.memory_groups.groups["/docker/" + kId] = {
      .anon = gib(2), .kernel = mib(100), .shmem = mib(200), .sock = mib(28), .current = gib(9)};
  world.host.shmem = mib(700);
  world.container_names.answer = std::vector<container::ListedContainer>{
      {.id = kId, .names = {"jupyter"}, .image = "quay.io/jupyter:latest", .labels = {}}};
  const auto memory = memory_of(daemon);
  EXPECT_EQ(sum_of_parts(memory), world.host.mem_total.count());
  EXPECT_EQ(memory.at("deployments").at(0).at("name").as_string(), "chat");
  EXPECT_GT(number(memory, "deployments_bytes"), gib(6).count());
  const auto& container = memory.at("containers").at(0);
  EXPECT_EQ(container.at("name").as_string(), "jupyter");
  EXPECT_EQ(container.at("image").as_string(), "quay.io/jupyter:latest");
  EXPECT_EQ(container.at("runtime").as_string(), "docker");
  EXPECT_EQ(number(container.at("measured"), "anon_bytes"), gib(2).count())
      << "its group, not the sum of its processes";
  EXPECT_EQ(number(container.at("measured"), "kernel_bytes"), mib(128).count()) << "with its sockets";
  EXPECT_EQ(number(memory, "shared_memory_bytes"), mib(500).count());
  EXPECT_EQ(number(memory, "processes_bytes"), gib(4).count());
  EXPECT_EQ(memory.at("processes").at(0).at("user").as_string(), "jo");
  EXPECT_EQ(number(memory, "page_cache_bytes") + number(memory, "free_bytes"), number(memory, "mem_available_bytes"));
  EXPECT_EQ(number(memory, "safety_margin_bytes") + number(memory, "os_reserve_bytes") +
                number(memory, "promised_bytes") + number(memory, "free_for_new_bytes"),
            number(memory, "mem_available_bytes"));
}

TEST(LedgerReading, AContainerWhoseGroupCannotBeReadIsItsProcesses) {
  World world;
  Daemon daemon{world};
  world.host.groups = {container_group_of(kId, gib(1))};
  world.host.groups[0].gpu.reset();
  world.container_names.answer = fail("docker_unreachable", "the Docker Engine does not answer");
  const auto memory = memory_of(daemon);
  const auto& container = memory.at("containers").at(0);
  EXPECT_EQ(container.at("id").as_string(), kId);
  EXPECT_EQ(container.at("name").as_string(), "");
  EXPECT_TRUE(container.at("measured").at("approximate").as_bool());
  EXPECT_TRUE(container.at("measured").at("gpu_bytes").is_null()) << "B7";
  EXPECT_TRUE(memory.at("unattributed_bytes").is_null());
  EXPECT_THAT(std::string{memory.at("names_unknown").as_string()}, HasSubstr("does not answer"));
  EXPECT_EQ(sum_of_parts(memory), world.host.mem_total.count());
}

TEST(LedgerReading, AnEngineInsideOfTheDaemonsOwnContainerCountsOnce) {
  World world;
  Daemon daemon{world};
  const auto id = daemon.deploy_ready();
  const auto engine = world.runtime.newest(id)->instance.pid;
  world.host.groups = {container_group_of(kId, mib(30))};
  world.host.groups[0].own = true;
  world.host.left_out = {{engine, host::group_owner("/docker/" + kId + "/engine")}};
  world.memory_groups.groups["/docker/" + kId] = {
      .anon = gib(6) + mib(30), .kernel = mib(9), .shmem = Bytes{0}, .current = gib(7)};
  const auto memory = memory_of(daemon);
  const auto& container = memory.at("containers").at(0);
  EXPECT_TRUE(container.at("own").as_bool());
  EXPECT_EQ(number(container.at("measured"), "anon_bytes"), mib(30).count());
  EXPECT_EQ(number(container.at("measured"), "kernel_bytes"), mib(1).count());
  EXPECT_EQ(sum_of_parts(memory), world.host.mem_total.count());
}

TEST(LedgerReading, D14_FilesThatNobodyHasOpenAreNamed) {
  World world;
  Daemon daemon{world};
  world.host.shmem = gib(20);
  world.host.held_by_the_kernel = gib(20);
  world.host.ownerless->items = {{.name = "/dev/shm/vllm_offload_1.mmap", .size = gib(16), .user = "jo"}};
  const auto memory = memory_of(daemon);
  EXPECT_EQ(number(memory, "ownerless_shared_memory_bytes"), gib(16).count());
  EXPECT_EQ(memory.at("ownerless_shared_memory").at(0).at("name").as_string(), "/dev/shm/vllm_offload_1.mmap");
  EXPECT_EQ(memory.at("warnings").at(0).at("code").as_string(), "ownerless_shared_memory");
  EXPECT_EQ(sum_of_parts(memory), world.host.mem_total.count());
}

TEST(LedgerReading, AHostThatCannotBeReadIsAProblemWithItsReason) {
  World world;
  Daemon daemon{world};
  world.host.broken = true;
  EXPECT_EQ(member(daemon.request("GET", "/api/v1/memory"), "code"), "meminfo_unusable");
  EXPECT_TRUE(json_of(daemon.request("GET", "/api/v1/processes")).at("unattributed_bytes").is_null());
}

}  // namespace
}  // namespace dgxmm::testing
