#include "core/host/examination.h"

#include "base/numbers.h"
#include "core/host/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace dgxmm::host {
namespace {

using State = Fact::State;

constexpr Bytes kDriverBlock = mib(2);  // what the GPU's driver asks for at once
constexpr Bytes kMuchFree = gib(8);
constexpr Bytes kFewBlocks = gib(1);
constexpr std::int64_t kPressed = 1000;         // 10 % of the last ten seconds, some process waited for memory
constexpr std::int64_t kSeverelyPressed = 500;  // 5 %: all of them
constexpr Bytes kGuardDistance = gib(1);

Fact memory(const ExaminedHost& host) {
  if (!host.meminfo) {
    return {"memory", "memory", host.meminfo_problem, State::warning,
            "nothing can be promised without it, so nothing is started"};
  }
  return {.code = "memory",
          .name = "memory",
          .value = fmt::format("{} in all, {} available (/proc/meminfo)", format_bytes(host.meminfo->mem_total),
                               format_bytes(host.meminfo->mem_available))};
}

/// "NSpid:\t17\t3": one number for each namespace that it is in.
std::size_t pid_namespaces_in(std::string_view status) {
  while (!status.empty()) {
    auto line = take_until(status, '\n');
    if (take_until(line, ':') != "NSpid") continue;
    std::size_t count = 0;
    line = trim(line);
    while (!line.empty()) {
      if (!trim(take_until(line, '\t')).empty()) ++count;
    }
    return count;
  }
  return 0;
}

Fact pid_namespace(const ExaminedHost& host) {
  const std::string code = "pid_namespace";
  const std::string name = "PID namespace";
  const auto namespaces = pid_namespaces_in(host.status.value_or(""));
  const bool differs =
      host.own_pid_namespace && host.first_pid_namespace && *host.own_pid_namespace != *host.first_pid_namespace;
  if (namespaces > 1 || differs) {
    return {code, name, "not the host's: GPU memory cannot be told to processes", State::warning,
            "run dgxmm with the host's PIDs (docker run --pid=host)"};
  }
  if (namespaces == 0) return {code, name, "/proc/self/status does not say", State::unknown, {}};
  return {.code = code, .name = name, .value = "the host's"};
}

Fact cgroups(const ExaminedHost& host) {
  const std::string code = "cgroups";
  const std::string name = "cgroups";
  if (!host.cgroup) {
    return {code, name, "no memory controller", State::warning,
            "engines are measured by their process trees, which is approximate; enable the memory controller"};
  }
  const auto version = fmt::format("v{}", host.cgroup->version);
  const bool outside = host.own_cgroup_namespace && host.first_cgroup_namespace &&
                       *host.own_cgroup_namespace != *host.first_cgroup_namespace;
  if (outside || host.cgroup->path.starts_with("/..")) {
    return {code, name, version + ", seen from another namespace: containers cannot be measured", State::warning,
            "run dgxmm in the host's cgroup namespace (docker run --cgroupns=host)"};
  }
  if (!host.memory_controller) {
    return {code, name, version + ", the memory controller's files are not there", State::warning,
            "enable the memory controller for this group"};
  }
  return {.code = code, .name = name, .value = version + ", memory controller, the host's namespace"};
}

Fact swap(const Meminfo& meminfo) {
  if (!meminfo.swap_total) return {"swap", "swap", "/proc/meminfo does not say", State::unknown, {}};
  if (*meminfo.swap_total == Bytes{}) {
    return {.code = "swap", .name = "swap", .value = "none: a host that runs out ends something at once"};
  }
  const auto free = meminfo.swap_free ? format_bytes(*meminfo.swap_free) + " free" : std::string{"free: not known"};
  return {.code = "swap",
          .name = "swap",
          .value = fmt::format("{}, {}; never counted as room for models", format_bytes(*meminfo.swap_total), free)};
}

Fact huge_pages(const Meminfo& meminfo) {
  if (!meminfo.hugetlb) return {"huge_pages", "huge pages", "/proc/meminfo does not say", State::unknown, {}};
  if (*meminfo.hugetlb == Bytes{}) return {.code = "huge_pages", .name = "huge pages", .value = "no pool"};
  return {"huge_pages", "huge pages",
          fmt::format("a pool of {} is taken from all others", format_bytes(*meminfo.hugetlb)), State::warning,
          "set vm.nr_hugepages to 0 if nothing here uses them; llama.cpp also mistakes them for all there is"};
}

Fact fragmentation(const ExaminedHost& host) {
  const std::string code = "fragmentation";
  const std::string name = "fragmentation";
  const auto blocks = free_in_blocks(host.buddyinfo.value_or(""), host.page_size, kDriverBlock);
  if (!blocks) return {code, name, "/proc/buddyinfo does not say", State::unknown, {}};
  auto value = fmt::format("{} free in blocks of 2 MiB and more", format_bytes(*blocks));
  const bool much_free = host.meminfo && host.meminfo->mem_free.value_or(Bytes{}) > kMuchFree;
  if (!much_free || *blocks >= kFewBlocks) return {.code = code, .name = name, .value = std::move(value)};
  return {
      code, name, value + fmt::format(", of {} free", format_bytes(*host.meminfo->mem_free)), State::warning,
      "starts may fail or crawl: drop the caches and compact (vm.drop_caches, vm.compact_memory), or restart the host"};
}

std::string percent(std::int64_t permyriad) { return fmt::format("{}.{:02} %", permyriad / 100, permyriad % 100); }

Fact pressure(const Pressure& pressure) {
  if (!pressure.some_avg10_permyriad || !pressure.full_avg10_permyriad) {
    return {"memory_pressure", "memory pressure", "not measured by this kernel (PSI)", State::unknown,
            "boot with psi=1"};
  }
  const auto some = *pressure.some_avg10_permyriad;
  const auto full = *pressure.full_avg10_permyriad;
  auto value = fmt::format("{} of ten seconds some waited, {} all", percent(some), percent(full));
  if (some <= kPressed && full <= kSeverelyPressed)
    return {.code = "memory_pressure", .name = "memory pressure", .value = std::move(value)};
  return {"memory_pressure", "memory pressure", std::move(value), State::warning,
          "the host is short of memory now: start nothing, stop something"};
}

Fact guards(const ExaminedHost& host) {
  const std::string code = "memory_guards";
  const std::string name = "memory guards";
  if (host.guards.empty()) return {.code = code, .name = name, .value = "none runs"};
  std::string value;
  std::string advice;
  for (const auto& guard : host.guards) {
    value += (value.empty() ? "" : ", ") + guard.name;
    if (!guard.acts_below_percent || !host.meminfo) continue;
    const Bytes threshold{static_cast<std::int64_t>(static_cast<double>(host.meminfo->mem_total.count()) *
                                                    *guard.acts_below_percent / 100)};
    value += fmt::format(" (acts below {})", format_bytes(threshold));
    if (host.safety_margin < threshold + kGuardDistance) {
      advice = fmt::format("set safety_margin_gib to {:.0f} at least, or {} ends engines that dgxmm found room for",
                           (threshold + kGuardDistance).gib() + 0.5, guard.name);
    }
  }
  const auto state = advice.empty() ? State::good : State::warning;
  return {code, name, std::move(value), state, std::move(advice)};
}

/// Anything beside which failed allocations of the driver mean more than that somebody tried.
bool is_short_of_memory(const ExaminedHost& host) {
  const bool little = host.meminfo && host.meminfo->mem_available < host.safety_margin;
  return little || fragmentation(host).state == State::warning || pressure(host.pressure).state == State::warning;
}

Fact driver_failures(const ExaminedHost& host) {
  const std::string code = "driver_allocation_failures";
  const std::string name = "GPU driver";
  if (!host.kernel_log) return {code, name, "the kernel log may not be read", State::unknown, {}};
  if (host.driver_failures == 0) return {.code = code, .name = name, .value = "no failed allocation in the last hour"};
  auto value = fmt::format("{} failed allocation{} in the last hour (NV_ERR_NO_MEMORY in the kernel log)",
                           host.driver_failures, host.driver_failures == 1 ? "" : "s");
  if (!is_short_of_memory(host))
    return {.code = code, .name = name, .value = value + "; starts that go well have some, too"};
  return {code, name, std::move(value), State::warning,
          "save your work before the next start: hosts have frozen after such lines; stop something first"};
}

Fact group_limit(const ExaminedHost& host) {
  const std::string code = "own_memory_limit";
  const std::string name = "memory limit";
  if (!host.cgroup) return {code, name, "dgxmm's own group is not known", State::unknown, {}};
  if (!host.group_limit || (host.meminfo && *host.group_limit >= host.meminfo->mem_total)) {
    return {.code = code, .name = name, .value = "none on dgxmm's own group"};
  }
  return {code, name,
          fmt::format("dgxmm's own group may use {}: engines inside of it are held up or ended there, and their GPU "
                      "memory is not counted in it",
                      format_bytes(*host.group_limit)),
          State::warning, "run dgxmm without a memory limit (docker run --memory, MemoryMax=, MemoryHigh=)"};
}

Fact swap_activity(const ExaminedHost& host) {
  const std::string code = "swap_activity";
  const std::string name = "swapping";
  if (!host.swap_activity.going_on()) return {.code = code, .name = name, .value = "none seen"};
  return {code, name,
          fmt::format("for {} s, {}/s in and {}/s out: the host is short of memory", host.swap_activity.lasts.count(),
                      format_bytes(host.swap_activity.in_per_s), format_bytes(host.swap_activity.out_per_s)),
          State::warning, "stop something; GPU memory cannot be swapped, so everything else is"};
}

Fact kernel_log(bool readable) {
  if (readable) return {.code = "kernel_log", .name = "kernel log", .value = "may be read"};
  return {"kernel_log", "kernel log", "may not be read: who was killed for lack of memory cannot always be told",
          State::unknown, "run dgxmm with CAP_SYSLOG"};
}

Fact gpu(const GpuReading& reading) {
  const std::string code = "gpu";
  const std::string name = "GPU";
  auto value = fmt::format("{}: {}", name_of(reading.host_class), reading.evidence);
  if (!reading.driver_version.empty()) value += fmt::format(", driver {}", reading.driver_version);
  if (const auto& refused = reading.no_starts) {
    const auto advice = refused->hint.empty() ? refused->message : refused->message + "; " + refused->hint;
    return {code, name, std::move(value), State::warning, advice};
  }
  if (!reading.unavailable.empty()) return {code, name, std::move(value), State::unknown, reading.unavailable};
  if (!reading.warnings.empty()) return {code, name, std::move(value), State::warning, reading.warnings.front()};
  return {.code = code, .name = name, .value = std::move(value)};
}

}  // namespace

