#include "adapters/nvml/nvml_probe.h"

#include "adapters/nvml/nvml_library.h"
#include "base/files.h"
#include "base/numbers.h"
#include "core/host/readings.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace dgxmm::nvml {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr std::int64_t kLargestPidMax = 4'194'304;  // include/linux/threads.h, PID_MAX_LIMIT

std::string link_text(const fs::path& link) {
  std::error_code unreadable;
  return fs::read_symlink(link, unreadable).string();
}

/// What the host's /proc says, beside NVML.
class Proc {
 public:
  explicit Proc(const fs::path& root) : folder_(root / "proc") {}

  [[nodiscard]] std::optional<std::uint64_t> start_time_of(std::int64_t pid) const {
    const auto stat = host::parse_proc_stat(read_text_file(folder_ / std::to_string(pid) / "stat").value_or(""));
    return stat ? std::optional{stat->start_time_ticks} : std::nullopt;
  }
  [[nodiscard]] std::int64_t pid_max() const {
    const auto text = read_text_file(folder_ / "sys/kernel/pid_max").value_or("");
    return parse_number(std::string_view{text}.substr(0, text.find('\n'))).value_or(kLargestPidMax);
  }
  [[nodiscard]] std::uint64_t ticks_since_boot() const {
    const auto text = read_text_file(folder_ / "uptime").value_or("");
    const auto seconds = parse_number<double>(std::string_view{text}.substr(0, text.find(' ')));
    // Nobody can have started later than that.
    if (!seconds || *seconds < 0) return UINT64_MAX;
    return static_cast<std::uint64_t>(*seconds * static_cast<double>(::sysconf(_SC_CLK_TCK))) + 1;
  }
  [[nodiscard]] Bytes mem_total() const {
    const auto meminfo = host::parse_meminfo(read_text_file(folder_ / "meminfo").value_or(""));
    return meminfo ? meminfo->mem_total : Bytes{};
  }
  [[nodiscard]] std::string namespace_problem() const {
    return host::pid_namespace_problem(read_text_file(folder_ / "self/status").value_or(""),
                                       link_text(folder_ / "self/ns/pid"), link_text(folder_ / "1/ns/pid"));
  }

 private:
  fs::path folder_;
};

}  // namespace

/// Outlives the probe when its thread hangs in a call.
struct NvmlProbe::Shared {
  Shared(NvmlOptions the_options, const Clock& clock)
      : options(std::move(the_options)),
        proc(options.root),
        now([&clock] { return clock.steady(); }) {}

  void run();
  [[nodiscard]] host::GpuReading read(std::shared_ptr<Library>& library) const;

  const NvmlOptions options;
  const Proc proc;

  std::mutex mutex;
  std::condition_variable changed;
  std::function<SteadyTime()> now;  ///< under the mutex; not called any more once `stop` is set
  bool stop = false;
  std::optional<SteadyTime> asking_since;
  std::optional<host::GpuReading> newest, good;
  SteadyTime good_at;
};

host::GpuReading NvmlProbe::Shared::read(std::shared_ptr<Library>& library) const {
  host::NvmlAnswers answers;
  if (options.library.empty()) {
    answers.load_error = "NVML is switched off (setting nvml_library): who holds GPU memory is unknown";
  } else if (!library) {
    auto loaded = Library::load(options.library);
    if (loaded) {
      library = std::move(*loaded);
    } else {
      answers.load_error =
          fmt::format("{} ({}): who holds GPU memory is unknown", loaded.error().message, loaded.error().hint);
    }
  }
  const auto pid_max = proc.pid_max();
  const auto asked_at = proc.ticks_since_boot();
  if (library) answers = library->ask(pid_max);
  answers.driver_loaded = options.driver_loaded;
  answers.pid_namespace_problem = proc.namespace_problem();
  for (auto& device : answers.devices) host::classify(device, proc.mem_total());
  auto processes =
      host::living(host::use_of(answers), pid_max, asked_at, [&](std::int64_t pid) { return proc.start_time_of(pid); });
  return host::interpret(answers, std::move(processes));
}

void NvmlProbe::Shared::run() {
  std::shared_ptr<Library> library;
  auto pause = options.interval;
  std::unique_lock lock{mutex};
  while (!stop) {
    const auto asked_at = now();
    asking_since = asked_at;
    lock.unlock();
    auto reading = read(library);
    lock.lock();
    asking_since.reset();
    const bool complete = reading.processes.has_value();
    pause = complete ? options.interval : std::min(std::max(pause, milliseconds{1}) * 2, options.slowest_retry);
    // Without a GPU nothing changes soon.
    if (complete && reading.host_class == host::HostClass::none) pause = options.slowest_retry;
    if (complete) {
      good = reading;
      good_at = asked_at;
    }
    newest = std::move(reading);
    changed.notify_all();
    changed.wait_for(lock, pause, [this] { return stop; });
  }
}

NvmlProbe::NvmlProbe(NvmlOptions options, const Clock& clock)
    : shared_(std::make_shared<Shared>(std::move(options), clock)),
      thread_([shared = shared_] { shared->run(); }) {}

NvmlProbe::~NvmlProbe() {
  {
    const std::lock_guard lock{shared_->mutex};
    shared_->stop = true;
    if (shared_->asking_since) thread_.detach();
  }
  shared_->changed.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool NvmlProbe::wait_for_first(milliseconds limit) {
  std::unique_lock lock{shared_->mutex};
  return shared_->changed.wait_for(lock, limit, [this] { return shared_->newest.has_value(); });
}

host::GpuReading NvmlProbe::latest() {
  auto& shared = *shared_;
  host::GpuReading reading;
  {
    const std::lock_guard lock{shared.mutex};
    const auto age = [&](SteadyTime since) { return std::chrono::duration_cast<milliseconds>(shared.now() - since); };
    std::optional<milliseconds> waiting;
    if (shared.asking_since) waiting = age(*shared.asking_since);
    reading = host::serve(shared.newest, shared.good, shared.good ? age(shared.good_at) : milliseconds{0}, waiting,
                          shared.options.patience);
  }
  host::settle_class(reading, shared.options.given_class);
  if (reading.processes) {
    std::erase_if(*reading.processes, [&](const host::GpuProcess& process) {
      return shared.proc.start_time_of(process.pid) != process.start_time_ticks;
    });
  }
  return reading;
}

}  // namespace dgxmm::nvml
