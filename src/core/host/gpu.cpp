#include "core/host/gpu.h"

#include "core/host/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <tuple>
#include <utility>

namespace dgxmm::host {
namespace {

struct Code {
  std::uint32_t code;
  std::string_view name;
  NvmlState state;
};

constexpr std::uint32_t kFunctionNotFound = 13;

constexpr std::array kCodes{
    Code{0, "SUCCESS", NvmlState::success},
    Code{1, "UNINITIALIZED", NvmlState::uninitialized},
    Code{2, "INVALID_ARGUMENT", NvmlState::wrong_version},
    Code{3, "NOT_SUPPORTED", NvmlState::not_supported},
    Code{4, "NO_PERMISSION", NvmlState::no_permission},
    Code{6, "NOT_FOUND", NvmlState::not_found},
    Code{7, "INSUFFICIENT_SIZE", NvmlState::too_small},
    Code{9, "DRIVER_NOT_LOADED", NvmlState::driver_not_loaded},
    Code{10, "TIMEOUT", NvmlState::transient},
    Code{12, "LIBRARY_NOT_FOUND", NvmlState::no_function},
    Code{kFunctionNotFound, "FUNCTION_NOT_FOUND", NvmlState::no_function},
    Code{15, "GPU_IS_LOST", NvmlState::device_failed},
    Code{16, "RESET_REQUIRED", NvmlState::device_failed},
    Code{17, "OPERATING_SYSTEM", NvmlState::blocked},
    Code{18, "LIB_RM_VERSION_MISMATCH", NvmlState::driver_updated},
    Code{20, "MEMORY", NvmlState::transient},
    Code{23, "INSUFFICIENT_RESOURCES", NvmlState::transient},
    Code{25, "ARGUMENT_VERSION_MISMATCH", NvmlState::wrong_version},
    Code{27, "NOT_READY", NvmlState::transient},
    Code{28, "GPU_NOT_FOUND", NvmlState::not_found},
    Code{999, "UNKNOWN", NvmlState::transient},
};

const Code* find_code(std::uint32_t code) {
  const auto* found = std::ranges::find(kCodes, code, &Code::code);
  return found == kCodes.end() ? nullptr : found;
}

// ---- Records

template <class Number>
Number number_at(std::span<const std::byte> bytes, std::size_t offset) {
  Number number{};
  std::memcpy(&number, bytes.data() + offset, sizeof number);
  return number;
}

GpuRecord record_at(std::span<const std::byte> bytes, std::size_t size) {
  constexpr std::size_t kUsed = 8, kGpuInstance = 16, kComputeInstance = 20, kWithInstances = 24;
  GpuRecord record;
  record.pid = number_at<std::uint32_t>(bytes, 0);
  const auto used = number_at<std::uint64_t>(bytes, kUsed);
  // All ones stands for unknown, and so does whatever no machine has.
  if (used != 0 && used <= std::uint64_t{std::numeric_limits<std::int64_t>::max()} / 2) {
    record.used = Bytes{static_cast<std::int64_t>(used)};
  }
  if (size >= kWithInstances) {
    record.gpu_instance = number_at<std::uint32_t>(bytes, kGpuInstance);
    record.compute_instance = number_at<std::uint32_t>(bytes, kComputeInstance);
  }
  return record;
}

std::vector<GpuRecord> records_of(std::span<const std::byte> buffer, std::size_t count, std::size_t size) {
  std::vector<GpuRecord> records;
  for (std::size_t i = 0; i < count; ++i) records.push_back(record_at(buffer.subspan(i * size), size));
  return records;
}

// ---- Class

/// "NVIDIA GB10" and "nvidia-gb10" alike.
std::string plain(std::string_view name) {
  std::string result;
  for (const char c : name) {
    if (c == ' ' || c == '-') continue;
    result += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  }
  return result;
}

bool is_known_integrated_name(std::string_view name) {
  static constexpr std::array<std::string_view, 5> kNames{"nvidiagb10", "nvidiathor", "thor", "orin(nvgpu)",
                                                          "nvidiaorin(nvgpu)"};
  return std::ranges::find(kNames, plain(name)) != kNames.end();
}

bool is_integrated_capability(std::int32_t major, std::int32_t minor) {
  static constexpr std::array<std::pair<int, int>, 4> kCapabilities{{{12, 1}, {11, 0}, {10, 1}, {8, 7}}};
  return std::ranges::find(kCapabilities, std::pair{major, minor}) != kCapabilities.end();
}

constexpr std::uint32_t kPciGb10 = 0x2E1210DE;
constexpr std::uint32_t kAddressTranslationServices = 2;

bool about_equal(Bytes a, Bytes b) { return 10 * std::max(a - b, b - a) <= b; }

HostClass class_of(std::span<const GpuDevice> devices) {
  if (devices.empty()) return HostClass::none;
  const auto all = [&](HostClass c) {
    return std::ranges::all_of(devices, [c](const auto& d) { return d.host_class == c; });
  };
  const auto any = [&](HostClass c) {
    return std::ranges::any_of(devices, [c](const auto& d) { return d.host_class == c; });
  };
  if (all(HostClass::integrated)) return HostClass::integrated;
  if (any(HostClass::integrated)) return HostClass::mixed;
  if (any(HostClass::unknown)) return HostClass::unknown;
  if (any(HostClass::coherent)) return HostClass::coherent;
  return HostClass::discrete;
}

std::string evidence_of(std::span<const GpuDevice> devices) {
  std::vector<std::string> lines;
  for (const auto& device : devices) lines.push_back(fmt::format("{}: {}", device.name, device.evidence));
  return fmt::format("{}", fmt::join(lines, "; "));
}

std::optional<Error> refusal_of(HostClass host_class, std::span<const GpuDevice> devices) {
  const auto refuse = [&](std::string why, std::string hint) {
    return Error{"host_not_supported", std::move(why), std::move(hint), devices.empty() ? "" : devices.front().name};
  };
  if (host_class == HostClass::discrete) {
    return refuse(
        "this host's GPU has memory of its own: whether a model fits into that cannot be told from the host's memory",
        "dgxmm starts engines where CPU and GPU share one memory, or without a GPU; estimates work here too");
  }
  if (host_class == HostClass::coherent) {
    return refuse(
        "this host's GPU has memory of its own, which also counts in MemTotal: the host's memory does not tell what "
        "fits",
        "GH200 and GB200 are not supported for starting engines; estimates work here too");
  }
  if (host_class != HostClass::mixed) return std::nullopt;
  const auto integrated = std::ranges::count(devices, HostClass::integrated, &GpuDevice::host_class);
  const auto found = std::ranges::find(devices, HostClass::integrated, &GpuDevice::host_class);
  if (integrated == 1 && !found->uuid.empty()) return std::nullopt;
  return refuse("this host has GPUs that share the host's memory and others, and engines cannot be kept to the former",
                "the driver does not say which device is which (UUID)");
}

// ---- What went wrong, in words

/// Of the library as a whole, or of a list of processes.
std::string sentence_of(std::string_view call, std::uint32_t code) {
  switch (nvml_state(code)) {
    case NvmlState::driver_not_loaded:
      return "the NVIDIA driver is not loaded: who holds GPU memory is unknown until it is";
    case NvmlState::no_permission:
      return fmt::format("{}: no permission: run dgxmm as root to see who holds GPU memory", call);
    case NvmlState::device_failed:
      return fmt::format("a GPU has failed ({}): who holds GPU memory is unknown; look at `dmesg`", nvml_name(code));
    case NvmlState::blocked:
      return "the operating system keeps the GPU from this container: give it the device, with the driver capability "
             "`utility`";
    case NvmlState::driver_updated:
      return "the NVIDIA driver was updated and its library does not match the kernel's part: running engines go on, "
             "new ones fail until the host is restarted";
    case NvmlState::not_found: return fmt::format("{}: the GPU is gone ({})", call, nvml_name(code));
    case NvmlState::not_supported:
    case NvmlState::no_function: return "this NVIDIA driver does not list the processes that hold GPU memory";
    default:
      return fmt::format(
          "dgxmm has lost its access to the GPU ({}: {}); when it runs in a container, recreate that: `systemctl "
          "daemon-reload` takes the GPU from containers that did not get it through CDI",
          call, nvml_name(code));
  }
}

std::optional<Error> start_problem(std::uint32_t code) {
  const auto state = nvml_state(code);
  if (state == NvmlState::device_failed) {
    return Error{std::string{kGpuFailed},
                 fmt::format("a GPU of this host has failed ({})", nvml_name(code)),
                 "look at `dmesg`; it usually takes a restart of the host",
                 {}};
  }
  if (state == NvmlState::driver_updated) {
    return Error{"gpu_driver_updated",
                 "the NVIDIA driver was updated and its library does not match the kernel's part: an engine that is "
                 "started now cannot use the GPU",
                 "restart the host; what runs goes on until then",
                 {}};
  }
  return std::nullopt;
}

/// Driver versions are dotted numbers.
bool older_than(std::string_view version, std::array<std::int64_t, 3> other) {
  for (const auto wanted : other) {
    const auto number = parse_count(take_until(version, '.'));
    if (!number || *number > wanted) return false;
    if (*number < wanted) return true;
  }
  return false;
}

void withhold_processes(GpuReading& reading, std::string why) {
  reading.processes.reset();
  reading.unavailable = std::move(why);
}

/// Why the lists of a device do not say who holds its memory; empty when they do.
std::string list_problem(const std::vector<GpuList>& lists, std::optional<Error>& no_starts) {
  bool listed = false;
  for (const auto& list : lists) {
    const auto state = nvml_state(list.code);
    if (state == NvmlState::success && !list.records) {
      return "this NVIDIA driver lists processes in a form that is not known: who holds GPU memory is unknown";
    }
    if (state == NvmlState::success) {
      listed = true;
    } else if (state != NvmlState::not_supported && state != NvmlState::no_function &&
               state != NvmlState::wrong_version) {
      if (auto problem = start_problem(list.code)) no_starts = std::move(problem);
      return sentence_of("the list of processes", list.code);
    }
  }
  return listed ? std::string{} : sentence_of("the list of processes", kFunctionNotFound);
}

/// What some processes hold: all of it, or what is known.
struct Sum {
  Bytes known;
  bool complete = true;

