#pragma once
#include <cstdint>

namespace dgxmm::memory {

// For amounts that are not negative.

/// `a / b`, rounded up.
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// The smallest multiple of `step` that is not below `value`.
constexpr std::int64_t rounded_up(std::int64_t value, std::int64_t step) { return ceil_div(value, step) * step; }

}  // namespace dgxmm::memory
