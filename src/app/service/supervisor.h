#pragma once
#include "app/service/deployment_table.h"
#include "app/service/estimates.h"
#include "app/service/sampler.h"
#include "app/service/start_journal.h"
#include "app/service/turn_queue.h"
#include "core/engine/vllm.h"
#include "ports/container_runtime.h"
#include "ports/engine_logs.h"
#include "ports/event_loop.h"
#include "ports/http_client.h"
#include "ports/tcp_ports.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace dgxmm::service {

/// Where this installation keeps its things and how it names them.
struct Identity {
  std::string state_dir;
  std::string boot_id;          ///< of the running kernel: what was started under another one has ended with that
  std::string instance_prefix;  ///< "dgxmm-<digest of the state folder>-"; with the id, unique on the host

  [[nodiscard]] std::string instance_name(DeploymentId id) const;
  [[nodiscard]] std::string log_path(DeploymentId id) const;
};

/// Starts engines, watches them, ends them. It turns what the world reports into events of the state machine; whether
/// something may start is `Admission`'s business.
class Supervisor {
 public:
  struct World {
    ports::ContainerRuntime& runtime;
    ports::HttpClient& http;
    ports::EngineLogs& logs;
    ports::TcpPorts& tcp_ports;
    ports::EventLoop& loop;
    Clock& clock;
    bool gpu_present = false;  ///< containers are to get it
  };

  Supervisor(World world, DeploymentTable& table, EventLog& events, Sampler& sampler, Estimates& estimates,
             StartJournal& start_journal, const settings::Settings& settings, Identity identity);

  /// Starts a deployment that is `starting`; returns at once.
  void start(DeploymentId id);

  /// Ends it and returns when its memory is back, measurably. Errors: `deployment_not_found`, `still_running`,
  /// `memory_not_released` (says what is still held, and by whom).
  ports::Task<Result<void>> stop(DeploymentId id);

  /// Puts a ready deployment to sleep, level 1 or 2, and returns when it sleeps. Requests in flight are finished first
  /// when `force` is set, and refuse it otherwise. Errors: `deployment_not_found`, `cannot_sleep` (not an engine that
  /// can), `not_ready`, `busy`, `sleep_failed` (the engine would not; then it still serves, or it is `unknown`).
  ports::Task<Result<void>> sleep(DeploymentId id, int level, bool force);

  /// Asks one that serves whether requests are in flight. Errors: `busy`, also when it does not say; none for one that
  /// does not serve.
  ports::Task<Result<void>> check_idle(DeploymentId id);

  /// Wakes one that `Admission::admit_wake` let through; returns at once. It becomes ready; or sleeps again when the
  /// host has no room for its cache by then; or fails.
  void wake(DeploymentId id);

  /// Returns when it is ready, or has ended, or when `give_up` says yes: it is asked again with every event.
  ports::Task<> settle(DeploymentId id, std::function<bool()> give_up = {});
  /// Those that wait for others to load.
  TurnQueue& starts() { return starts_; }
  [[nodiscard]] const TurnQueue& starts() const { return starts_; }

  /// After a restart of the daemon: finds the engines again that were running, and goes on with each (adopted, never
  /// restarted); marks those that ended meanwhile.
  /// What only a container's engine can tell goes on beside, when that answers.
  void reconcile();

  /// A line of an engine's log as it is shown: masked; nothing for one that our own questions leave there.
  static std::optional<std::string> shown_line(std::string_view line);
  /// The last such lines of its log.
  std::vector<std::string> log_tail(DeploymentId id, std::size_t lines);
  /// What became of everything that an earlier daemon had started is known, containers included.
  [[nodiscard]] bool all_known();
  [[nodiscard]] const Identity& identity() const { return identity_; }
  ports::EngineLogs& logs() { return world_.logs; }

 private:
  /// One start of one deployment: a watcher that wakes up and finds another generation leaves it alone.
  struct Watch {
    DeploymentId id;
    std::int64_t generation = 0;
  };

  /// What a start depends on beside the deployment, and takes time to find out.
  struct Surroundings {
    std::set<std::string, std::less<>> flags;  ///< that the engine's build knows; empty: not asked
    std::optional<container::Image> image;     ///< of a container
    std::vector<ports::LinkedFile> links;      ///< outside of the model's folder, for a container
  };