std::string_view name_of(Fact::State state) {
  switch (state) {
    case State::good: return "good";
    case State::warning: return "warning";
    case State::unknown: return "unknown";
  }
  return "unknown";
}

std::optional<MemoryGuard> memory_guard_of(std::string_view comm, const std::vector<std::string>& arguments,
                                           Bytes mem_total) {
  if (comm == "systemd-oomd" || comm == "nohang")
    return MemoryGuard{.name = std::string{comm}, .acts_below_percent = {}};
  if (comm != "earlyoom") return std::nullopt;
  MemoryGuard guard{.name = "earlyoom", .acts_below_percent = 10};
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    const std::string_view argument = arguments[i];
    if (!argument.starts_with("-m") && !argument.starts_with("-M")) continue;
    std::string_view text = argument.substr(2);
    if (text.empty() && i + 1 < arguments.size()) text = arguments[i + 1];
    const auto number = parse_number<double>(text.substr(0, text.find(',')));  // "PERCENT[,KILL_PERCENT]"
    if (!number || *number < 0) return MemoryGuard{.name = "earlyoom", .acts_below_percent = {}};
    const bool in_kib = argument[1] == 'M';
    if (in_kib && mem_total <= Bytes{}) return MemoryGuard{.name = "earlyoom", .acts_below_percent = {}};
    guard.acts_below_percent =
        in_kib ? *number * 1024 * 100 / static_cast<double>(mem_total.count()) : std::min(*number, 100.0);
  }
  return guard;
}

