#include "core/memory/history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dgxmm::memory {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr WallTime kStart{1'700'000'000'000ms};

HistoryPoint point(std::chrono::milliseconds time, std::int64_t free_mib = 1) {
  HistoryPoint made{.time = kStart + time};
  made.free = mib(free_mib);
  return made;
}

HistoryPoint gap(std::chrono::milliseconds time) { return {.time = kStart + time}; }

TEST(History, APointIsDueOnceAnIntervalHasPassed) {
  History history{10s, 360};
  EXPECT_TRUE(history.is_due(kStart));
  history.add(point(0s));
  EXPECT_FALSE(history.is_due(kStart));
  EXPECT_FALSE(history.is_due(kStart + 9999ms));
  EXPECT_TRUE(history.is_due(kStart + 10s));
}

TEST(History, KeepsAFixedNumberOfTheNewestPoints) {
  History history{10s, 3};
  for (int i = 0; i < 5; ++i) history.add(point(10s * i, i));
  EXPECT_THAT(history.after(0), ElementsAre(point(20s, 2), point(30s, 3), point(40s, 4)));
  EXPECT_EQ(history.count(), 5);
}

TEST(History, WhatWasAddedSinceIsKnownByTheCount) {
  History history{10s, 3};
  EXPECT_THAT(history.after(0), IsEmpty());
  for (int i = 0; i < 5; ++i) history.add(point(10s * i));
  EXPECT_THAT(history.after(4), ElementsAre(point(40s)));
  EXPECT_THAT(history.after(1), SizeIs(3));
  EXPECT_THAT(history.after(5), IsEmpty());
  EXPECT_THAT(history.after(9), IsEmpty());
}

TEST(History, AGapIsAPointThatKnowsNothing) {
  History history{10s, 10};
  history.add(point(0s));
  history.add(point(20s));
  EXPECT_THAT(history.after(0), ElementsAre(point(0s), point(20s))) << "one look that came late is no gap";
  history.add(point(3600s));
  EXPECT_THAT(history.after(2), ElementsAre(gap(30s), point(3600s)));
}

TEST(History, BeginsAnewWhenTheClockIsSetBack) {
  History history{10s, 10};
  history.add(point(0s));
  history.add(point(10s));
  EXPECT_FALSE(history.is_due(kStart + 5s)) << "a clock that is put right by seconds";
  EXPECT_TRUE(history.is_due(kStart - 3600s));
  history.add(point(-3600s));
  EXPECT_THAT(history.after(0), ElementsAre(point(-3600s)));
  EXPECT_THAT(history.after(2), ElementsAre(point(-3600s))) << "whoever has seen the others gets this one alone";
}

}  // namespace
}  // namespace dgxmm::memory
