#pragma once
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>
#include <system_error>

namespace dgxmm {

/// The number that the whole of a text is; nothing when it is anything else, or out of range of the type.
template <class T = std::int64_t>
std::optional<T> parse_number(std::string_view text) {
  T number{};
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc{} || parsed.ptr != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace dgxmm
