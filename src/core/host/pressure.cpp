#include "core/host/readings.h"
#include "core/host/text.h"

#include <optional>
#include <string_view>

namespace dgxmm::host {
namespace {

/// "12.34" percent as 1234 hundredths; the kernel always writes two decimals.
std::optional<std::int64_t> parse_hundredths(std::string_view text) {
  const auto percent = parse_count(take_until(text, '.'));
  const auto hundredths = parse_count(text);
  if (!percent || !hundredths || text.size() != 2 || *percent > 100) return std::nullopt;
  return *percent * 100 + *hundredths;
}

}  // namespace

Pressure parse_pressure(std::string_view text) {
  Pressure pressure;
  while (!text.empty()) {
    auto line = take_until(text, '\n');
    const auto kind = take_until(line, ' ');
    if (kind != "some" && kind != "full") continue;
    auto& target = kind == "some" ? pressure.some_avg10_permyriad : pressure.full_avg10_permyriad;
    while (!line.empty()) {
      auto value = take_until(line, ' ');
      if (take_until(value, '=') == "avg10") target = parse_hundredths(value);
    }
  }
  return pressure;
}

}  // namespace dgxmm::host
