#include "core/host/readings.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace dgxmm::host {
namespace {

const std::string kId(64, 'c');
const std::string kInner(64, 'd');

std::string path_of(const std::string& path) {
  const auto group = container_group(path);
  return group ? group->path : "none";
}

TEST(ContainerGroup, StatisticsAreReadAtTheContainersOwnComponent) {
  EXPECT_EQ(path_of("/docker/" + kId), "/docker/" + kId);
  EXPECT_EQ(path_of("/docker/" + kId + "/init.scope"), "/docker/" + kId);
  EXPECT_EQ(path_of("/system.slice/docker-" + kId + ".scope/kubepods/" + kInner),
            "/system.slice/docker-" + kId + ".scope");
  EXPECT_EQ(path_of("/a/b/" + kId), "/a/b/" + kId);
}

TEST(ContainerGroup, J4_APathOfAnotherNamespaceHasAnIdButCannotBeRead) {
  const auto group = container_group("/../../../kubepods-besteffort.slice/cri-containerd-" + kId + ".scope");
  ASSERT_TRUE(group);
  EXPECT_EQ(group->id, kId);
  EXPECT_FALSE(group->below_mount);
  EXPECT_FALSE(container_group("/../docker-" + kId + ".scope")->below_mount);
  EXPECT_TRUE(container_group("/..docker/" + kId)->below_mount);
}

TEST(ContainerGroup, J6_PodmansSuffixIsNotPartOfItAndItsMonitorIsNoContainer) {
  EXPECT_EQ(path_of("/machine.slice/libpod-" + kId + ".scope/container"), "/machine.slice/libpod-" + kId + ".scope");
  EXPECT_EQ(path_of("/machine.slice/libpod-conmon-" + kId + ".scope"), "none");
}

TEST(ContainerGroup, J7_OfARootlessEngineTheUserIsKnown) {
  const auto group =
      container_group("/user.slice/user-1000.slice/user@1000.service/user.slice/docker-" + kId + ".scope");
  ASSERT_TRUE(group);
  EXPECT_EQ(group->id, kId);
  EXPECT_EQ(group->rootless_uid, 1000);
  EXPECT_FALSE(container_group("/docker/" + kId)->rootless_uid);
}

TEST(ContainerGroup, WhatIsNoContainerHasNone) {
  for (const std::string& path :
       {std::string{}, std::string{"/"}, std::string{"/.."}, "/docker/" + kId + " (deleted)", "/docker/buildkit/" + kId,
        "/docker/" + kId.substr(1), "/docker/" + std::string(64, 'C'), std::string{"/lxc/web"},
        std::string{"/system.slice/ollama.service"}}) {
    EXPECT_EQ(path_of(path), "none") << path;
  }
}

/// "docker cccc… at /docker/cccc…", "unit ollama.service at …", with "cccc" for the id.
std::string owner_text(const std::string& path) {
  const auto owner = group_owner(path);
  using Kind = GroupOwner::Kind;
  const std::string kind = owner.kind == Kind::container           ? owner.runtime
                           : owner.kind == Kind::removed_container ? "removed " + owner.runtime
                           : owner.kind == Kind::unit              ? "unit"
                                                                   : "nobody";
  const auto name = owner.name == kId ? std::string{"ID"} : owner.name;
  if (owner.kind == Kind::nobody) return kind;
  return kind + " " + name + (path.starts_with(owner.path) ? " +" + path.substr(owner.path.size()) : " elsewhere");
}

TEST(GroupOwner, IsToldForEveryRuntimeByThePath) {
  const auto user = std::string{"/user.slice/user-1000.slice/user@1000.service/"};
  EXPECT_EQ(owner_text("/system.slice/docker-" + kId + ".scope"), "docker ID +");
  EXPECT_EQ(owner_text("/docker/" + kId + "/init"), "docker ID +/init");
  EXPECT_EQ(owner_text("/mine.slice/docker-" + kId + ".scope"), "docker ID +");
  EXPECT_EQ(owner_text("/custom/" + kId), " ID +") << "Docker with a parent, or a namespace of containerd";
  EXPECT_EQ(owner_text(user + "user.slice/docker-" + kId + ".scope"), "docker ID +");
  EXPECT_EQ(owner_text("/machine.slice/libpod-" + kId + ".scope/container"), "podman ID +/container");
  EXPECT_EQ(owner_text("/libpod_parent/libpod-" + kId), "podman ID +");
  EXPECT_EQ(owner_text(user + "user.slice/libpod-" + kId + ".scope/container"), "podman ID +/container");
  EXPECT_EQ(owner_text("/kubepods.slice/kubepods-besteffort.slice/cri-containerd-" + kId + ".scope"),
            "kubernetes ID +");
  EXPECT_EQ(owner_text("/kubepods.slice/crio-" + kId + ".scope"), "kubernetes ID +");
  EXPECT_EQ(owner_text("/kubepods/burstable/pod6f5c/" + kId), "kubernetes ID +");
  EXPECT_EQ(owner_text("/system.slice/crio-" + kId + ".scope"), "cri-o ID +");
  EXPECT_EQ(owner_text("/system.slice/nerdctl-" + kId + ".scope"), "containerd ID +");
  EXPECT_EQ(owner_text("/lxc.payload.web/system.slice/nginx.service"), "lxc web +/system.slice/nginx.service");
  EXPECT_EQ(owner_text("/lxc/web"), "lxc web +");
  EXPECT_EQ(owner_text("/machine.slice/machine-qemu\\x2d1\\x2dbuild.scope/libvirt"), "machine qemu-1-build +/libvirt");
  EXPECT_EQ(owner_text("/machine.slice/systemd-nspawn@sid.service/payload"), "machine sid +/payload");
}

TEST(GroupOwner, EachByteHasOneOwner) {
  EXPECT_EQ(owner_text("/system.slice/docker-" + kId + ".scope/kubepods/pod1/" + kInner),
            "docker ID +/kubepods/pod1/" + kInner);
  EXPECT_EQ(owner_text("/lxc.payload.web/docker/" + kInner), "lxc web +/docker/" + kInner);
}

TEST(GroupOwner, OutsideOfContainersItIsTheUnit) {
  EXPECT_EQ(owner_text("/system.slice/ollama.service"), "unit ollama.service +");
  EXPECT_EQ(owner_text("/user.slice/user-1000.slice/session-3.scope"), "unit session-3.scope +");
  EXPECT_EQ(owner_text("/user.slice/user-1000.slice/user@1000.service/app.slice/app-code.scope"),
            "unit app-code.scope +");
  EXPECT_FALSE(group_owner("/user.slice/user-1000.slice/user@1000.service/app.slice/app-code.scope").rootless_uid);
  EXPECT_EQ(owner_text("/machine.slice/libpod-conmon-" + kId + ".scope"), "unit libpod-conmon-" + kId + ".scope +");
  for (const std::string& path :
       {std::string{}, std::string{"/"}, "/docker/buildkit/" + kId, "/docker/" + kId.substr(1)}) {
    EXPECT_EQ(owner_text(path), "nobody") << path;
  }
}

TEST(GroupOwner, J4_J7_OtherNamespacesUsersAndRemovedGroupsAreTold) {
  EXPECT_FALSE(group_owner("/../docker-" + kId + ".scope").below_mount);
  EXPECT_EQ(group_owner("/../docker-" + kId + ".scope").name, kId);
  EXPECT_EQ(
      group_owner("/user.slice/user-1000.slice/user@1000.service/user.slice/docker-" + kId + ".scope").rootless_uid,
      1000);
  EXPECT_EQ(owner_text("/docker/" + kId + " (deleted)"), "removed docker ID + (deleted)");
}

TEST(UnattachedSegments, AreThoseWithMemoryAndNoProcess) {
  const std::string titles =
      "       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid  cgid      atime      dtime      ctime                   rss                  swap\n";
  EXPECT_TRUE(parse_unattached_segments(titles).empty());
  const auto found = parse_unattached_segments(
      titles +
      "         0          5  1600             536870912  1199  1203      0  1000  1000  1000  1000 1700000000 1700000001 1700000000             268435456                     0\n"
      "         0          6  1600             536870912  1199  1203      2  1000  1000  1000  1000 1700000000 1700000001 1700000000             536870912                     0\n"
      "         0          7  1600             536870912  1199  1203      0  1000  1000  1000  1000 1700000000 1700000001 1700000000                     0                     0\n"
      "         0          8  1600             5368");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].name, "System V segment 5");
  EXPECT_EQ(found[0].size, mib(256));
  EXPECT_EQ(found[0].user, "1000");
}

