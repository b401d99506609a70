#include "base/clock.h"

#include <fmt/format.h>

#include <ctime>

namespace dgxmm {

std::string format_time(WallTime time) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
  const auto fraction = (time - seconds).count();
  const std::time_t unix_time = std::chrono::system_clock::to_time_t(seconds);
  std::tm parts{};
  gmtime_r(&unix_time, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec, fraction);
}

}  // namespace dgxmm
