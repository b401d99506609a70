#include "core/memory/unattributed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dgxmm::memory {
namespace {

using testing::HasSubstr;

TEST(Unattributed, A13_GpuAndHostMemoryAreToldApartAndNothingCountsTwice) {
  // GiB: 98.695 used, 89.276 of it on the GPU, in a deployment.
  const KnownHolders known{.used = gib_from_decimal(98.695), .managed = gib_from_decimal(89.276)};
  EXPECT_EQ(unattributed(known), gib_from_decimal(98.695) - gib_from_decimal(89.276));
}

TEST(Unattributed, SharedMemoryCountsOnceForTheHost) {
  const KnownHolders known{.used = gib(50),
                           .managed = gib(20),
                           .managed_shmem = gib(4),
                           .external_anon = gib(5),
                           .external_gpu = gib(10),
                           .shmem = gib(6),
                           .hugetlb = gib(8)};
  EXPECT_EQ(unattributed(known), gib(50 - 20 - 5 - 10 - 2 - 8));
}

TEST(Unattributed, B6_ManagedCudaMemoryIsInTheKernelPartOfItsCgroup) {
  EXPECT_EQ(unattributed({.used = gib(100), .managed = gib(40 + 55)}), gib(5));
}

TEST(Unattributed, MuchAndLessThanNothingAreWarnings) {
  EXPECT_FALSE(unattributed_warning(gib(12)));
  EXPECT_THAT(unattributed_warning(gib(12) + Bytes{1}).value(), HasSubstr("belong to no process"));
  EXPECT_FALSE(unattributed_warning(-mib(512)));
  EXPECT_THAT(unattributed_warning(-gib(1)).value(), HasSubstr("counted twice"));
}

}  // namespace
}  // namespace dgxmm::memory