TEST(ContainerGroupPath, ByTheDriverAndTheParent) {
  EXPECT_EQ(container_group_path("cgroupfs", "", kId), "/docker/" + kId);
  EXPECT_EQ(container_group_path("cgroupfs", "/a/b/", kId), "/a/b/" + kId);
  EXPECT_EQ(container_group_path("cgroupfs", "a", kId), "/a/" + kId);
  EXPECT_EQ(container_group_path("systemd", "", kId), "/system.slice/docker-" + kId + ".scope");
  EXPECT_EQ(container_group_path("systemd", "a-b-c.slice", kId),
            "/a.slice/a-b.slice/a-b-c.slice/docker-" + kId + ".scope");
}

TEST(ContainerGroupPath, WhatCannotBeKnownIsAbsent) {
  EXPECT_FALSE(container_group_path("systemd", "", kId, true));
  EXPECT_FALSE(container_group_path("none", "", kId));
  EXPECT_FALSE(container_group_path("systemd", "/a/b", kId));
  EXPECT_FALSE(container_group_path("systemd", "-.slice", kId));
  EXPECT_FALSE(container_group_path("cgroupfs", "", "../../etc"));
}

const std::string kLimitLine =
    "6,1234,5678,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/docker/" +
    kId + ",task_memcg=/docker/" + kId + ",task=eat_memory,pid=4242,uid=0";