std::int64_t count_driver_failures(std::string_view kernel_log, std::int64_t now_us, std::chrono::seconds window) {
  const auto oldest = now_us - std::chrono::microseconds{window}.count();
  std::int64_t count = 0;
  while (!kernel_log.empty()) {
    auto line = take_until(kernel_log, '\n');
    if (line.find("NV_ERR_NO_MEMORY") == std::string_view::npos) continue;
    static_cast<void>(take_until(line, ','));  // "priority,sequence,microseconds,flags;message"
    static_cast<void>(take_until(line, ','));
    const auto time = parse_count(take_until(line, ','));
    if (time && *time >= oldest) ++count;
  }
  return count;
}

std::optional<Bytes> free_in_blocks(std::string_view buddyinfo, Bytes page_size, Bytes block) {
  constexpr std::int64_t kMostOrders = 20;
  Bytes sum;
  bool any = false;
  while (!buddyinfo.empty()) {
    auto line = take_until(buddyinfo, '\n');
    const auto zone = line.find("zone");
    if (zone == std::string_view::npos || page_size <= Bytes{}) continue;
    line = trim(line.substr(zone + 4));
    static_cast<void>(take_until(line, ' '));  // the zone's name
    Bytes size = page_size;
    for (std::int64_t order = 0; order < kMostOrders && !(line = trim(line)).empty(); ++order, size = size * 2) {
      const auto count = parse_count(take_until(line, ' '));
      if (!count || *count > gib(1 << 20).count() / size.count()) return std::nullopt;
      any = true;
      if (size >= block) sum += size * *count;
    }
  }
  if (!any) return std::nullopt;
  return sum;
}

