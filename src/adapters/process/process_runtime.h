#pragma once
#include "adapters/process/cgroup.h"
#include "adapters/process/process_table.h"
#include "base/files.h"
#include "base/ring.h"
#include "ports/container_runtime.h"

#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace boost::asio {
class io_context;
}

namespace dgxmm::process {

struct ProcessRuntimeOptions {
  /// A binary that hands `launch-engine` to launch_engine().
  std::string launcher = "/proc/self/exe";
  /// Where /proc and the cgroup mounts are looked up.
  std::filesystem::path root = "/";
  /// Where the engines' cgroups are made, below the mount; by default the best place that this host allows.
  std::optional<std::string> cgroup_parent;
  /// What the name of every instance of this daemon begins with. Others on this host belong to other daemons.
  std::string owned_prefix;
  /// Where the modules that engines import are written (0700).
  std::filesystem::path module_folder;
  /// The kernel's log as text, for the proof of an OOM kill where no cgroup counts them; empty: it may not be read.
  std::function<std::string()> kernel_log;
  /// How long a killed process may take to disappear.
  std::chrono::milliseconds kill_limit{30'000};
};

/// Engines as plain processes of this host, each in its own session and, where one may be made, in its own cgroup. They
/// outlive the daemon; their Instance is all that is needed to take them over.
class ProcessRuntime final : public ports::ContainerRuntime {
 public:
  /// Outlived by `loop`.
  ProcessRuntime(boost::asio::io_context& loop, ProcessRuntimeOptions options);

  ports::Task<Result<container::Image>> provide_image(std::string reference, ports::PullWatcher watcher) override;
  bool is_as_specified(const ports::Instance& /*instance*/, const ports::InstanceSpec& /*spec*/,
                       const container::Image& /*image*/) override {
    return true;
  }
  ports::Task<Result<ports::Instance>> start(ports::InstanceSpec spec) override;
  ports::Task<Result<std::string>> output_of(std::vector<std::string> arguments, std::chrono::milliseconds deadline,
                                             std::string image) override;
  ports::Presence presence(const ports::Instance& instance) override;
  ports::Task<> until_known() override;
  std::vector<std::pair<std::string, ports::Instance>> find_owned() override;
  std::vector<std::pair<std::string, ports::Instance>> find_remains() override;
  ports::Task<ports::ExitStatus> wait(ports::Instance instance) override;
  ports::Task<Result<void>> stop(ports::Instance instance, std::chrono::milliseconds grace) override;
  std::optional<memory::Measured> measure(const ports::Instance& instance,
                                          const std::vector<std::int64_t>& pids) override;
  std::vector<std::int64_t> pids(const ports::Instance& instance) override;
  void forget(const ports::Instance& instance) override;
  void remove_leftovers() override;

  /// For the moment the loop stops: whatever waits for an engine returns at once, from now on. The engines go on.
  void end_waits();

 private:
  struct Waits;
  class Listed;
  using Ended = std::pair<ports::Instance, ports::ExitStatus>;

  ports::Task<Result<ports::Instance>> launch(ports::InstanceSpec spec, std::optional<Group> group);
  std::vector<std::pair<std::string, ports::Instance>> find_owned(const std::vector<MarkedMember>& marks);
  ports::Task<bool> ends_before(FileDescriptor pidfd, std::chrono::steady_clock::time_point when);
  ports::Task<> pause(std::chrono::milliseconds duration);
  ports::Task<> pause_beside(const FileDescriptor& pidfd, std::chrono::milliseconds duration);
  void signal_members(const ports::Instance& instance, int signal);
  [[nodiscard]] std::string find_in_kernel_log(const ports::Instance& instance) const;
  ports::ExitStatus collect(const ports::Instance& instance, const FileDescriptor& pidfd);

  boost::asio::io_context& loop_;
  ProcessRuntimeOptions options_;
  MemoryCgroups cgroups_;
  ProcessTable processes_;
  std::shared_ptr<Waits> waits_;
  bool leftovers_removed_ = false;
  std::map<std::int64_t, std::vector<std::int64_t>> trees_;  // of engines without a cgroup, by pid, as last seen
  Ring<Ended> ended_{64};  // a child's status can be fetched only once, and its group may be gone when it is asked for
};

}  // namespace dgxmm::process
