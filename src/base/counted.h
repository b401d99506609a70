#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace dgxmm {

/// "1 layer", "3 layers": a count and what is counted, whose plural takes an s.
inline std::string counted(std::int64_t count, std::string_view word) {
  return fmt::format("{} {}{}", count, word, count == 1 ? "" : "s");
}

}  // namespace dgxmm
