#pragma once
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

// Which deployments have to give way together (P7 to P9), whatever giving way means.
namespace dgxmm::planner {

/// Places in the order of rank, ascending.
using Members = std::vector<std::size_t>;

/// Whether a set frees enough. Monotone: what is enough stays enough with a further member.
using Enough = std::function<bool(std::span<const std::size_t>)>;

inline constexpr std::size_t kMostTogether = 3;        ///< P7: members of a combination
inline constexpr std::size_t kMostInCombinations = 8;  ///< P7: the best-ranked candidates that combinations are made of

/// The sets to offer, least disruptive first: those that are enough alone and the minimal combinations, ordered by
/// their number of busy members, then size, then ranks (P8); at most `most`. When there is none, the greedy set in the
/// order of rank, without members that are not needed (P9); nothing when even all together are not enough.
/// `busy` has one entry a candidate, in the order of rank. Of eight candidates it asks for no more than 105 sets.
std::vector<Members> find_sets(const std::vector<bool>& busy, std::size_t most, const Enough& enough);

}  // namespace dgxmm::planner
