#pragma once
// Scripted forms of the ports: what the world does is said by the test, and what was asked of it can be looked up.
#include "ports/container_names.h"
#include "ports/container_runtime.h"
#include "ports/engine_logs.h"
#include "ports/folder_watch.h"
#include "ports/gpu_probe.h"
#include "ports/host_probe.h"
#include "ports/http_client.h"
#include "ports/memory_groups.h"
#include "ports/model_files.h"
#include "ports/start_record.h"
#include "ports/store.h"
#include "ports/tcp_ports.h"
#include "unit/app/support/simulated_loop.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace dgxmm::testing {

/// A store in memory whose writes can be made to fail, as on a full disk.
class MemoryStore final : public ports::Store {
 public:
  bool fail_writes = false;

  DeploymentId add_deployment(const std::string& name, const std::string& document) override;
  void update_deployment(const ports::StoredDeployment& deployment) override;
  void remove_deployment(DeploymentId id) override;
  std::vector<ports::StoredDeployment> deployments() override;
  std::int64_t add_event(const ports::StoredEvent& event) override;
  std::vector<ports::StoredEvent> events_after(std::int64_t id, std::size_t limit) override;
  std::int64_t last_event_id() override { return last_event_; }
  std::int64_t add_operation(const std::string& document) override;
  void update_operation(const ports::StoredOperation& operation) override;
  void remove_operation(std::int64_t id) override;
  std::vector<ports::StoredOperation> operations() override;
  void add_calibration(const memory::CalibrationRecord& record) override;
  std::vector<memory::CalibrationRecord> calibrations() override { return calibrations_; }
  void put_oom_floor(const memory::OomFloor& floor) override;
  std::vector<memory::OomFloor> oom_floors() override { return floors_; }
  void put_sleep_record(const memory::SleepRecord& record) override;
  std::vector<memory::SleepRecord> sleep_records() override { return sleep_records_; }
  void put_duration(const planner::DurationRecord& record) override;
  std::vector<planner::DurationRecord> durations() override { return durations_; }
  void forget(const ports::Learned& those) override;

 private:
  void write() const;

  std::map<DeploymentId, ports::StoredDeployment> deployments_;
  std::map<std::int64_t, std::string> operations_;
  std::vector<ports::StoredEvent> events_;
  std::vector<memory::CalibrationRecord> calibrations_;
  std::vector<memory::OomFloor> floors_;
  std::vector<memory::SleepRecord> sleep_records_;
  std::vector<planner::DurationRecord> durations_;
  std::int64_t last_deployment_ = 0;
  std::int64_t last_event_ = 0;
  std::int64_t last_operation_ = 0;
};

class FakeStartRecord final : public ports::StartRecord {
 public:
  std::optional<std::string> document;
  bool dead = false;  ///< whoever writes has been killed
  bool fail_writes = false;

  Result<void> write(const std::string& text) override {
    if (fail_writes) return fail("state_unusable", "the disk is full");
    document = text;
    return {};
  }
  std::optional<std::string> read() override { return document; }
  void clear() override {
    if (!dead) document.reset();
  }
};

class FakeEngineLogs final : public ports::EngineLogs {
 public:
  std::map<std::string, std::vector<std::string>> files;

  std::unique_ptr<ports::LogFollower> follow(const std::string& path, bool from_start) override;
  std::vector<std::string> tail(const std::string& path, std::size_t lines) override;
  Result<void> append(const std::string& path, std::string_view lines) override;
  void trim(const std::string& path) override { static_cast<void>(path); }
  void remove(const std::string& path) override { files.erase(path); }
};

