#pragma once
#include "ports/folder_watch.h"

#include <cstddef>
#include <memory>

namespace boost::asio {
class io_context;
}

namespace dgxmm::modelfs {

/// Folders watched by inotify. Network filesystems and mounts tell nothing: whoever uses it looks by himself too, now
/// and then.
class InotifyWatch final : public ports::FolderWatch {
 public:
  static constexpr std::size_t kMostFolders = 16'384;

  /// `loop` outlives it.
  explicit InotifyWatch(boost::asio::io_context& loop, std::size_t most_folders = kMostFolders);
  ~InotifyWatch() override;
  InotifyWatch(const InotifyWatch&) = delete;
  InotifyWatch& operator=(const InotifyWatch&) = delete;

  void begin(std::function<void()> changed) override;
  Coverage watch(const std::vector<std::string>& folders) override;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace dgxmm::modelfs
