#pragma once
// What NVIDIA's management library (NVML) answers, as values. Codes and layouts are those of its header, nvml.h.
#include "base/bytes.h"
#include "base/result.h"
#include "core/host/readings.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dgxmm::host {

/// Of `GpuReading::no_starts`: a device is lost, or must be reset.
inline constexpr std::string_view kGpuFailed = "gpu_failed";

/// What a return code (nvmlReturn_t) means for a caller.
enum class NvmlState {
  success,
  uninitialized,      ///< initialize again, once
  wrong_version,      ///< of a structure: use the older function
  not_supported,      ///< normal where GPU and CPU share one memory
  no_permission,      ///< the figure is unknown
  not_found,          ///< the device is gone, or there is none
  too_small,          ///< grow the buffer and ask again
  driver_not_loaded,  ///< may come later
  no_function,        ///< an older driver: use the older function
  device_failed,      ///< fell off the bus, or must be reset
  blocked,            ///< the operating system keeps the device from this container
  driver_updated,     ///< library and kernel driver differ until the host is restarted
  transient,          ///< ask again later; any code that is not known
};
NvmlState nvml_state(std::uint32_t code);
/// "NOT_SUPPORTED (3)", "code 4711".
std::string nvml_name(std::uint32_t code);

/// One entry of a list of processes.
struct GpuRecord {
  std::uint32_t pid = 0;
  std::optional<Bytes> used;  ///< absent: all ones, or 0, which a process with a context never has
  std::uint32_t gpu_instance = 0xFFFFFFFF, compute_instance = 0xFFFFFFFF;  ///< all ones without MIG
  friend bool operator==(const GpuRecord&, const GpuRecord&) = default;
};

/// Room for each record, whatever its size; what a buffer is filled with before the library writes into it.
inline constexpr std::size_t kRecordRoom = 32;
inline constexpr std::byte kRecordFiller{0xA5};

/// The records in a buffer of `kRecordRoom` bytes for each that the library was told it may write. Drivers differ in
/// the size of a record under one function name (16, 24 or 32 bytes): the size is read off from how far the buffer was
/// written, and has to give plausible pids. Nothing when none does.
std::optional<std::vector<GpuRecord>> read_records(std::span<const std::byte> buffer, std::size_t count,
                                                   std::size_t expected_size, std::int64_t pid_max);

/// What one device answered, for one of its lists: compute, graphics and MPS processes.
struct GpuList {
  std::uint32_t code = 0;
  std::optional<std::vector<GpuRecord>> records;  ///< absent unless code is 0; then: of no size that makes sense
};

/// Memory of each pid; absent = a part of it is unknown. A process in several lists of a device counts once, with the
/// largest figure (B12); over devices and instances the figures are added.
using GpuUse = std::map<std::int64_t, std::optional<Bytes>>;
GpuUse merge_lists(std::span<const std::vector<GpuList>> lists_of_devices);

/// A process that holds GPU memory, with an identity that reuse of the pid cannot fake.
struct GpuProcess {
  std::int64_t pid = 0;
  std::uint64_t start_time_ticks = 0;
  std::optional<Bytes> used;
  friend bool operator==(const GpuProcess&, const GpuProcess&) = default;
};

/// Those of the pids that can be real: in 1 … pid_max, alive, and not started after `asked_at_ticks` (since boot), when
/// the number belonged to somebody else.
std::vector<GpuProcess> living(const GpuUse& use, std::int64_t pid_max, std::uint64_t asked_at_ticks,
                               const std::function<std::optional<std::uint64_t>(std::int64_t)>& start_time_of);

/// How GPU and CPU memory relate.
enum class HostClass {
  none,        ///< no NVIDIA GPU
  integrated,  ///< one pool: GB10, Thor, Orin
  coherent,    ///< GPU memory of its own that is a NUMA node, too: GH200, GB200
  discrete,    ///< GPU memory of its own
  mixed,       ///< integrated and others
  unknown,     ///< there is a driver, and nobody can say
};
std::string_view name_of(HostClass host_class);

struct GpuDevice {
  std::string name, uuid, bus_id;
  std::optional<std::uint32_t> pci_device_id;  ///< device << 16 | vendor
  std::optional<std::int32_t> compute_major, compute_minor;
  std::optional<std::uint32_t> addressing_mode;    ///< 2: ATS
  std::uint32_t memory_code = 13;                  ///< of the memory query; 13: not asked
  std::optional<Bytes> memory_total, memory_free;  ///< `classify` drops a free above the total
  HostClass host_class = HostClass::unknown;       ///< of this device: integrated, coherent, discrete or unknown
  std::string evidence;                            ///< for it
};

