#pragma once
#include "adapters/docker/container_processes.h"
#include "adapters/docker/docker_client.h"
#include "adapters/net/asio_event_loop.h"
#include "core/container/create.h"
#include "core/host/readings.h"
#include "ports/container_runtime.h"
#include "ports/engine_logs.h"
#include "ports/http_client.h"
#include "ports/memory_groups.h"

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace dgxmm::docker {

struct DockerRuntimeOptions {
  std::string socket = "/var/run/docker.sock";
  bool expected = true;  ///< its absence is worth a warning
  /// What the name of every instance of this daemon begins with, and the label that tells its containers from others'.
  std::string owned_prefix;
  Bytes log_limit = mib(8);          ///< of each of the two files that the engine keeps of a container's log
  std::string network;               ///< of the containers; empty: one of their own, in which none reaches another
  std::filesystem::path root = "/";  ///< where /proc is looked up
  /// The kernel's log as text, for the proof of an OOM kill; empty: it may not be read.
  std::function<std::string()> kernel_log;
  std::chrono::milliseconds call_deadline{10'000};
  std::chrono::milliseconds ping_deadline{3'000};
  std::chrono::milliseconds ping_interval{5'000};
  std::chrono::milliseconds longest_retry{5'000};
  /// How long a pull may go without getting on: layers are checked and unpacked without a word for minutes.
  std::chrono::milliseconds pull_patience{300'000};
  /// One that was made this long ago and never started is left behind by a daemon that was killed.
  std::chrono::milliseconds never_started_limit{60'000};
  /// How long a killed container may take to disappear.
  std::chrono::milliseconds kill_limit{30'000};
};

/// Engines as containers of a Docker Engine, found again by labels and inspect alone. Asked about a moment when the
/// Engine does not answer, it says `unreachable`; it never waits for it but in the calls that return a task, and those
/// have deadlines.
class DockerRuntime final : public ports::ContainerRuntime {
 public:
  /// All of them outlive this object, and it outlives the loop's run().
  DockerRuntime(net::AsioEventLoop& loop, ports::HttpClient& http, const ports::MemoryGroups& groups,
                ports::EngineLogs& logs, DockerRuntimeOptions options);

  /// Connects and keeps connected, until the loop stops. Once.
  void begin();

  ports::Task<Result<container::Image>> provide_image(std::string reference, ports::PullWatcher watcher) override;
  bool is_as_specified(const ports::Instance& instance, const ports::InstanceSpec& spec,
                       const container::Image& image) override;
  ports::Task<Result<ports::Instance>> start(ports::InstanceSpec spec) override;
  ports::Task<Result<std::string>> output_of(std::vector<std::string> arguments, std::chrono::milliseconds deadline,
                                             std::string image) override;
  ports::Presence presence(const ports::Instance& instance) override;
  ports::Task<> until_known() override;
  std::vector<std::pair<std::string, ports::Instance>> find_owned() override;
  ports::Task<ports::ExitStatus> wait(ports::Instance instance) override;
  ports::Task<Result<void>> stop(ports::Instance instance, std::chrono::milliseconds grace) override;
  std::optional<memory::Measured> measure(const ports::Instance& instance,
                                          const std::vector<std::int64_t>& pids) override;
  std::vector<std::int64_t> pids(const ports::Instance& instance) override;
  void forget(const ports::Instance& instance) override;
  void remove_leftovers() override;

  /// Why the Engine cannot be reached; nothing when it can, or nobody has asked it yet.
  [[nodiscard]] const std::optional<Error>& problem() const { return problem_; }
  /// What it said about itself when it was last connected.
  [[nodiscard]] const std::optional<container::EngineInfo>& engine() const { return info_; }

 private:
  enum class Link { unknown, up, down };
  struct LogCopy;
  struct EventStream;
  struct Pull;

  // --- the connection
  ports::Task<> keep_connected();
  ports::Task<Result<void>> connect();
  ports::Task<Result<void>> resynchronise();
  ports::Task<Result<void>> until_connected();
  ports::Task<> serve_connection();
  ports::Task<> follow_events(std::shared_ptr<EventStream> stream);
  ports::Task<Result<void>> look_at_changed();
  ports::Task<Result<void>> refresh(std::string id);
  void set_down(const Error& error);
  void take_in(container::Container container);
  void drop(const std::string& id);
  void changed() { changed_->notify_all(); }

  // --- images
  ports::Task<Result<container::Image>> find_image(std::string reference);
  ports::Task<Result<void>> pull(std::string reference, ports::PullWatcher watcher);
  ports::Task<> run_pull(std::shared_ptr<Pull> pull);

  // --- starting
  [[nodiscard]] std::string network() const;
  [[nodiscard]] Result<container::CreateRequest> request_of(const ports::InstanceSpec& spec,
                                                            const container::Image& image) const;
  ports::Task<Result<std::string>> create(container::CreateRequest request);
  ports::Task<Result<bool>> make_room_for_name(std::string name);
  ports::Task<Result<ports::Instance>> start_created(std::string id, ports::InstanceSpec spec);
  ports::Task<> remove_now(std::string id);
  void remove_never_started();
  ports::Task<> remove_later(std::string id, bool force);
  ports::Task<std::string> whole_log(std::string id);
  ports::Instance instance_of(const container::Container& container) const;

  // --- what is measured
  [[nodiscard]] std::optional<host::CgroupPath> find_group(const container::Container& container) const;
  [[nodiscard]] std::vector<host::ProcessStat> threads_of(const container::Container& container) const;
  /// As it was when it started, or as it is found by now.
  [[nodiscard]] std::optional<host::CgroupPath> group_of(const ports::Instance& instance) const;
  /// Kills its processes without asking Docker, after `patience`, and again until none is left.
  ports::Task<> kill_after(ports::Instance instance, std::chrono::milliseconds patience);
  ports::ExitStatus exit_of(const container::Container& container);

  // --- logs
  void copy_log(const container::Container& container);
  ports::Task<> run_copy(std::shared_ptr<LogCopy> copy);
  ports::Task<> until_copied(std::string id);

  net::AsioEventLoop& loop_;
  const ports::MemoryGroups& groups_;
  ports::EngineLogs& logs_;
  DockerRuntimeOptions options_;
  DockerClient client_;
  ContainerProcesses processes_;
  Link link_ = Link::unknown;
  bool known_ = false;  // connected once: what runs is known
  std::optional<Error> problem_;
  std::optional<container::EngineInfo> info_;
  container::EngineTime listed_at_;                    // events from then on are to be heard
  std::string api_warning_;                            // the last one that was logged
  std::map<std::string, container::Container> owned_;  // by id, as last seen
  std::map<std::string, host::ProcessStat> first_;     // by id: the first process of each that runs
  std::map<std::string, std::int64_t> oom_kills_;      // by id: the group goes with the container
  std::map<std::string, std::shared_ptr<LogCopy>> copies_;
  std::set<std::string> dirty_;     // ids to be looked at again
  std::set<std::string> starting_;  // ids that have been made and are being started
  std::set<std::string> removing_;
  bool leftovers_may_go_ = false;
  std::set<std::string> awaited_;  // ids whose end somebody waits for
  std::unique_ptr<ports::Wakeup> changed_;
  std::unique_ptr<ports::Wakeup> attention_;  // of the task that keeps the connection
};

}  // namespace dgxmm::docker
