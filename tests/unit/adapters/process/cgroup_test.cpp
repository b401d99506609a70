#include "adapters/process/cgroup.h"

#include "unit/adapters/process/process_support.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace dgxmm::process {
namespace {

using testing::ElementsAre;

constexpr std::string_view kV2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
constexpr std::string_view kV1 =
    "31 30 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
    "32 30 0:28 / /sys/fs/cgroup/memory rw shared:3 master:1 - cgroup cgroup rw,memory\n"
    "33 30 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

TEST(CgroupHost, V2) {
  const auto host = find_cgroup_host(kV2, "0::/system.slice/dgxmm.service\n");
  ASSERT_TRUE(host);
  EXPECT_EQ(host->version, 2);
  EXPECT_EQ(host->mount, "/sys/fs/cgroup");
  EXPECT_EQ(host->own_path, "/system.slice/dgxmm.service");
}

TEST(CgroupHost, AHybridHostHasItsMemoryControllerWithV1) {
  const auto host = find_cgroup_host(kV1, "4:memory:/jobs/7\n0::/\n");
  ASSERT_TRUE(host);
  EXPECT_EQ(host->version, 1);
  EXPECT_EQ(host->mount, "/sys/fs/cgroup/memory");
  EXPECT_EQ(host->own_path, "/jobs/7");
}

TEST(CgroupHost, AControllerThatOnlySoundsLikeMemoryIsNotIt) {
  EXPECT_FALSE(find_cgroup_host("32 30 0:28 / /m rw - cgroup cgroup rw,memory_x\n", "4:memory_x:/\n"));
}

TEST(CgroupHost, NoneWhereNothingIsMounted) {
  EXPECT_FALSE(find_cgroup_host("", "0::/\n"));
  EXPECT_FALSE(find_cgroup_host("garbage\n- - -\n1 2 3 4 5\n", ""));
}

TEST(CgroupHost, APathOutsideTheNamespaceIsNotJoinedToTheMount) {
  EXPECT_EQ(find_cgroup_host(kV2, "0::/../docker-1.scope\n")->own_path, "");
}

TEST(CgroupHost, AMountOfAPartOfTheHierarchyIsTakenIntoAccount) {
  const std::string part = "32 30 0:28 /docker/ab /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
  EXPECT_EQ(find_cgroup_host(part, "4:memory:/docker/ab\n")->own_path, "/");
  EXPECT_EQ(find_cgroup_host(part, "4:memory:/docker/ab/in\n")->own_path, "/in");
  EXPECT_EQ(find_cgroup_host(part, "4:memory:/docker/abc\n")->own_path, "");
}

TEST(CgroupHost, GroupsAreMadeOutsideTheDaemonsOwnFirst) {
  EXPECT_THAT(candidate_parents({.version = 2, .mount = "/c", .own_path = "/user.slice/app.slice/dgxmm.service"}),
              ElementsAre("/dgxmm", "/user.slice/app.slice/dgxmm"));
  EXPECT_THAT(candidate_parents({.version = 1, .mount = "/c", .own_path = "/jobs/7"}),
              ElementsAre("/dgxmm", "/jobs/7/dgxmm"));
  EXPECT_THAT(candidate_parents({.version = 2, .mount = "/c", .own_path = "/"}), ElementsAre("/dgxmm"));
  EXPECT_THAT(candidate_parents({.version = 2, .mount = "/c", .own_path = "/only"}), ElementsAre("/dgxmm"));
  EXPECT_THAT(candidate_parents({.version = 2, .mount = "/c", .own_path = ""}), ElementsAre("/dgxmm"));
}

/// A host made of files: v2, with one group that holds an engine.
class CgroupFiles : public testing::Test {
 protected:
  void SetUp() override {
    put("proc/self/mountinfo", std::string{kV2});
    put("proc/self/cgroup", "0::/user.slice/app.slice/dgxmm.service\n");
    put("sys/fs/cgroup/cgroup.subtree_control", "cpu memory pids\n");
    put("sys/fs/cgroup/dgxmm/cgroup.subtree_control", "memory\n");
    put(group_ + "/memory.stat", "anon 1000\nkernel 200\nshmem 30\nfile 5\n");
    put(group_ + "/memory.events", "low 0\noom 1\noom_kill 2\n");
    put(group_ + "/cgroup.procs", "11\n12\n");
    put(group_ + "/workers/cgroup.procs", "13\n");
  }
  void put(const std::string& path, const std::string& text) const {
    const auto file = folder_.path() / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream{file} << text;
  }