std::vector<Fact> examine(const ExaminedHost& host) {
  std::vector<Fact> facts{memory(host), gpu(host.gpu), pid_namespace(host), cgroups(host)};
  if (host.meminfo) {
    facts.push_back(swap(*host.meminfo));
    facts.push_back(huge_pages(*host.meminfo));
  }
  facts.push_back(fragmentation(host));
  facts.push_back(pressure(host.pressure));
  facts.push_back(guards(host));
  facts.push_back(group_limit(host));
  facts.push_back(kernel_log(host.kernel_log));
  if (host.gpu.host_class != HostClass::none) facts.push_back(driver_failures(host));
  return facts;
}

std::vector<Warning> host_warnings(const ExaminedHost& host) {
  std::vector<Fact> facts{cgroups(host), swap_activity(host), fragmentation(host),  pressure(host.pressure),
                          guards(host),  group_limit(host),   driver_failures(host)};
  if (host.meminfo) facts.push_back(huge_pages(*host.meminfo));
  std::vector<Warning> warnings;
  for (auto& fact : facts) {
    const bool is_note =
        fact.code == "driver_allocation_failures" && host.driver_failures > 0 && fact.state == State::good;
    if (fact.state != State::warning && !is_note) continue;
    warnings.push_back({.code = std::move(fact.code),
                        .message = fact.name + ": " + fact.value,
                        .hint = std::move(fact.advice),
                        .severity = is_note ? Warning::Severity::note : Warning::Severity::warning});
  }
  return warnings;
}

}  // namespace dgxmm::host
