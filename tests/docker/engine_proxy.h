#pragma once
// Stands between a daemon and the real Docker Engine, whose answers can so be late, or lost.
#include "base/files.h"

#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace dgxmm::docker {

class EngineProxy {
 public:
  /// Asked about the first line of each request, on a thread of its own, so it may wait. Nothing: the Engine answers.
  /// Else this is the answer, in its stead; an empty one hangs up.
  using Judge = std::function<std::optional<std::string>(const std::string& request)>;

  /// Listens at `path`; `engine` is the socket behind it.
  EngineProxy(std::string path, std::string engine, Judge judge);
  ~EngineProxy();
  EngineProxy(const EngineProxy&) = delete;
  EngineProxy& operator=(const EngineProxy&) = delete;

  [[nodiscard]] const std::string& socket() const { return path_; }

 private:
  void accept_all();
  void relay(int client);
  int keep(FileDescriptor file);

  std::string path_;
  std::string engine_;
  Judge judge_;
  FileDescriptor listener_;
  std::mutex mutex_;
  std::vector<FileDescriptor> files_;  // open until the end, so that they can be shut down then
  std::vector<std::jthread> threads_;
};

/// Does it ask about one container, by its id? Returns the id, else an empty text.
std::string inspected_id(const std::string& request);

}  // namespace dgxmm::docker
