#pragma once
#include "base/result.h"

#include <optional>
#include <string>

namespace dgxmm::ports {

/// One note on the disk itself of what is under way: a host that freezes takes what only its page cache has with it.
class StartRecord {
 public:
  virtual ~StartRecord() = default;
  /// Returns when the disk has it, in place of what was there. Slow; from any thread, one call at a time. Errors:
  /// `state_unusable`.
  virtual Result<void> write(const std::string& document) = 0;
  /// Nothing when there is none.
  virtual std::optional<std::string> read() = 0;
  virtual void clear() = 0;
};

}  // namespace dgxmm::ports
