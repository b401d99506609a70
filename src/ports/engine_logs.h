#pragma once
#include "base/result.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace dgxmm::ports {

/// Follows one engine's log file: whole lines, in order, without ANSI codes; survives trimming.
class LogFollower {
 public:
  virtual ~LogFollower() = default;
  /// The lines written since the last call; a missing file has none.
  virtual std::vector<std::string> read_new() = 0;
};

/// The logs of the engines on disk.
class EngineLogs {
 public:
  virtual ~EngineLogs() = default;
  virtual std::unique_ptr<LogFollower> follow(const std::string& path, bool from_start) = 0;
  virtual std::vector<std::string> tail(const std::string& path, std::size_t lines) = 0;
  /// Adds whole lines, for a runtime whose engines do not write to the file themselves. Errors: `log_unusable`.
  virtual Result<void> append(const std::string& path, std::string_view lines) = 0;
  /// Keeps the newest part when the file is above its limit.
  virtual void trim(const std::string& path) = 0;
  virtual void remove(const std::string& path) = 0;
};

}  // namespace dgxmm::ports