/// Fills in class and evidence. Integrated takes two pieces of evidence that agree; a memory of the size of the host's
/// alone may be chance, a name alone may be new.
void classify(GpuDevice& device, Bytes mem_total);

/// What NVML answered, and what was tried when it did not.
struct NvmlAnswers {
  bool driver_loaded = false;         ///< /proc or /dev says that there is a driver
  std::string load_error;             ///< why the library could not be loaded
  std::string pid_namespace_problem;  ///< pids mean nothing here; empty = fine
  std::string failed_call;            ///< the call that failed for the library as a whole
  std::uint32_t failed_code = 0;
  std::string driver_version;
  std::vector<GpuDevice> devices;           ///< classified
  std::vector<std::vector<GpuList>> lists;  ///< of each device; a list that the driver does not have is left out
};

/// What each process holds of the memory that the host shares with its GPUs; where it shares none, of the GPUs' own. On
/// a host with both (mixed), what lies on cards of their own is left out: it is in no sum of the host's memory.
GpuUse use_of(const NvmlAnswers& answers);

/// The GPU side of the host at one moment.
struct GpuReading {
  HostClass host_class = HostClass::none;
  std::string evidence;  ///< one line for people
  std::string driver_version;
  std::vector<GpuDevice> devices;
  /// Every process that holds GPU memory; absent = nobody can say who holds how much. None without a GPU.
  std::optional<std::vector<GpuProcess>> processes = std::vector<GpuProcess>{};
  std::string unavailable;            ///< why `processes` is absent: a sentence with what to do
  std::vector<std::string> warnings;  ///< sentences with what to do
  std::optional<Error> no_starts;     ///< why nothing may be started on this host now
  std::chrono::milliseconds age{0};   ///< of `processes`

  /// What these processes hold together: absent when one of them is unknown.
  [[nodiscard]] std::optional<Bytes> held_by(std::span<const std::int64_t> pids) const;
  /// What all of them hold.
  [[nodiscard]] std::optional<Bytes> held_by_all() const;
  /// What is known of it while the whole is not: at least so much they hold. 0 when the whole is known.
  [[nodiscard]] Bytes held_at_least_by(std::span<const std::int64_t> pids) const;
  [[nodiscard]] Bytes held_at_least_by_all() const;
  [[nodiscard]] const GpuProcess* find(std::int64_t pid) const;
};

/// Pure but for `living`, which has been asked: `processes` are the ones that live.
GpuReading interpret(const NvmlAnswers& answers, std::vector<GpuProcess> processes);

/// How long figures are served after the driver has stopped to answer.
struct GpuPatience {
  std::chrono::milliseconds deadline{5000};    ///< of one reading; then a warning
  std::chrono::milliseconds keep_for{30'000};  ///< then who holds what is unknown
};

/// What to show now. A driver that does not answer, or answers with a transient error, leaves the last good figures in
/// place for a while; what kind of host it is does not change with that.
/// `newest` is the last reading, `good` the last with processes, `good_age` its age, `waiting` how long the reading
/// that is under way has taken so far.
GpuReading serve(const std::optional<GpuReading>& newest, const std::optional<GpuReading>& good,
                 std::chrono::milliseconds good_age, std::optional<std::chrono::milliseconds> waiting,
                 const GpuPatience& patience);

/// "none" and "integrated": what a person may say of a host whose class nobody else can tell. Nothing for other words.
std::optional<HostClass> parse_given_class(std::string_view text);

/// Of a class that is unknown: takes the one that was given, if any, else refuses starts: whatever is planned with the
/// host's memory may be planned with the wrong one. What the driver says of itself is never overruled.
void settle_class(GpuReading& reading, std::optional<HostClass> given);

/// Why NVML's pids may not be ours: it answers in the caller's PID namespace. From /proc/self/status and what the links
/// /proc/self/ns/pid and /proc/1/ns/pid say ("" when unreadable). Empty when all is well.
std::string pid_namespace_problem(std::string_view own_status, std::string_view own_namespace,
                                  std::string_view namespace_of_first);

/// Does a process that holds GPU memory hold it for nobody (D1)? Of one that a service manager started and still
/// watches
/// (`unit`), nothing is said. `engine_ended`: it belongs to an engine of dgxmm's whose first process has ended.
///
/// Certain with that, and of a worker of vLLM's whose server is gone: neither can do anything any more. Of any other
/// whose parent has ended it is possible only: so has that of everything that goes on after a logout.
Orphanhood orphanhood_of(const ProcessStat& process, const std::optional<ProcessStat>& parent, std::string_view unit,
                         bool engine_ended);

}  // namespace dgxmm::host
