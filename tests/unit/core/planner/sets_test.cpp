#include "core/planner/sets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <tuple>
#include <vector>

namespace dgxmm::planner {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// What each frees, and how much is needed.
struct Case {
  std::vector<int> frees;
  std::vector<bool> busy;
  int needed = 0;
  std::size_t most = 4;

  [[nodiscard]] bool enough(const Members& members) const {
    int sum = 0;
    for (const auto i : members) sum += frees.at(i);
    return sum >= needed;
  }
  [[nodiscard]] std::vector<Members> find() const {
    return find_sets(busy, most, [&](std::span<const std::size_t> m) { return enough({m.begin(), m.end()}); });
  }
};

bool is_minimal(const Case& c, const Members& members) {
  for (std::uint32_t part = 0; part + 1 < (1U << members.size()); ++part) {
    Members fewer;
    for (std::size_t i = 0; i < members.size(); ++i) {
      if ((part >> i & 1U) != 0) fewer.push_back(members[i]);
    }
    if (!fewer.empty() && c.enough(fewer)) return false;
  }
  return true;
}

/// P7 to P9 by trying every subset.
std::vector<Members> by_trying_everything(const Case& c) {
  std::vector<std::tuple<int, std::size_t, Members>> sets;
  for (std::uint32_t chosen = 1; chosen < (1U << c.frees.size()); ++chosen) {
    Members members;
    int busy = 0;
    for (std::size_t i = 0; i < c.frees.size(); ++i) {
      if ((chosen >> i & 1U) == 0) continue;
      members.push_back(i);
      busy += c.busy[i] ? 1 : 0;
    }
    if (members.size() > 3 || !c.enough(members)) continue;
    if (members.size() > 1 && (members.back() >= 8 || !is_minimal(c, members))) continue;
    sets.emplace_back(busy, members.size(), members);
  }
  std::ranges::sort(sets);
  std::vector<Members> result;
  for (const auto& [busy, size, members] : sets) {
    if (result.size() < c.most) result.push_back(members);
  }
  if (!result.empty()) return result;
  Members greedy;
  for (std::size_t i = 0; i < c.frees.size() && !c.enough(greedy); ++i) greedy.push_back(i);
  if (greedy.empty() || !c.enough(greedy)) return {};
  for (auto i = greedy.size(); i-- > 0;) {
    auto fewer = greedy;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    if (c.enough(fewer)) greedy = fewer;
  }
  return {greedy};
}

TEST(Sets, P7_P8_P9_OfAnyCandidatesWhatTryingEverySubsetFinds) {
  std::mt19937 random{20261130};
  const auto upto = [&](int most) { return std::uniform_int_distribution<int>{0, most}(random); };
  int singles = 0, combinations = 0, greedy = 0, none = 0;
  for (int i = 0; i < 3000; ++i) {
    Case c{.needed = 1 + upto(60), .most = static_cast<std::size_t>(3 + upto(1))};
    for (auto n = upto(10); n > 0; --n) {
      c.frees.push_back(1 + upto(upto(1) == 0 ? 6 : 30));
      c.busy.push_back(upto(2) == 0);
    }
    const auto sets = c.find();
    ASSERT_EQ(sets, by_trying_everything(c)) << "case " << i;
    ASSERT_LE(sets.size(), c.most);
    for (const auto& set : sets) {
      ASSERT_TRUE(c.enough(set));
      ASSERT_TRUE(std::ranges::is_sorted(set));
      if (set.size() > 1) {
        ASSERT_TRUE(is_minimal(c, set)) << "case " << i;
      }
      singles += set.size() == 1 ? 1 : 0;
      combinations += set.size() == 2 || set.size() == 3 ? 1 : 0;
      greedy += set.size() > 3 ? 1 : 0;
    }
    none += sets.empty() ? 1 : 0;
  }
  for (const auto seen : {singles, combinations, greedy, none}) EXPECT_GT(seen, 100);
}

TEST(Sets, P7_NeverMoreThanTwoHundredSetsOfEightCandidates) {
  std::size_t most = 0;
  for (int needed = 1; needed <= 81; ++needed) {
    std::set<Members> asked;
    std::size_t count = 0;
    const auto sets = find_sets(std::vector<bool>(8), 4, [&](std::span<const std::size_t> members) {
      ++count;
      int sum = 0;
      for (const auto i : members) sum += static_cast<int>(7 + i % 5);
      return sum >= needed;
    });
    most = std::max(most, count);
  }
  EXPECT_LE(most, 105U);
  EXPECT_GE(most, 92U) << "some of these search everything";
}

TEST(Sets, P7_CombinationsAreOfTheEightBestRanked) {
  Case c{.frees = std::vector<int>(9, 1), .busy = std::vector<bool>(9), .needed = 5};
  c.frees[8] = 4;
  EXPECT_THAT(c.find(), ElementsAre(ElementsAre(0, 1, 2, 3, 4)));
  c.frees[8] = 5;
  EXPECT_THAT(c.find(), ElementsAre(ElementsAre(8))) << "alone it is no combination";
}

TEST(Sets, P8_FewerBusyMembersThenSizeThenRanks) {
  const Case c{.frees = {3, 3, 6, 2, 2, 2}, .busy = {true, false, true, false, false, false}, .needed = 6};
  EXPECT_THAT(c.find(),
              ElementsAre(ElementsAre(1, 3, 4), ElementsAre(1, 3, 5), ElementsAre(1, 4, 5), ElementsAre(3, 4, 5)));
  const Case one{.frees = {3, 3, 6}, .busy = {true, false, true}, .needed = 6};
  EXPECT_THAT(one.find(), ElementsAre(ElementsAre(2), ElementsAre(0, 1)));
}

TEST(Sets, P9_NothingWhenAllTogetherAreNotEnough) {
  EXPECT_THAT((Case{.frees = {1, 2}, .busy = {false, false}, .needed = 4}.find()), IsEmpty());
  EXPECT_THAT((Case{.frees = {}, .busy = {}, .needed = 1}.find()), IsEmpty());
}

}  // namespace
}  // namespace dgxmm::planner