  [[nodiscard]] std::optional<Bytes> whole() const { return complete ? std::optional{known} : std::nullopt; }
  [[nodiscard]] Bytes at_least() const { return complete ? Bytes{} : known; }
};

Sum add_up(const GpuReading& reading, const auto& is_meant) {
  if (!reading.processes) return {.known = {}, .complete = false};
  Sum sum;
  for (const auto& process : *reading.processes) {
    if (!is_meant(process.pid)) continue;
    sum.known += process.used.value_or(Bytes{});
    sum.complete = sum.complete && process.used;
  }
  return sum;
}

}  // namespace

NvmlState nvml_state(std::uint32_t code) {
  const auto* found = find_code(code);
  return found == nullptr ? NvmlState::transient : found->state;
}

std::string nvml_name(std::uint32_t code) {
  const auto* found = find_code(code);
  return found == nullptr ? fmt::format("code {}", code) : fmt::format("{} ({})", found->name, code);
}

std::optional<std::vector<GpuRecord>> read_records(std::span<const std::byte> buffer, std::size_t count,
                                                   std::size_t expected_size, std::int64_t pid_max) {
  const auto capacity = buffer.size() / kRecordRoom;
  if (count == 0) return std::vector<GpuRecord>{};
  if (count > capacity) return std::nullopt;
  // A record ends in a number whose last byte is 0 or all ones: the filler cannot be mistaken for it.
  auto written = buffer.size();
  while (written > 0 && buffer[written - 1] == kRecordFiller) --written;

  const std::array<std::size_t, 4> sizes{expected_size, 16, 24, 32};
  std::optional<std::vector<GpuRecord>> as_expected;
  for (const auto size : sizes) {
    // Some write the records that they have, some clear the whole room first.
    if (written != count * size && written != capacity * size) continue;
    auto records = records_of(buffer, count, size);
    const bool plausible =
        std::ranges::all_of(records, [&](const GpuRecord& r) { return r.pid > 0 && r.pid <= pid_max; });
    if (plausible) return records;
    if (size == expected_size) as_expected = std::move(records);
  }
  return as_expected;  // with pids that are none (Jetson): each of those is dropped alone
}

GpuUse merge_lists(std::span<const std::vector<GpuList>> lists_of_devices) {
  GpuUse use;
  for (const auto& lists : lists_of_devices) {
    std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, std::optional<Bytes>> merged;
    for (const auto& list : lists) {
      if (!list.records) continue;
      for (const auto& record : *list.records) {
        auto& used = merged[{record.pid, record.gpu_instance, record.compute_instance}];
        used = std::max(used, record.used);  // what is absent is less than anything
      }
    }
    for (const auto& [key, used] : merged) {
      const auto [entry, is_new] = use.try_emplace(std::get<0>(key), used);
      if (is_new) continue;
      entry->second = entry->second && used ? std::optional{*entry->second + *used} : std::nullopt;
    }
  }
  return use;
}

std::vector<GpuProcess> living(const GpuUse& use, std::int64_t pid_max, std::uint64_t asked_at_ticks,
                               const std::function<std::optional<std::uint64_t>(std::int64_t)>& start_time_of) {
  std::vector<GpuProcess> processes;
  for (const auto& [pid, used] : use) {
    if (pid <= 0 || pid > pid_max) continue;
    const auto start = start_time_of(pid);
    if (!start || *start > asked_at_ticks) continue;
    processes.push_back({.pid = pid, .start_time_ticks = *start, .used = used});
  }
  return processes;
}

std::string_view name_of(HostClass host_class) {
  static constexpr std::array<std::string_view, 6> kNames{"none",     "integrated", "coherent",
                                                          "discrete", "mixed",      "unknown"};
  return kNames.at(static_cast<std::size_t>(host_class));
}

void classify(GpuDevice& device, Bytes mem_total) {
  std::vector<std::string> evidence;
  // More free than there is: that is the host's memory in the wrong place (A3).
  if (device.memory_free && device.memory_total && *device.memory_free > *device.memory_total)
    device.memory_free.reset();
  const auto memory = nvml_state(device.memory_code);
  const bool has_own_memory = memory == NvmlState::success && device.memory_total.value_or(Bytes{}) > Bytes{} &&
                              !about_equal(*device.memory_total, mem_total);
  if (memory == NvmlState::not_supported) {
    evidence.emplace_back("no memory of its own (NOT_SUPPORTED)");
  } else if (memory == NvmlState::success && device.memory_total == Bytes{}) {
    evidence.emplace_back("no memory of its own (0 bytes)");
  } else if (memory == NvmlState::success && !has_own_memory && device.memory_total) {
    evidence.emplace_back("its memory is the host's");
  }
  const bool shows_no_memory = memory == NvmlState::not_supported || device.memory_total == Bytes{};
  if (device.pci_device_id == kPciGb10 || is_known_integrated_name(device.name)) {
    evidence.push_back(fmt::format("known by its {}", device.pci_device_id == kPciGb10 ? "PCI id" : "name"));
  }
  if (device.compute_major && device.compute_minor &&
      is_integrated_capability(*device.compute_major, *device.compute_minor)) {
    evidence.push_back(fmt::format("compute capability {}.{}", *device.compute_major, *device.compute_minor));
  }
  const bool ats = device.addressing_mode == kAddressTranslationServices;
  if (ats && shows_no_memory) evidence.emplace_back("addresses as the CPU has them (ATS)");

  constexpr std::size_t kEnough = 2;
  if (evidence.size() >= kEnough && !has_own_memory) {
    device.host_class = HostClass::integrated;
    device.evidence = fmt::format("shares the host's memory: {}", fmt::join(evidence, ", "));
  } else if (memory == NvmlState::success && !shows_no_memory && device.memory_total) {
    device.host_class = ats ? HostClass::coherent : HostClass::discrete;
    device.evidence = fmt::format("has {} of its own{}", format_bytes(*device.memory_total),
                                  ats ? ", with addresses as the CPU has them (ATS)" : "");
  } else {
    device.host_class = HostClass::unknown;
    device.evidence = evidence.empty() ? fmt::format("its memory cannot be read ({})", nvml_name(device.memory_code))
                                       : fmt::format("only one sign of a shared memory: {}", evidence.front());
  }
}

std::optional<Bytes> GpuReading::held_by(std::span<const std::int64_t> pids) const {
  return add_up(*this, [&](std::int64_t pid) { return std::ranges::find(pids, pid) != pids.end(); }).whole();
}

std::optional<Bytes> GpuReading::held_by_all() const {
  return add_up(*this, [](std::int64_t) { return true; }).whole();
}

Bytes GpuReading::held_at_least_by(std::span<const std::int64_t> pids) const {
  return add_up(*this, [&](std::int64_t pid) { return std::ranges::find(pids, pid) != pids.end(); }).at_least();
}

Bytes GpuReading::held_at_least_by_all() const {
  return add_up(*this, [](std::int64_t) { return true; }).at_least();
}

const GpuProcess* GpuReading::find(std::int64_t pid) const {
  if (!processes) return nullptr;
  const auto found = std::ranges::find(*processes, pid, &GpuProcess::pid);
  return found == processes->end() ? nullptr : &*found;
}

GpuUse use_of(const NvmlAnswers& answers) {
  const bool mixed = class_of(answers.devices) == HostClass::mixed;
  std::vector<std::vector<GpuList>> lists;
  for (std::size_t i = 0; i < std::min(answers.devices.size(), answers.lists.size()); ++i) {
    if (mixed && answers.devices[i].host_class != HostClass::integrated) continue;
    lists.push_back(answers.lists[i]);
  }
  return merge_lists(lists);
}

GpuReading interpret(const NvmlAnswers& answers, std::vector<GpuProcess> processes) {
  GpuReading reading;
  reading.driver_version = answers.driver_version;
  const bool failed = !answers.failed_call.empty();
  const bool no_driver = failed && nvml_state(answers.failed_code) == NvmlState::driver_not_loaded;
  if (!answers.driver_loaded && (!answers.load_error.empty() || no_driver)) {
    reading.evidence = "no NVIDIA driver is loaded";
    return reading;
  }
  if (!answers.load_error.empty() || failed) {
    reading.host_class = HostClass::unknown;
    reading.evidence = "an NVIDIA driver is there, but it does not say what GPU it drives";
    withhold_processes(reading, answers.load_error.empty() ? sentence_of(answers.failed_call, answers.failed_code)
                                                           : answers.load_error);
    if (failed) reading.no_starts = start_problem(answers.failed_code);
    return reading;
  }
  reading.devices = answers.devices;
  reading.host_class = class_of(reading.devices);
  reading.evidence = reading.devices.empty() ? "the NVIDIA driver has no GPU" : evidence_of(reading.devices);
  reading.no_starts = refusal_of(reading.host_class, reading.devices);
  reading.processes = std::move(processes);
  if (reading.devices.empty()) return reading;

  std::string problem;
  for (const auto& lists : answers.lists) {
    if (problem.empty()) problem = list_problem(lists, reading.no_starts);
  }
  if (!answers.pid_namespace_problem.empty()) problem = answers.pid_namespace_problem;
  for (const auto& device : reading.devices) {
    if (auto lost = start_problem(device.memory_code)) reading.no_starts = std::move(lost);
  }
  if (!problem.empty()) withhold_processes(reading, problem);
  constexpr std::array<std::int64_t, 3> kCountsSystemMemory{580, 65, 6};
  if (reading.host_class == HostClass::integrated && older_than(reading.driver_version, kCountsSystemMemory)) {
    reading.warnings.push_back(
        fmt::format("NVIDIA driver {} does not count what a process holds on this GPU; 580.65.06 and newer do",
                    reading.driver_version));
  }
  return reading;
}

GpuReading serve(const std::optional<GpuReading>& newest, const std::optional<GpuReading>& good,
                 std::chrono::milliseconds good_age, std::optional<std::chrono::milliseconds> waiting,
                 const GpuPatience& patience) {
  using Seconds = std::chrono::seconds;
  const bool silent = waiting && *waiting > patience.deadline;
  const auto silence = fmt::format("the NVIDIA driver does not answer (for more than {} s)",
                                   std::chrono::duration_cast<Seconds>(patience.deadline).count());
  if (!newest) {
    GpuReading reading;
    reading.host_class = HostClass::unknown;
    reading.evidence = "the NVIDIA driver has not answered yet";
    withhold_processes(reading, silent ? silence : reading.evidence);
    return reading;
  }
  auto reading = *newest;
  if (good && reading.host_class == HostClass::unknown) {
    reading.host_class = good->host_class;
    reading.evidence = good->evidence;
    reading.devices = good->devices;
    if (!reading.no_starts) reading.no_starts = good->no_starts;
  }
  const bool is_old = good_age > patience.keep_for;
  const bool device_failed = newest->no_starts && newest->no_starts->code == kGpuFailed;
  if (!reading.processes && good && !is_old && !device_failed) {
    reading.processes = good->processes;
    reading.warnings.push_back(std::exchange(reading.unavailable, {}));
  }
  reading.age = good_age;
  if (silent) {
    reading.warnings.push_back(silence);
    if (is_old) withhold_processes(reading, silence);
  }
  return reading;
}

std::optional<HostClass> parse_given_class(std::string_view text) {
  for (const auto allowed : {HostClass::none, HostClass::integrated}) {
    if (text == name_of(allowed)) return allowed;
  }
  return std::nullopt;
}

void settle_class(GpuReading& reading, std::optional<HostClass> given) {
  if (reading.host_class != HostClass::unknown) return;
  if (given) {
    reading.host_class = *given;
    reading.evidence = fmt::format("by the setting host_class; {}", reading.evidence);
  } else if (!reading.no_starts) {
    reading.no_starts = Error{
        "host_class_unknown",
        fmt::format("whether this host's GPU shares the host's memory cannot be told ({}), so neither can what fits",
                    reading.evidence),
        "give dgxmm access to the GPU (a container: driver capability `utility`), or set `host_class`: integrated where "
        "CPU and GPU share one memory (DGX Spark, Jetson), none where engines do not use the GPU",
        {}};
  }
}

std::string pid_namespace_problem(std::string_view own_status, std::string_view own_namespace,
                                  std::string_view namespace_of_first) {
  // The kernel numbers the first namespace so (PROC_PID_INIT_INO, include/linux/proc_ns.h).
  constexpr std::string_view kOfTheHost = "pid:[4026531836]";
  bool nested = !own_namespace.empty() && own_namespace != kOfTheHost;
  nested = nested || (!own_namespace.empty() && !namespace_of_first.empty() && own_namespace != namespace_of_first);
  while (!own_status.empty()) {
    auto value = take_until(own_status, '\n');
    if (take_until(value, ':') == "NSpid") nested = nested || trim(value).find('\t') != std::string_view::npos;
  }
  if (!nested) return {};
  return "dgxmm runs in a PID namespace of its own, where the NVIDIA driver does not show who holds GPU memory: run its "
         "container with --pid=host";
}

Orphanhood orphanhood_of(const ProcessStat& process, const std::optional<ProcessStat>& parent, std::string_view unit,
                         bool engine_ended) {
  if (engine_ended) return Orphanhood::certain;
  if (unit.ends_with(".service")) return Orphanhood::none;
  // A child is born in its parent's session; only a leader has ever left it.
  const bool lost_its_parent = process.session != process.pid && (!parent || parent->session != process.session);
  if (!lost_its_parent) return Orphanhood::none;
  // "VLLM::EngineCore" and "VLLM::Worker_TP0" (vLLM's set_process_title); the kernel keeps 15 bytes.
  const bool serves_another = process.comm.starts_with("VLLM::EngineCor") || process.comm.starts_with("VLLM::Worker");
  return serves_another ? Orphanhood::certain : Orphanhood::possible;
}

}  // namespace dgxmm::host
