#pragma once
// What the tests of this folder share: a loop, a temporary folder, and engines made of /bin/sh.
#include "adapters/process/cgroup.h"
#include "adapters/process/log_file.h"
#include "adapters/process/process_runtime.h"
#include "base/files.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

namespace dgxmm::process {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "dgxmm-test-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// The daemon's own memory cgroup, if groups may be made in it: what a test starts must not leave it.
inline std::optional<std::string> own_cgroup_for_tests() {
  const auto host = find_cgroup_host(read_text_file("/proc/self/mountinfo").value_or(""),
                                     read_text_file("/proc/self/cgroup").value_or(""));
  if (!host) return std::nullopt;
  // In v2 a group with processes in it cannot have groups: one beside ours then.
  const auto base = host->version == 1 ? host->own_path : candidate_parents(*host).back();
  auto parent = fmt::format("{}/dgxmm-test-{}", base == "/" ? "" : base, ::getpid());
  MemoryCgroups probe{"/", parent};
  const auto group = probe.create("probe");
  if (!group) return std::nullopt;
  probe.remove(*group);
  return parent;
}

class ProcessTest : public testing::Test {
 public:
  ~ProcessTest() override {
    for (const auto& instance : started_) {
      const auto stopped = run(runtime_->stop(instance, std::chrono::milliseconds{0}));
      EXPECT_TRUE(stopped) << stopped.error().message;
      runtime_->forget(instance);
    }
    if (cgroup_parent_) {
      const auto host = find_cgroup_host(read_text_file("/proc/self/mountinfo").value_or(""), "");
      ::rmdir((host->mount / std::filesystem::path{*cgroup_parent_}.relative_path()).c_str());
    }
  }

 protected:
  static constexpr std::chrono::seconds kPatience{30};  // of a slow machine; no test waits that long to pass

  void SetUp() override { runtime_ = make_runtime(); }

  /// Groups where `with_cgroup` was asked for, else none: the parent does not exist.
  ProcessRuntimeOptions options() const {
    ProcessRuntimeOptions options;
    options.launcher = DGXMM_TEST_LAUNCHER;
    options.cgroup_parent = cgroup_parent_.value_or("/dgxmm-no-such-group/below");
    return options;
  }
  std::unique_ptr<ProcessRuntime> make_runtime() { return std::make_unique<ProcessRuntime>(loop_, options()); }

  bool with_cgroup() {
    cgroup_parent_ = own_cgroup_for_tests();
    if (cgroup_parent_) runtime_ = make_runtime();
    return cgroup_parent_.has_value();
  }

  template <class T>
  T run(ports::Task<T> task) {
    auto result = boost::asio::co_spawn(loop_, std::move(task), boost::asio::use_future);
    loop_.restart();
    loop_.run();
    return result.get();
  }

  ports::InstanceSpec spec(std::vector<std::string> arguments, std::string name = "engine") const {
    return {.deployment = {1},
            .name = std::move(name),
            .arguments = std::move(arguments),
            .environment = {},
            .log_path = log().string()};
  }
  ports::InstanceSpec shell(const std::string& script) const { return spec({"/bin/sh", "-c", script}); }

  ports::Instance start(ports::InstanceSpec wanted) {
    auto instance = run(runtime_->start(std::move(wanted)));
    if (!instance) throw std::runtime_error(instance.error().message);
    started_.push_back(*instance);
    return *instance;
  }

  std::optional<memory::Measured> measure(const ports::Instance& instance) {
    return runtime_->measure(instance, runtime_->pids(instance));
  }

  /// Waits for something that another process does.
  bool becomes_true(std::function<bool()> condition) { return run(poll(std::move(condition))); }
  /// The same while other tasks, which need not end, run on the loop.
  bool runs_until(const std::function<bool()>& condition) {
    const auto give_up_at = std::chrono::steady_clock::now() + kPatience;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > give_up_at) return false;
      loop_.restart();
      loop_.run_one_for(std::chrono::milliseconds{2});
    }
    return true;
  }
  bool log_has(const std::string& line) {
    return becomes_true([this, line] {
      const auto lines = tail(log(), 1000);
      return std::ranges::find(lines, line) != lines.end();
    });
  }
  [[nodiscard]] std::filesystem::path log() const { return folder_.path() / "engine.log"; }

  boost::asio::io_context loop_;
  TemporaryFolder folder_;
  std::unique_ptr<ProcessRuntime> runtime_;
  std::optional<std::string> cgroup_parent_;

 private:
  ports::Task<bool> poll(std::function<bool()> condition) {
    const auto give_up_at = std::chrono::steady_clock::now() + kPatience;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > give_up_at) co_return false;
      boost::asio::steady_timer timer{loop_, std::chrono::milliseconds{2}};
      co_await timer.async_wait(boost::asio::use_awaitable);
    }
    co_return true;
  }

  std::vector<ports::Instance> started_;
};

}  // namespace dgxmm::process
