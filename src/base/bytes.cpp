#include "base/bytes.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>

namespace dgxmm {
namespace {

__extension__ using Wide = __int128;  // an extension, which -Wpedantic of g++ would refuse unmarked

}  // namespace

Bytes gib_from_decimal(double n) { return Bytes{std::llround(n * 1024.0 * 1024.0 * 1024.0)}; }

Bytes scale_up(Bytes amount, std::int64_t numerator, std::int64_t denominator) {
  const auto product = static_cast<Wide>(amount.count()) * numerator;
  auto quotient = product / denominator;
  if (product % denominator > 0) quotient += 1;
  return Bytes{static_cast<std::int64_t>(quotient)};
}

std::string format_bytes(Bytes amount) {
  const auto count = amount.count();
  if (count > -1024 && count < 1024) return fmt::format("{} B", count);
  // The unit changes where the rounded figure would read "1024.0".
  constexpr double kNextUnit = 1023.95;
  static constexpr std::array<std::string_view, 3> kUnits{"KiB", "MiB", "GiB"};
  auto value = static_cast<double>(count) / 1024.0;
  std::size_t unit = 0;
  while (std::abs(value) >= kNextUnit && unit + 1 < kUnits.size()) {
    value /= 1024.0;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

Result<Bytes> parse_bytes(std::string_view text) {
  const auto bad = [&] {
    return fail("bad_size", fmt::format("'{}' is not a size", text), "write it like 8GiB, 512MiB or a number of bytes");
  };
  double number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc{} || number < 0 || !std::isfinite(number)) return bad();
  std::string_view unit{parsed.ptr, static_cast<std::size_t>(text.data() + text.size() - parsed.ptr)};
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  struct Unit {
    std::string_view name;
    int power;
  };
  static constexpr std::array kUnits{Unit{"", 0},  Unit{"B", 0},   Unit{"KiB", 1}, Unit{"K", 1},   Unit{"MiB", 2},
                                     Unit{"M", 2}, Unit{"GiB", 3}, Unit{"G", 3},   Unit{"TiB", 4}, Unit{"T", 4}};
  for (const auto& [name, power] : kUnits) {
    if (unit != name) continue;
    const double bytes = number * std::pow(1024.0, power);
    if (bytes > 9.0e18) return bad();
    return Bytes{std::llround(bytes)};
  }
  return bad();
}

}  // namespace dgxmm