  [[nodiscard]] Deployment* current(Watch watch);
  void watch_instance(Deployment& deployment, bool read_log_from_start);
  [[nodiscard]] engine::LaunchSpec launch_spec(const Deployment& deployment, const Surroundings& surroundings) const;
  /// Takes over what a start's log says of the host's memory.
  static void note_first_look(Deployment& deployment, const engine::LogReader& reader);
  [[nodiscard]] std::optional<Bytes> most_taken_first() const;
  [[nodiscard]] const std::string& executable_of(const Deployment& deployment) const;
  ports::Task<> run_start(Watch watch);
  ports::Task<Result<std::optional<container::Image>>> provide_image(Watch watch);
  bool note_pull(Watch watch, const std::string& phase);
  ports::Task<Surroundings> look_around(Watch watch, std::optional<container::Image> image);
  void start_failed(Deployment& deployment, const Error& error);
  /// D8: compares the container that runs with what a start would make now.
  ports::Task<> check_outdated(Watch watch);
  ports::Task<> watch_exit(Watch watch, ports::Instance instance);
  ports::Task<> watch_engine(Watch watch, bool read_log_from_start);
  ports::Task<> calibrate(Watch watch);
  void set_instance(Deployment& deployment, ports::Instance instance) const;
  /// Started before the host was; so it has ended.
  [[nodiscard]] bool is_of_earlier_boot(const ports::Instance& instance) const;
  /// Is it on its way to `ready`? Also when nobody can say at the moment whether it still runs.
  [[nodiscard]] bool is_coming_up(const Deployment& deployment) const;
  void begin_stopping(const Deployment& deployment);
  ports::Task<> finish_stopping(DeploymentId id);
  /// What an engine held before it was stopped, and how much was left on the host then.
  struct Held {
    ports::Instance instance;
    std::vector<std::int64_t> pids;
    std::optional<memory::Measured> measured;
    std::optional<Bytes> available;  ///< MemAvailable
    Bytes others;                    ///< what the other deployments held
  };
  Held look_before_stopping(const Deployment& deployment);
  Bytes held_by_others(DeploymentId id) const;
  /// Nothing when it is back; else what is not, and who has it.
  std::optional<std::string> still_held(DeploymentId id, const Held& before);
  void end_unasked(Deployment& deployment, deployment::Event event, Failure failure, const Result<void>& stopped);
  enum class Serving { no, yes, wants_key };
  ports::Task<Serving> serves_model(std::uint16_t port, std::string served_name);
  ports::Task<> poll_activity(Watch watch);
  void note_idle(Deployment& deployment);
  /// Returns when it is no longer loading; ends it when it would take the host down with it.
  ports::Task<> guard_start(Watch watch);
  /// Why nobody can say at the moment whether it works; empty when somebody can.
  [[nodiscard]] std::string why_unknown(const Deployment& deployment);
  ports::Task<bool> says_unhealthy(Watch watch);
  /// Ends one that will not serve, or not any more.
  ports::Task<> end_failing(Watch watch, deployment::Event event, Failure failure, std::chrono::milliseconds grace);
  ports::Task<std::set<std::string, std::less<>>> supported_flags(std::string executable,
                                                                  std::optional<container::Image> image);
  bool move_to_another_port(Deployment& deployment);
  [[nodiscard]] ports::InstanceSpec spec_of(const Deployment& deployment, const Surroundings& surroundings) const;

  // adoption.cpp
  void adopt(Deployment& deployment);
  void ask_after(Deployment& deployment);
  ports::Task<> learn_end(Watch watch, ports::Instance instance);
  void report_unknown(const std::string& name, const ports::Instance& instance);
  /// Of a container that is a deployment's, where it publishes another port than was stored: it is the one that serves.
  void take_over_port(const ports::Instance& instance);
  ports::Task<> reconcile_containers();
  ports::Task<> guard_adopted_start(Watch watch);

  // sleeping.cpp
  ports::Task<> run_sleep(Watch watch, int level, std::shared_ptr<Result<void>> outcome);
  ports::Task<Result<void>> fall_asleep(Watch watch, int level);
  /// It sleeps, whoever put it to sleep. `freed`: by what was measured, if it was.
  void slept(Deployment& deployment, int level, std::optional<Bytes> freed);
  /// Nothing when a part of it is not known.
  std::optional<Bytes> held_by(const Deployment& deployment);
  /// What the engine's allocator says that it gave back when it last fell asleep.
  std::optional<Bytes> freed_by_log(const Deployment& deployment);
  ports::Task<> run_wake(Watch watch);
  ports::Task<Result<void>> wake_by_parts(Watch watch);
  ports::Task<> wake_failed(Watch watch, Error error);
  /// One that does not answer may be dying, and closes its connections first: waits a moment for its end, which says
  /// more. Null when there is nothing more to be done about it.
  ports::Task<Deployment*> after_its_end(Watch watch);
  /// Makes one of the calls that control the engine.
  ports::Task<Result<void>> post(Watch watch, engine::EngineCall call, std::chrono::milliseconds deadline);
  /// Does it refuse such a call without its secret? Nothing: it gives no answer yet.
  ports::Task<std::optional<bool>> is_guarded(Watch watch);
  /// 0: awake. Nothing: it does not say, or lets requests wait without sleeping.
  ports::Task<std::optional<int>> ask_sleep_level(Watch watch);
  void record_sleep_time(const Deployment& deployment, planner::Action action, int level, SteadyTime begun);
  /// Takes over what somebody else's call did.
  void note_sleep(Deployment& deployment);
  void became_ready(Deployment& deployment, const engine::LogReader& reader);
  [[nodiscard]] std::chrono::milliseconds loading_limit(const Deployment& deployment) const;
  [[nodiscard]] Failure describe_end(Deployment& deployment, const ports::ExitStatus& status);

  World world_;
  DeploymentTable& table_;
  EventLog& events_;
  Sampler& sampler_;
  Estimates& estimates_;
  StartJournal& start_journal_;
  const settings::Settings& settings_;
  Identity identity_;
  TurnQueue starts_;  ///< one at a time: an engine that sizes itself sees the whole host
  std::set<DeploymentId> being_started_;
  std::set<DeploymentId> being_stopped_;
  std::set<DeploymentId> asked_after_;  ///< found ended by a new daemon, which asks how
  bool containers_known_ = false;
  std::set<DeploymentId> changing_sleep_;  ///< falling asleep or waking up by our own call
  std::map<DeploymentId, std::shared_ptr<engine::LogReader>> readers_;
  std::map<DeploymentId, SteadyTime> last_answer_;                             ///< of a serving engine
  std::map<std::string, std::set<std::string, std::less<>>> flags_of_images_;  ///< by the image's id
};

}  // namespace dgxmm::service
