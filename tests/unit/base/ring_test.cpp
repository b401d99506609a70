#include "base/ring.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

namespace dgxmm {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Ring, KeepsTheNewestOldestFirst) {
  Ring<int> ring{3};
  EXPECT_THAT(ring.items(), IsEmpty());
  for (int i = 1; i <= 5; ++i) ring.push(i);
  EXPECT_THAT(ring.items(), ElementsAre(3, 4, 5));
}

TEST(Ring, OfNoCapacityKeepsNothing) {
  Ring<int> ring{0};
  ring.push(1);
  ring.push(2);
  EXPECT_THAT(ring.items(), IsEmpty());
}

TEST(Ring, GoesOnAfterItWasCleared) {
  Ring<int> ring{2};
  for (int i = 1; i <= 3; ++i) ring.push(i);
  ring.clear();
  EXPECT_THAT(ring.items(), IsEmpty());
  for (int i = 4; i <= 6; ++i) ring.push(i);
  EXPECT_THAT(ring.items(), ElementsAre(5, 6));
}

TEST(Ring, TakesValuesThatCannotBeCopied) {
  Ring<std::unique_ptr<int>> ring{1};
  ring.push(std::make_unique<int>(1));
  ring.push(std::make_unique<int>(2));
  ASSERT_EQ(ring.items().size(), 1U);
  EXPECT_EQ(*ring.items().front(), 2);
}

}  // namespace
}  // namespace dgxmm
