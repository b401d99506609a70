#include "core/engine/prometheus.h"

#include <charconv>
#include <cmath>
#include <system_error>

namespace dgxmm::engine {
namespace {

/// What follows a metric's name, without its labels; a label's value may hold braces and spaces.
std::optional<std::string_view> value_text(std::string_view rest) {
  if (rest.starts_with('{')) {
    bool quoted = false;
    std::size_t i = 1;
    for (; i < rest.size() && (quoted || rest[i] != '}'); ++i) {
      if (rest[i] == '"') quoted = !quoted;
      if (rest[i] == '\\') ++i;
    }
    if (i >= rest.size()) return std::nullopt;
    rest.remove_prefix(i + 1);
  } else if (!rest.starts_with(' ') && !rest.starts_with('\t')) {
    return std::nullopt;  // a longer name
  }
  const auto begin = rest.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return std::nullopt;
  return rest.substr(begin);
}

std::optional<std::int64_t> parse_sample(std::string_view text) {
  constexpr double kLargest = 1e12;  // tokens of years; no page is long enough to overflow the sum
  double value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc{} || !std::isfinite(value) || value < 0 || value > kLargest) return std::nullopt;
  return std::llround(value);
}

}  // namespace

std::optional<std::int64_t> sum_samples(std::string_view metrics_text, std::string_view name, std::string_view label) {
  std::optional<std::int64_t> sum;
  while (!metrics_text.empty()) {
    const auto end = metrics_text.find('\n');
    const auto line = metrics_text.substr(0, end);
    metrics_text.remove_prefix(end == std::string_view::npos ? metrics_text.size() : end + 1);
    if (!line.starts_with(name)) continue;
    const auto text = value_text(line.substr(name.size()));
    if (!text || line.find(label) == std::string_view::npos) continue;
    const auto sample = parse_sample(*text);
    if (!sample) return std::nullopt;
    sum = sum.value_or(0) + *sample;
  }
  return sum;
}

std::optional<std::int64_t> sum_metrics(std::string_view metrics_text, std::initializer_list<std::string_view> names) {
  std::optional<std::int64_t> sum;
  for (const auto name : names) {
    if (const auto part = sum_samples(metrics_text, name)) sum = sum.value_or(0) + *part;
  }
  return sum;
}

}  // namespace dgxmm::engine
