#pragma once
// A Docker Engine of the test's own: its data, socket, network and containers are gone when the test is over.
#include "adapters/net/asio_event_loop.h"
#include "adapters/net/http_client.h"
#include "e2e/support/environment.h"
#include "e2e/support/subprocess.h"
#include "ports/http_client.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace dgxmm::docker {

/// Why no Docker Engine can be started here; empty when one can.
std::string reason_against_dockerd();

/// A loop on a thread of its own; tasks are run on it from the test's thread.
class LoopThread {
 public:
  LoopThread() : thread_([this] { loop.run(); }) {}
  ~LoopThread() { stop(); }
  LoopThread(const LoopThread&) = delete;
  LoopThread& operator=(const LoopThread&) = delete;

  void stop() {
    loop.stop();
    if (thread_.joinable()) thread_.join();
  }

  /// Returns what the task returns.
  template <class T>
  T run(ports::Task<T> task) {
    auto result = std::make_shared<std::promise<T>>();
    auto future = result->get_future();
    auto holder = std::make_shared<std::optional<ports::Task<T>>>(std::move(task));
    loop.post([this, result, holder] { loop.spawn("a test", finish<T>(std::move(**holder), result)); });
    return future.get();
  }
  /// Runs `work` on the loop's thread and returns its result.
  template <class Work>
  auto on_loop(Work work) {
    std::promise<decltype(work())> result;
    loop.post([&] { result.set_value(work()); });
    return result.get_future().get();
  }

  net::AsioEventLoop loop;

 private:
  template <class T>
  static ports::Task<> finish(ports::Task<T> task, std::shared_ptr<std::promise<T>> result) {
    auto value = co_await std::move(task);
    result->set_value(std::move(value));
  }

  std::thread thread_;
};

class Dockerd {
 public:
  /// Starts it and waits until it answers.
  /// `disk_bytes`: all that it may store; 0: as much as there is.
  explicit Dockerd(std::vector<std::string> options = {}, std::int64_t disk_bytes = 0);
  ~Dockerd();
  Dockerd(const Dockerd&) = delete;
  Dockerd& operator=(const Dockerd&) = delete;

  [[nodiscard]] std::string socket() const { return (folder_.path() / "sock").string(); }
  [[nodiscard]] const std::string& network() const { return network_; }
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_.path(); }
  /// The image of llama.cpp, made from its folder on this machine; its entrypoint is llama-server.
  std::string import_llama_cpp(bool with_entrypoint = true);

  /// An image with a double of vLLM (tests/tools/vllm_double.py) as `vllm`, as its module of a server, and as what
  /// NVIDIA's entrypoint would run. `entrypoint`: as in a Dockerfile, `["vllm", "serve"]`; empty: none.
  std::string import_vllm_double(const std::string& entrypoint);

  void start();
  /// As SIGKILL ends it. Its containers go on.
  void kill();
  [[nodiscard]] bool running() const { return process_ != nullptr; }
  /// Lets nothing of it run, or run again.
  void freeze(bool frozen) const { process_->signal(frozen ? SIGSTOP : SIGCONT); }

  /// Hands an image over to the registry on that port of 127.0.0.1, and drops it here. Returns its name there.
  std::string push_away(const std::string& image, std::uint16_t port);

  /// A call of the test's own, as another user of the Engine makes it.
  ports::HttpReply call(std::string method, std::string path, std::string body = {},
                        std::string type = "application/json");
  /// The id of a new container of somebody else.
  std::string create_foreign(const std::string& name, const std::string& image);

 private:
  [[nodiscard]] bool answers();
  std::string import_image(const std::string& name, const std::string& tar, const std::string& entrypoint);

  e2e::TempDir folder_;
  std::string network_;
  std::string bridge_;
  std::vector<std::string> options_;
  LoopThread loop_;
  net::AsioHttpClient http_{loop_.loop};
  std::unique_ptr<e2e::Subprocess> process_;
};

}  // namespace dgxmm::docker
