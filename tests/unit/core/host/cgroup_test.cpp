#include "core/host/readings.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace dgxmm::host {
namespace {

const std::string kId(64, 'a');
const std::string kOtherId(64, 'b');

TEST(CgroupV2, B6_EveryPartIsRead) {
  const auto memory = parse_cgroup_v2(
      "anon 1000\nfile 500\nkernel 300\nkernel_stack 7\nsock 20\nshmem 40\nfile_mapped 11\nunknown_key 3\n",
      "low 0\nhigh 0\nmax 0\noom 2\noom_kill 1\noom_group_kill 5\n", "1820\n");
  EXPECT_EQ(memory.anon, Bytes{1000});
  EXPECT_EQ(memory.file, Bytes{500});
  EXPECT_EQ(memory.kernel, Bytes{300});
  EXPECT_EQ(memory.sock, Bytes{20});
  EXPECT_EQ(memory.shmem, Bytes{40});
  EXPECT_EQ(memory.current, Bytes{1820});
  EXPECT_EQ(memory.oom_kills, 1);
}

TEST(CgroupV2, B7_AnAbsentFileOrKeyIsUnknown) {
  const auto memory = parse_cgroup_v2("", "", "");
  EXPECT_EQ(memory.anon, std::nullopt);
  EXPECT_EQ(memory.kernel, std::nullopt);
  EXPECT_EQ(memory.current, std::nullopt);
  EXPECT_EQ(memory.oom_kills, std::nullopt);
  EXPECT_EQ(parse_cgroup_v2("anon 0\n", "", "").anon, Bytes{});
  EXPECT_EQ(parse_cgroup_v2("anon -5\nfile x\n", "", "max\n").anon, std::nullopt);
}

TEST(CgroupV2, ALastLineCutShortIsNotReadAsASmallerNumber) {
  EXPECT_EQ(parse_cgroup_v2("anon 1000\nshmem 4", "", "").shmem, std::nullopt);
  EXPECT_EQ(parse_cgroup_v2("anon 1000", "", "").anon, std::nullopt);
}

TEST(CgroupV2, ValuesAbove53BitsAreExact) {
  EXPECT_EQ(parse_cgroup_v2("anon 9007199254740993\n", "", "").anon, Bytes{9007199254740993});
  EXPECT_EQ(parse_cgroup_v2("anon 9223372036854775808\n", "", "").anon, std::nullopt);
}

TEST(CgroupV2, BeforeKernel5_18TheKernelPartIsTheLargerOfWhatIsNamedAndWhatIsLeft) {
  constexpr auto kStat = "anon 1000\nfile 500\nslab 30\nkernel_stack 20\npagetables 10\nsock 5\n";
  EXPECT_EQ(parse_cgroup_v2(kStat, "", "1600\n").kernel, Bytes{95});  // 1600 - 1000 - 500 - 5
  EXPECT_EQ(parse_cgroup_v2(kStat, "", "1510\n").kernel, Bytes{60});  // memory.current lags
  EXPECT_EQ(parse_cgroup_v2(kStat, "", "").kernel, Bytes{60});
  EXPECT_EQ(parse_cgroup_v2("anon 1000\nfile 500\n", "", "1400\n").kernel, Bytes{});
}

TEST(CgroupV1, ThePartsHaveOtherNames) {
  const auto memory = parse_cgroup_v1("cache 1\nrss 2\nshmem 3\ntotal_cache 500\ntotal_rss 1000\ntotal_shmem 40\n",
                                      "300\n", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n", "1840\n");
  EXPECT_EQ(memory.anon, Bytes{1000});
  EXPECT_EQ(memory.file, Bytes{500});
  EXPECT_EQ(memory.shmem, Bytes{40});
  EXPECT_EQ(memory.kernel, Bytes{300});
  EXPECT_EQ(memory.current, Bytes{1840});
  EXPECT_EQ(memory.oom_kills, 2);
  EXPECT_EQ(memory.sock, std::nullopt);
}

TEST(CgroupV1, B7_AKernelThatDoesNotAccountItselfIsUnknown) {
  EXPECT_EQ(parse_cgroup_v1("total_rss 1000\n", "", "", "").kernel, std::nullopt);
  EXPECT_EQ(parse_cgroup_v1("total_rss 1000\n", "0\n", "", "").kernel, std::nullopt);
  EXPECT_EQ(parse_cgroup_v1("total_rss 0\n", "0\n", "", "").kernel, Bytes{});  // an empty group
}

TEST(ProcCgroup, TheMemoryControllersLineCounts) {
  const auto path_of = [](std::string_view text) {
    const auto path = parse_proc_cgroup(text);
    return path ? std::to_string(path->version) + " " + path->path : std::string{"none"};
  };
  EXPECT_EQ(path_of("0::/\n"), "2 /");
  EXPECT_EQ(path_of("0::/system.slice/docker.service\n"), "2 /system.slice/docker.service");
  EXPECT_EQ(path_of("12:cpuset,memory:/docker/x\n11:cpu:/y\n0::/z\n"), "1 /docker/x");
  EXPECT_EQ(path_of("0::/system.slice/a.scope\n4:memory:/\n"), "1 /");  // hybrid, in either order
  EXPECT_EQ(path_of("4:memory_like,xmemory:/a\n0::/b\n"), "2 /b");      // a name, not a substring
  EXPECT_EQ(path_of("1:name=systemd:/a\n0::/b:c:d"), "2 /b:c:d");
  EXPECT_EQ(path_of("4:memory:/a (deleted)\n"), "1 /a (deleted)");
  EXPECT_EQ(path_of(""), "none");
  EXPECT_EQ(path_of("0::\n:::\n4:memory\nmemory:/x\n"), "none");
}

TEST(ContainerOf, DockerPodmanAndKubernetesAreKnown) {
  for (const std::string& path :
       {"/system.slice/docker-" + kId + ".scope", "/docker/" + kId, "/docker/" + kId + "/system.slice/x.service",
        "/custom.slice/docker-" + kId + ".scope", "/custom/" + kId,
        "/user.slice/user-1000.slice/user@1000.service/user.slice/docker-" + kId + ".scope",
        "/machine.slice/libpod-" + kId + ".scope/container",
        "/kubepods.slice/kubepods-besteffort.slice/cri-containerd-" + kId + ".scope", "/kubepods/burstable/pod1/" + kId,
        "/crio-" + kId + ".scope", "/default/" + kId, "/../docker-" + kId + ".scope",
        "/../../../kubepods-besteffort.slice/cri-containerd-" + kId + ".scope"}) {
    EXPECT_EQ(container_of(path), kId) << path;
  }
}

TEST(ContainerOf, OfNestedContainersTheOutermostOwnsTheProcess) {
  EXPECT_EQ(container_of("/docker/" + kId + "/kubepods/pod1/" + kOtherId), kId);
}

TEST(ContainerOf, SystemContainersGoByTheirName) {
  EXPECT_EQ(container_of("/lxc.payload.web/init.scope"), "web");
  EXPECT_EQ(container_of("/lxc/web"), "web");
  EXPECT_EQ(container_of("/machine.slice/machine-vm1.scope"), "vm1");
}

TEST(ContainerOf, WithoutAContainerTheUnitIsShown) {
  EXPECT_EQ(container_of("/system.slice/ollama.service"), "ollama.service");
  EXPECT_EQ(container_of("/user.slice/user-1000.slice/session-2.scope"), "session-2.scope");
  EXPECT_EQ(container_of("/user.slice/user@1000.service/app.slice/app-code.scope"), "app-code.scope");
  EXPECT_EQ(container_of("/system.slice/ollama.service (deleted)"), "ollama.service");
  // Podman's monitor is not the container.
  EXPECT_EQ(container_of("/machine.slice/libpod-conmon-" + kId + ".scope"), "libpod-conmon-" + kId + ".scope");
  for (const std::string& path :
       std::vector<std::string>{"", "/", "/..", "/user.slice", "/docker", "/docker/buildkit/" + kId}) {
    EXPECT_EQ(container_of(path), "") << path;
  }
}

TEST(ContainerOf, AnIdHasExactly64LowerHexDigits) {
  EXPECT_EQ(container_of("/docker/" + kId.substr(1)), "");
  EXPECT_EQ(container_of("/docker/" + kId + "a"), "");
  EXPECT_EQ(container_of("/docker/" + std::string(64, 'A')), "");
  EXPECT_EQ(container_of("/docker/" + std::string(64, 'g')), "");
  EXPECT_EQ(container_of("/docker/" + kId.substr(0, 32)), "");
}

TEST(ContainerOf, ARemovedGroupIsNoContainerAnyMore) {
  EXPECT_EQ(container_of("/docker/" + kId + " (deleted)"), "removed container");
}

}  // namespace
}  // namespace dgxmm::host
