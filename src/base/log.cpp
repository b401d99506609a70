#include "base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace dgxmm::log {
namespace {

spdlog::logger& sink() {
  static spdlog::logger logger{"dgxmm", std::make_shared<spdlog::sinks::stderr_sink_mt>()};
  return logger;
}

spdlog::level::level_enum to_spdlog(Level level) {
  switch (level) {
    case Level::debug: return spdlog::level::debug;
    case Level::info: return spdlog::level::info;
    case Level::warning: return spdlog::level::warn;
    case Level::error: return spdlog::level::err;
  }
  return spdlog::level::info;
}

}  // namespace

void set_level(Level level) { sink().set_level(to_spdlog(level)); }

void write(Level level, std::string_view message) {
  sink().log(to_spdlog(level), spdlog::string_view_t{message.data(), message.size()});
}

}  // namespace dgxmm::log
