#include "core/planner/sets.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

namespace dgxmm::planner {
namespace {

Members first(std::size_t count) {
  Members members(count);
  std::iota(members.begin(), members.end(), std::size_t{0});
  return members;
}

/// The combinations of two and more of the candidates that are not enough alone.
class Combinations {
 public:
  Combinations(Members candidates, const Enough& enough) : candidates_(std::move(candidates)), enough_(enough) {}

  std::vector<Members> minimal() {
    if (candidates_.size() < 2 || !enough_(candidates_)) return {};
    for (std::size_t size = 2; size <= kMostTogether; ++size) extend({}, 0, size);
    return std::move(found_);
  }

 private:
  void extend(const Members& chosen, std::size_t from, std::size_t size) {
    if (chosen.size() == size) {
      // Smaller ones come first, so that one with a member too many contains one that was found.
      const auto is_part = [&](const Members& part) { return std::ranges::includes(chosen, part); };
      if (std::ranges::none_of(found_, is_part) && enough_(chosen)) found_.push_back(chosen);
      return;
    }
    for (auto i = from; i < candidates_.size(); ++i) {
      auto longer = chosen;
      longer.push_back(candidates_[i]);
      extend(longer, i + 1, size);
    }
  }

  Members candidates_;
  const Enough& enough_;
  std::vector<Members> found_;
};

/// P9. `count` candidates are enough together, and no few of them are.
Members greedy(std::size_t count, const Enough& enough) {
  auto members = first(std::min(count, kMostTogether + 1));
  while (members.size() < count && !enough(members)) members.push_back(members.size());
  // The most disruptive ones are dropped first; the last one was needed when it was taken.
  for (auto i = members.size() - 1; i-- > 0;) {
    auto fewer = members;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    if (enough(fewer)) members = std::move(fewer);
  }
  return members;
}

}  // namespace

std::vector<Members> find_sets(const std::vector<bool>& busy, std::size_t most, const Enough& enough) {
  const auto count = busy.size();
  if (count == 0 || !enough(first(count))) return {};
  std::vector<Members> sets;
  Members others;  // not enough alone
  for (std::size_t i = 0; i < count; ++i) {
    if (Members alone{i}; enough(alone)) {
      sets.push_back(std::move(alone));
    } else if (i < kMostInCombinations) {
      others.push_back(i);
    }
  }
  std::ranges::move(Combinations{std::move(others), enough}.minimal(), std::back_inserter(sets));
  if (sets.empty()) return {greedy(count, enough)};

  const auto disruption = [&](const Members& set) {
    return std::tuple{std::ranges::count_if(set, [&](std::size_t i) { return busy[i]; }), set.size(), set};
  };
  std::ranges::sort(sets, {}, disruption);
  if (sets.size() > most) sets.resize(most);
  return sets;
}

}  // namespace dgxmm::planner