const std::string kHostLine = "oom-kill:constraint=CONSTRAINT_NONE,global_oom,task_memcg=/system.slice/docker-" +
                              kInner + ".scope,task=python3,pid=77,uid=0";

TEST(OomKillLine, C5_IsReadByItsKeys) {
  const auto kill = parse_oom_kill(kLimitLine);
  ASSERT_TRUE(kill);
  EXPECT_TRUE(kill->group_limit);
  EXPECT_EQ(kill->task, "eat_memory");
  EXPECT_EQ(kill->pid, 4242);
  const auto global = parse_oom_kill(kHostLine);
  ASSERT_TRUE(global);
  EXPECT_FALSE(global->group_limit);
  EXPECT_EQ(global->task_group, "/system.slice/docker-" + kInner + ".scope");
}

TEST(OomKillLine, TheOneOfThisContainerIsFoundAndNoOther) {
  const auto log = "6,1,1,-;eth0: up\n" + kHostLine + "\n" + kLimitLine + "\n SUBSYSTEM=x\n";
  EXPECT_EQ(find_oom_kill(log, kId), kLimitLine.substr(kLimitLine.find("oom-kill")));
  EXPECT_EQ(find_oom_kill(log, kInner), kHostLine);
  EXPECT_EQ(find_oom_kill(log, std::string(64, 'e')), "");
  EXPECT_EQ(find_oom_kill("", kId), "");
}

TEST(OomKillLine, C5_TheOneOfAProcessIsFoundByItsNumberAndTime) {
  constexpr std::int64_t kMinute = 60'000'000;
  const auto at = [](std::int64_t time_us) { return fmt::format("6,1,{},-;", time_us); };
  const auto log = at(10 * kMinute) + kHostLine + "\n" + at(20 * kMinute) + "Out of memory: Killed process 77\n";
  const std::vector<std::int64_t> ours{70, 77};
  EXPECT_EQ(find_oom_kill(log, ours, 9 * kMinute), kHostLine);
  EXPECT_EQ(find_oom_kill(log, ours, 12 * kMinute), "") << "an earlier process had the number";
  EXPECT_EQ(find_oom_kill(log, std::vector<std::int64_t>{70}, 0), "");
  EXPECT_EQ(find_oom_kill(kHostLine, ours, 0), "") << "when it was is not known";
}

TEST(OomKillLine, WhatIsNoneIsNone) {
  for (const auto* line :
       {"", "oom-kill:", "oom-kill:pid=x", "oom-kill:constraint=CONSTRAINT_MEMCG", "Out of memory: Killed process 1",
        "oom-kill:task=a,pid=-4", "oom-kill:pid=99999999999999999999"}) {
    EXPECT_FALSE(parse_oom_kill(line)) << line;
  }
}

}  // namespace
}  // namespace dgxmm::host
