#include "core/container/api_version.h"

#include "base/masking.h"
#include "base/numbers.h"

#include <fmt/format.h>

#include <algorithm>

namespace dgxmm::container {

std::optional<ApiVersion> parse_api_version(std::string_view text) {
  const auto point = text.find('.');
  if (point == std::string_view::npos) return std::nullopt;
  const auto major_number = parse_number<int>(text.substr(0, point));
  const auto minor_number = parse_number<int>(text.substr(point + 1));
  if (!major_number || !minor_number || *major_number < 0 || *minor_number < 0) return std::nullopt;
  return ApiVersion{*major_number, *minor_number};
}

std::string to_text(ApiVersion version) { return fmt::format("{}.{}", version.major, version.minor); }

Result<ChosenApi> choose_api(std::string_view least, std::string_view most) {
  const auto newest = parse_api_version(most);
  if (!newest) return fail("bad_field", fmt::format("Api-Version: expected a version, not '{}'", printable(most)));
  if (*newest < kOldestApi) {
    return fail(
        "engine_too_old",
        fmt::format("the Docker Engine speaks API {} at most, dgxmm needs {}", to_text(*newest), to_text(kOldestApi)),
        "install Docker 19.03 or newer");
  }
  const auto oldest = parse_api_version(least).value_or(ApiVersion{});
  ChosenApi chosen{.version = std::max(std::min(kWantedApi, *newest), oldest), .warning = {}};
  if (chosen.version != kWantedApi) {
    chosen.warning = fmt::format("the Docker Engine takes API {} to {}; dgxmm is written for {} and uses {}",
                                 oldest == ApiVersion{} ? "?" : to_text(oldest), to_text(*newest), to_text(kWantedApi),
                                 to_text(chosen.version));
  }
  return chosen;
}

}  // namespace dgxmm::container
