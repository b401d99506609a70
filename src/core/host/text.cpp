#include "core/host/text.h"

#include <charconv>
#include <limits>
#include <system_error>

namespace dgxmm::host {

std::string_view take_until(std::string_view& rest, char separator) {
  const auto end = rest.find(separator);
  const auto piece = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  return piece;
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const auto begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

std::optional<std::int64_t> parse_count(std::string_view text) {
  if (text.empty() || text.front() == '-') return std::nullopt;
  std::int64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc{} || parsed.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<Bytes> parse_kib(std::string_view text) {
  text = trim(text);
  if (!text.ends_with("kB")) return std::nullopt;
  text.remove_suffix(2);
  const auto count = parse_count(trim(text));
  if (!count || *count > std::numeric_limits<std::int64_t>::max() / 1024) return std::nullopt;
  return kib(*count);
}

std::optional<std::int64_t> find_flat_value(std::string_view text, std::string_view key) {
  text = text.substr(0, text.rfind('\n') + 1);
  while (!text.empty()) {
    auto value = take_until(text, '\n');
    if (take_until(value, ' ') == key) return parse_count(trim(value));
  }
  return std::nullopt;
}

}  // namespace dgxmm::host