/// How an engine behaves that is started.
struct EngineScript {
  std::optional<Error> start_error;
  int start_errors = 1000;  ///< how often, before it starts after all
  std::chrono::milliseconds start_takes{10};
  std::chrono::milliseconds start_returns_after{0};  ///< it exists already, and the daemon has not heard of it yet
  std::chrono::milliseconds loading_takes{3000};
  enum class Answers {
    normally,
    never,  ///< accepts connections and says nothing
    refuses,
    as_another,  ///< serves a model of another name
    with_a_key,  ///< to those alone who have one
  } answers = Answers::normally;
  std::int64_t requests = 0;   ///< being worked on
  std::int64_t work_done = 0;  ///< tokens of all requests so far
  bool healthy = true;         ///< by its own word; its metrics answer all the same
  memory::Measured holds{.anon = gib(6), .kernel = mib(8), .shmem = Bytes{0}, .gpu = Bytes{0}};
  std::chrono::milliseconds dies_after{-1};  ///< negative: never
  ports::ExitStatus death{.exit_code = 1, .signal = {}, .evidence = {}};
  std::vector<std::string> log;
  std::chrono::milliseconds stop_takes{100};
  bool survives_stop = false;  ///< stuck in the kernel
  /// What MemAvailable lacks until so long after its end, though nobody has it any more; the latest entry last.
  std::vector<std::pair<std::chrono::milliseconds, Bytes>> driver_keeps;
  std::chrono::milliseconds memory_lingers{0};  ///< between its end and the return of what it held

  // Of vLLM that may sleep:
  bool guarded = true;  ///< its calls for that are kept for who knows its secret
  memory::Measured holds_asleep{.anon = gib(5), .kernel = mib(8), .shmem = Bytes{0}, .gpu = Bytes{0}};
  std::chrono::milliseconds sleep_takes{500};
  std::chrono::milliseconds wake_takes{1000};  ///< each part
  enum class Calls { obeyed, refused, never_answered, deadly } sleep_calls = Calls::obeyed, wake_calls = Calls::obeyed;
};

/// The engines of the simulated host: they live on when the daemon is killed.
class FakeRuntime final : public ports::ContainerRuntime {
 public:
  struct Engine {
    ports::InstanceSpec spec;
    ports::Instance instance;
    EngineScript script;
    SteadyTime started;
    std::optional<SteadyTime> ended;
    ports::ExitStatus status;
    int stops = 0;
    int sleep_level = 0;
    std::set<std::string> asleep;          ///< its parts
    std::vector<std::string> sleep_calls;  ///< that were made, in their order
  };

  FakeRuntime(ManualClock& clock, FakeEngineLogs& logs) : clock_(clock), logs_(logs) {}

  EngineScript next;  ///< of the engines started from now on
  bool start_throws = false;
  bool containers_answer = true;  ///< the engine that runs the containers, not they themselves
  /// Of the images that are asked for.
  struct Images {
    std::map<std::string, std::string> ids;  ///< by name; the others have one that is made from their name
    std::vector<std::string> entrypoint{"/app/llama-server"};
    std::chrono::milliseconds pull_takes{0};  ///< 0: they are here
    std::optional<Error> error;
    bool as_specified = true;
  } images;
  int pulls_broken_off = 0;
  bool killed_without_docker = false;  ///< a stop ends a container although Docker does not answer
  std::string boot_id = "boot";
  /// All engines end, and another kernel runs. While no daemon does.
  void reboot();

  /// The daemon that uses it now.
  void attach(SimulatedLoop& loop);
  void detach();

  [[nodiscard]] Engine& engine(std::int64_t pid) { return engines_.at(pid); }
  /// All that were ever started, oldest first.
  [[nodiscard]] std::vector<Engine*> engines();
  /// The newest that was started for this deployment, or null.
  [[nodiscard]] Engine* newest(DeploymentId id);
  [[nodiscard]] std::size_t running_count();
  [[nodiscard]] Engine* listening_on(std::uint16_t port);
  /// Ends it, as if by itself.
  void end(std::int64_t pid, ports::ExitStatus status);
  [[nodiscard]] Bytes held();
  /// What has ended and the driver has not given back.
  [[nodiscard]] Bytes kept_by_driver() const;

