#pragma once
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace dgxmm::ports {

/// Tells when something changes in folders.
class FolderWatch {
 public:
  struct Coverage {
    std::size_t added = 0;  ///< not watched before: what changed in them until now was not told
    std::string problem;    ///< why not all of them are watched; empty = all are that exist
  };

  virtual ~FolderWatch() = default;
  /// Calls `changed` on the loop's thread whenever something has changed, or may have. Before the loop runs, once.
  virtual void begin(std::function<void()> changed) = 0;
  /// Watches these folders and no others, each for itself and not for what is below. Blocking: call on the pool, never
  /// two at a time.
  virtual Coverage watch(const std::vector<std::string>& folders) = 0;
};

}  // namespace dgxmm::ports