  const std::string group_ = "sys/fs/cgroup/dgxmm/dgxmm-ab-7-0123abcd";
  TemporaryFolder folder_;
};

TEST_F(CgroupFiles, V2IsReadPartByPart) {
  const MemoryCgroups cgroups{folder_.path()};
  const auto memory = cgroups.read({.version = 2, .path = "/dgxmm/dgxmm-ab-7-0123abcd"});
  ASSERT_TRUE(memory);
  EXPECT_EQ(memory->anon, Bytes{1000});
  EXPECT_EQ(memory->kernel, Bytes{200});
  EXPECT_EQ(memory->shmem, Bytes{30});
  EXPECT_EQ(memory->oom_kills, 2);
}

TEST_F(CgroupFiles, MembersAreThoseOfGroupsWithinToo) {
  const MemoryCgroups cgroups{folder_.path()};
  EXPECT_THAT(cgroups.members({.version = 2, .path = "/dgxmm/dgxmm-ab-7-0123abcd"}), ElementsAre(11, 12, 13));
}

TEST_F(CgroupFiles, AGroupThatVanishedIsAbsentAndNotZero) {
  const MemoryCgroups cgroups{folder_.path()};
  EXPECT_FALSE(cgroups.read({.version = 2, .path = "/dgxmm/gone"}));
  EXPECT_TRUE(cgroups.members({.version = 2, .path = "/dgxmm/gone"}).empty());
}

TEST_F(CgroupFiles, AGroupOfTheOtherVersionIsAbsent) {
  const MemoryCgroups cgroups{folder_.path()};
  EXPECT_FALSE(cgroups.read({.version = 1, .path = "/dgxmm/dgxmm-ab-7-0123abcd"}));
}

TEST_F(CgroupFiles, AFolderWithoutAMemoryControllerIsNotUsed) {
  MemoryCgroups cgroups{folder_.path()};  // what it makes here are plain folders
  EXPECT_FALSE(cgroups.create("dgxmm-ab-8"));
  EXPECT_EQ(cgroups.groups("").size(), 1U) << "and nothing is left of the attempt";
}

TEST_F(CgroupFiles, TheNameThatItWasMadeForIsFoundAgain) {
  const MemoryCgroups cgroups{folder_.path()};
  ASSERT_EQ(cgroups.groups("").size(), 1U);
  EXPECT_EQ(cgroups.name_of(cgroups.groups("").front()), "dgxmm-ab-7");
}

TEST_F(CgroupFiles, GroupsAreThoseWhoseNameBeginsWithThePrefix) {
  std::filesystem::create_directories(folder_.path() / "sys/fs/cgroup/dgxmm/dgxmm-abc-7-0123abcd");
  const MemoryCgroups cgroups{folder_.path()};
  EXPECT_THAT(cgroups.groups("dgxmm-ab-"), ElementsAre(Group{.version = 2, .path = "/dgxmm/dgxmm-ab-7-0123abcd"}));
  EXPECT_EQ(cgroups.groups("dgxmm-ab").size(), 2U);
  EXPECT_TRUE(cgroups.groups("dgxmm-b-").empty());
}

TEST_F(CgroupFiles, LeftoversOfAnotherDaemonStay) {
  const auto parent = folder_.path() / "sys/fs/cgroup/dgxmm";
  std::filesystem::create_directories(parent / "dgxmm-ours-1-0123abcd");
  std::filesystem::create_directories(parent / "dgxmm-theirs-1-0123abcd");
  MemoryCgroups{folder_.path()}.remove_leftovers("dgxmm-ours-");
  EXPECT_FALSE(std::filesystem::exists(parent / "dgxmm-ours-1-0123abcd"));
  EXPECT_TRUE(std::filesystem::exists(parent / "dgxmm-theirs-1-0123abcd"));
}

}  // namespace
}  // namespace dgxmm::process
