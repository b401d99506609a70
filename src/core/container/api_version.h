#pragma once
#include "base/result.h"

#include <compare>
#include <optional>
#include <string>
#include <string_view>

namespace dgxmm::container {

/// "1.44" of the Engine API. Compared as two numbers: 1.9 is older than 1.10.
struct ApiVersion {
  int major = 0;
  int minor = 0;
  friend auto operator<=>(const ApiVersion&, const ApiVersion&) = default;
};

std::optional<ApiVersion> parse_api_version(std::string_view text);
std::string to_text(ApiVersion version);

/// The version that dgxmm is written for: the oldest that engines of the 29 series take by default.
inline constexpr ApiVersion kWantedApi{1, 44};
/// Below it a container cannot be asked to have its own init, and an engine tells no cgroup version.
inline constexpr ApiVersion kOldestApi{1, 40};

struct ChosenApi {
  ApiVersion version;
  std::string warning;  ///< empty: the wanted one
};

/// The version to speak with an engine that takes `least` to `most` (empty: it does not say): ours if it can, else the
/// nearest that it takes (D17). Errors: `engine_too_old`, `bad_field` when `most` is no version.
Result<ChosenApi> choose_api(std::string_view least, std::string_view most);

}  // namespace dgxmm::container