  ports::Task<Result<container::Image>> provide_image(std::string reference, ports::PullWatcher watcher) override;
  bool is_as_specified(const ports::Instance& instance, const ports::InstanceSpec& spec,
                       const container::Image& image) override;
  ports::Task<Result<ports::Instance>> start(ports::InstanceSpec spec) override;
  ports::Task<Result<std::string>> output_of(std::vector<std::string> arguments, std::chrono::milliseconds deadline,
                                             std::string image) override;
  ports::Task<> until_known() override;
  ports::Presence presence(const ports::Instance& instance) override;
  std::vector<std::pair<std::string, ports::Instance>> find_owned() override;
  ports::Task<ports::ExitStatus> wait(ports::Instance instance) override;
  ports::Task<Result<void>> stop(ports::Instance instance, std::chrono::milliseconds grace) override;
  std::optional<memory::Measured> measure(const ports::Instance& instance,
                                          const std::vector<std::int64_t>& pids) override;
  std::vector<std::int64_t> pids(const ports::Instance& instance) override {
    std::vector<std::int64_t> all{instance.pid};
    all.insert(all.end(), more_pids.begin(), more_pids.end());
    return all;
  }
  std::vector<std::int64_t> more_pids;  ///< of every instance
  void forget(const ports::Instance& instance) override { forgotten.insert(instance.pid); }
  /// The proof of an end that nobody has asked about goes with them.
  void remove_leftovers() override;

  std::set<std::int64_t> forgotten;

 private:
  void let_die();
  [[nodiscard]] std::string id_of_image(const std::string& reference) const;
  static bool is_same(const Engine& engine, const ports::Instance& instance);

  ManualClock& clock_;
  FakeEngineLogs& logs_;
  SimulatedLoop* loop_ = nullptr;
  std::unique_ptr<ports::Wakeup> changed_;
  std::map<std::int64_t, Engine> engines_;
  std::int64_t last_pid_ = 1000;
};

/// Answers as the engine on that port would.
class FakeHttpClient final : public ports::HttpClient {
 public:
  FakeHttpClient(FakeRuntime& runtime, ManualClock& clock, SimulatedLoop& loop)
      : runtime_(runtime),
        clock_(clock),
        loop_(loop) {}

  ports::Task<Result<ports::HttpReply>> call(ports::HttpCall request) override;
  ports::Task<Result<ports::HttpReply>> stream(ports::HttpCall request,
                                               std::function<bool(std::string_view)> on_piece) override;

 private:
  /// A call that makes an engine sleep or wake up, or asks whether it sleeps.
  ports::Task<Result<ports::HttpReply>> sleep_call(std::int64_t pid, ports::HttpCall request);

  FakeRuntime& runtime_;
  ManualClock& clock_;
  SimulatedLoop& loop_;
};

/// A host whose memory is what its engines and some others hold.
class FakeHostProbe final : public ports::HostProbe {
 public:
  explicit FakeHostProbe(FakeRuntime& runtime) : runtime_(runtime) {}

  Bytes mem_total = gib(64);
  Bytes held_by_others = gib(4);
  Bytes held_by_the_kernel;
  std::optional<Bytes> unlisted;               ///< what /proc/meminfo leaves out; absent: its lines are missing
  std::optional<Bytes> page_cache;             ///< absent: MemFree is missing
  std::optional<Bytes> swap_total, swap_used;  ///< absent: their lines are missing
  bool broken = false;
  int readings = 0;  ///< of the memory, so far

  Result<host::Meminfo> meminfo() override;
  host::Pressure pressure() override { return pressed; }
  std::optional<host::SwapCounters> swap_counters() override { return swapped; }
  host::ExaminedHost examined() override { return facts; }
  host::ProcessList processes(std::size_t limit, const std::vector<std::int64_t>& exclude_pids,
                              const host::GpuReading& gpu) override;
  std::vector<host::ProcessRow> rows_of(const std::vector<std::int64_t>& pids, const host::GpuReading& gpu) override;
  std::optional<host::OwnerlessList> ownerless_memory() override { return ownerless; }
  bool has_nvidia_driver() override { return false; }

  std::vector<std::int64_t> last_excluded;
  host::Pressure pressed;
  std::optional<host::SwapCounters> swapped;
  host::ExaminedHost facts = healthy_facts();  ///< what is read once a minute
  std::vector<host::ProcessRow> rows;          ///< of processes that use the GPU and are no engines
  std::vector<host::ProcessGroup> groups;      ///< beside the others' one process, which is in no unit
  std::vector<std::pair<std::int64_t, host::GroupOwner>> left_out;
  std::optional<host::OwnerlessList> ownerless = host::OwnerlessList{};
  Bytes shmem;

 private:
  static host::ExaminedHost healthy_facts();

  FakeRuntime& runtime_;
};

/// A GPU whose processes are the engines, with the GPU part of what they hold, and some others.
class FakeGpuProbe final : public ports::GpuProbe {
 public:
  explicit FakeGpuProbe(FakeRuntime& runtime) : runtime_(runtime) {}

  host::GpuReading reading;  ///< without the engines

  host::GpuReading latest() override;

 private:
  FakeRuntime& runtime_;
};

/// Groups by their path; those that are not here cannot be read.
class FakeMemoryGroups final : public ports::MemoryGroups {
 public:
  std::map<std::string, host::CgroupMemory> groups;

  std::optional<host::CgroupMemory> read(const host::CgroupPath& group) const override;
  std::vector<std::int64_t> members(const host::CgroupPath& group) const override;
  void kill(const host::CgroupPath& group) const override { static_cast<void>(group); }
};

class FakeContainerNames final : public ports::ContainerNames {
 public:
  Result<std::vector<container::ListedContainer>> answer = std::vector<container::ListedContainer>{};

  ports::Task<Result<std::vector<container::ListedContainer>>> running() override;
};

class FakeModelFiles final : public ports::ModelFiles {
 public:
  std::map<std::string, model::ModelDescription> models;  ///< by path
  std::map<std::string, model::Projector> projectors;     ///< by path
  ports::Catalog catalog;
  int scans = 0;
  std::function<void()> on_scan = [] {};  ///< while the disk is read

  Result<model::ModelDescription> describe(const std::string& path) override;
  Result<model::Projector> describe_projector(const std::string& path) override;
  std::vector<ports::LinkedFile> linked_files(const std::string& folder) override;
  ports::Catalog scan(const std::vector<ports::SearchedFolder>& folders) override;
  std::vector<ports::CatalogEntry> quantizations_of(const model::ModelDescription& model,
                                                    const std::vector<ports::SearchedFolder>& folders) override;

  std::map<std::string, std::vector<ports::LinkedFile>> links;  ///< by folder
};

/// A watch that tells what the test lets it.
class FakeFolderWatch final : public ports::FolderWatch {
 public:
  std::set<std::string> watched;
  std::string problem;  ///< why it watches nothing
  std::function<void()> changed;

  void begin(std::function<void()> tell) override { changed = std::move(tell); }
  Coverage watch(const std::vector<std::string>& folders) override;
};

class FakeTcpPorts final : public ports::TcpPorts {
 public:
  std::set<std::uint16_t> taken;  ///< by other programs
  std::set<std::uint16_t> held;

  Result<std::uint16_t> hold(std::optional<std::uint16_t> wanted) override;
  void release(std::uint16_t port) override { held.erase(port); }

 private:
  std::uint16_t next_ = 40000;
};

/// A dense GGUF model of 4 GiB whose f16 cache takes 128 KiB a token.
model::ModelDescription small_model(const std::string& path);

}  // namespace dgxmm::testing
