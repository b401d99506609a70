#include "core/host/readings.h"
#include "core/host/text.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dgxmm::host {
namespace {

constexpr std::string_view kDeleted = " (deleted)";

std::optional<Bytes> as_bytes(std::optional<std::int64_t> count) {
  if (!count) return std::nullopt;
  return Bytes{*count};
}

std::optional<Bytes> find_bytes(std::string_view stat, std::string_view key) {
  return as_bytes(find_flat_value(stat, key));
}

/// Kernels before 5.18 have no `kernel` line. The named kinds miss what has no line of its own, the remainder of
/// `memory.current` lags behind and may be too small: the larger of both.
std::optional<Bytes> kernel_without_its_line(std::string_view stat, const CgroupMemory& memory) {
  std::optional<Bytes> named;
  for (const auto* key : {"slab", "kernel_stack", "pagetables", "percpu", "vmalloc"}) {
    if (const auto value = find_bytes(stat, key)) named = named.value_or(Bytes{}) + *value;
  }
  if (!memory.current || !memory.anon || !memory.file) return named;
  const auto remainder = *memory.current - *memory.anon - *memory.file - memory.sock.value_or(Bytes{});
  return std::max(named.value_or(Bytes{}), remainder);
}

bool is_container_id(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

/// "docker-<id>.scope" -> the id. Podman's and CRI-O's monitors ("libpod-conmon-<id>.scope") are not the container.
std::optional<std::string_view> id_of_scope(std::string_view component) {
  constexpr std::string_view kScope = ".scope";
  if (!component.ends_with(kScope)) return std::nullopt;
  component.remove_suffix(kScope.size());
  for (const std::string_view prefix : {"docker-", "libpod-", "cri-containerd-", "crio-", "nerdctl-"}) {
    if (!component.starts_with(prefix)) continue;
    if (const auto id = component.substr(prefix.size()); is_container_id(id)) return id;
  }
  return std::nullopt;
}

/// "user@1000.service" -> 1000
std::optional<std::int64_t> uid_of_user_service(std::string_view component) {
  constexpr std::string_view kPrefix = "user@";
  constexpr std::string_view kSuffix = ".service";
  if (!component.starts_with(kPrefix) || !component.ends_with(kSuffix)) return std::nullopt;
  component.remove_prefix(kPrefix.size());
  return parse_count(component.substr(0, component.size() - kSuffix.size()));
}

/// systemd.slice(5): "a-b.slice" lies at "/a.slice/a-b.slice".
std::optional<std::string> slice_path(std::string_view name) {
  constexpr std::string_view kSlice = ".slice";
  if (!name.ends_with(kSlice) || name.find('/') != std::string_view::npos) return std::nullopt;
  const auto stem = name.substr(0, name.size() - kSlice.size());
  if (stem.empty() || stem.starts_with('-') || stem.ends_with('-')) return std::nullopt;
  std::string path;
  for (auto dash = stem.find('-'); dash != std::string_view::npos; dash = stem.find('-', dash + 1)) {
    path += "/" + std::string{stem.substr(0, dash)} + std::string{kSlice};
  }
  return path + "/" + std::string{name};
}

/// The container that one component of a path stands for.
struct NamedContainer {
  std::string name;
  std::string_view runtime;
};

/// systemd writes what a name may not hold as "\x2d".
std::string unescaped(std::string_view name) {
  const auto digit = [](char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; };
  std::string result;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const bool escape =
        name.substr(i).starts_with("\\x") && i + 3 < name.size() && digit(name[i + 2]) >= 0 && digit(name[i + 3]) >= 0;
    if (!escape) {
      result += name[i];
      continue;
    }
    result += static_cast<char>(digit(name[i + 2]) * 16 + digit(name[i + 3]));
    i += 3;
  }
  return result;
}

/// Virtual machines and systemd's own containers lie in one slice.
std::optional<std::string> machine_at(std::string_view component) {
  for (const auto& [prefix, suffix] : {std::pair<std::string_view, std::string_view>{"machine-", ".scope"},
                                       std::pair<std::string_view, std::string_view>{"systemd-nspawn@", ".service"}}) {
    if (!component.starts_with(prefix) || !component.ends_with(suffix)) continue;
    component.remove_prefix(prefix.size());
    component.remove_suffix(suffix.size());
    return unescaped(component);
  }
  return std::nullopt;
}

std::string_view runtime_of_prefix(std::string_view component) {
  if (component.starts_with("docker-")) return "docker";
  if (component.starts_with("libpod-")) return "podman";
  if (component.starts_with("crio-")) return "cri-o";
  return "containerd";
}

std::optional<NamedContainer> container_at(std::string_view component, std::string_view parent) {
  constexpr std::string_view kLxcPayload = "lxc.payload.";
  constexpr std::string_view kPodmanPrefix = "libpod-";  // without ".scope" where Podman makes its groups itself
  if (component.starts_with(kLxcPayload))
    return NamedContainer{std::string{component.substr(kLxcPayload.size())}, "lxc"};
  if (parent == "lxc") return NamedContainer{std::string{component}, "lxc"};
  if (parent == "machine.slice") {
    if (auto name = machine_at(component)) return NamedContainer{std::move(*name), "machine"};
  }
  if (const auto id = id_of_scope(component)) return NamedContainer{std::string{*id}, runtime_of_prefix(component)};
  if (component.starts_with(kPodmanPrefix) && is_container_id(component.substr(kPodmanPrefix.size()))) {
    return NamedContainer{std::string{component.substr(kPodmanPrefix.size())}, "podman"};
  }
  // Under another parent it may be Docker's with a parent of the user's, or a namespace of containerd.
  if (is_container_id(component)) return NamedContainer{std::string{component}, parent == "docker" ? "docker" : ""};
  return std::nullopt;
}

bool leaves_mount(std::string_view cgroup_path) { return cgroup_path == "/.." || cgroup_path.starts_with("/../"); }

}  // namespace

CgroupMemory parse_cgroup_v2(std::string_view memory_stat, std::string_view memory_events,
                             std::string_view memory_current) {
  CgroupMemory memory;
  memory.anon = find_bytes(memory_stat, "anon");
  memory.shmem = find_bytes(memory_stat, "shmem");
  memory.file = find_bytes(memory_stat, "file");
  memory.sock = find_bytes(memory_stat, "sock");
  memory.current = as_bytes(parse_count(trim(memory_current)));
  memory.kernel = find_bytes(memory_stat, "kernel");
  if (!memory.kernel) memory.kernel = kernel_without_its_line(memory_stat, memory);
  memory.oom_kills = find_flat_value(memory_events, "oom_kill");
  return memory;
}

CgroupMemory parse_cgroup_v1(std::string_view memory_stat, std::string_view kmem_usage, std::string_view oom_control,
                             std::string_view usage) {
  CgroupMemory memory;
  memory.anon = find_bytes(memory_stat, "total_rss");  // the total_ forms include the groups below
  memory.shmem = find_bytes(memory_stat, "total_shmem");
  memory.file = find_bytes(memory_stat, "total_cache");
  memory.current = as_bytes(parse_count(trim(usage)));
  memory.kernel = as_bytes(parse_count(trim(kmem_usage)));
  // A process needs at least a stack and page tables: 0 beside used memory means that the kernel does not account
  // its own (cgroup.memory=nokmem).
  if (memory.kernel == Bytes{} && memory.anon.value_or(Bytes{}) > Bytes{}) memory.kernel.reset();
  memory.oom_kills = find_flat_value(oom_control, "oom_kill");
  return memory;
}

std::optional<std::int64_t> hierarchical_limit(std::string_view memory_stat) {
  return find_flat_value(memory_stat, "hierarchical_memory_limit");
}

std::optional<CgroupPath> parse_proc_cgroup(std::string_view text) {
  std::optional<CgroupPath> unified;
  while (!text.empty()) {
    auto path = take_until(text, '\n');  // "hierarchy:controllers:path"; a path may hold colons
    const auto hierarchy = take_until(path, ':');
    auto controllers = take_until(path, ':');
    if (!path.starts_with('/')) continue;
    if (hierarchy == "0" && controllers.empty()) unified = CgroupPath{2, std::string{path}};
    while (!controllers.empty()) {
      // On a hybrid host the memory controller is where v1 says it is.
      if (take_until(controllers, ',') == "memory") return CgroupPath{1, std::string{path}};
    }
  }
  return unified;
}

GroupOwner group_owner(std::string_view cgroup_path) {
  const bool deleted = cgroup_path.ends_with(kDeleted);
  if (deleted) cgroup_path.remove_suffix(kDeleted.size());
  GroupOwner owner;
  owner.below_mount = !leaves_mount(cgroup_path);
  bool kubernetes = false;
  std::string_view parent;
  for (std::size_t at = 0; at < cgroup_path.size();) {
    const auto end = std::min(cgroup_path.find('/', at), cgroup_path.size());
    const auto component = cgroup_path.substr(at, end - at);
    const auto take = [&](GroupOwner::Kind kind, std::string name) {
      owner.kind = kind;
      owner.name = std::move(name);
      owner.path = cgroup_path.substr(0, end);
    };
    at = end + 1;
    if (component == "buildkit") return {};  // a build, not a container
    if (component.starts_with("kubepods")) kubernetes = true;
    if (const auto uid = uid_of_user_service(component)) owner.rootless_uid = uid;
    if (auto container = container_at(component, parent)) {
      take(deleted ? GroupOwner::Kind::removed_container : GroupOwner::Kind::container, std::move(container->name));
      owner.runtime = kubernetes ? "kubernetes" : container->runtime;
      return owner;
    }
    if (component.ends_with(".service") || component.ends_with(".scope")) {
      take(GroupOwner::Kind::unit, std::string{component});
    }
    parent = component;
  }
  owner.rootless_uid.reset();
  return owner;
}

std::string container_of(std::string_view cgroup_path) {
  auto owner = group_owner(cgroup_path);
  return owner.kind == GroupOwner::Kind::removed_container ? "removed container" : std::move(owner.name);
}

std::optional<ContainerGroup> container_group(std::string_view cgroup_path) {
  if (cgroup_path.ends_with(kDeleted)) return std::nullopt;
  ContainerGroup group;
  group.below_mount = !leaves_mount(cgroup_path);
  std::string_view parent;
  for (std::size_t at = 0; at < cgroup_path.size();) {
    const auto end = std::min(cgroup_path.find('/', at), cgroup_path.size());
    const auto component = cgroup_path.substr(at, end - at);
    if (component == "buildkit") return std::nullopt;
    if (const auto uid = uid_of_user_service(component)) group.rootless_uid = uid;
    auto container = container_at(component, parent);
    if (container && is_container_id(container->name)) {
      group.id = std::move(container->name);
      group.path = cgroup_path.substr(0, end);
      return group;
    }
    parent = component;
    at = end + 1;
  }
  return std::nullopt;
}

std::optional<std::string> container_group_path(std::string_view driver, std::string_view parent, std::string_view id,
                                                bool rootless) {
  if (!is_container_id(id)) return std::nullopt;
  if (rootless && parent.empty()) return std::nullopt;
  if (driver == "cgroupfs") {
    std::string path{parent.empty() ? "/docker" : parent};
    if (!path.starts_with('/')) path.insert(0, "/");
    while (path.ends_with('/')) path.pop_back();
    return path + "/" + std::string{id};
  }
  if (driver != "systemd") return std::nullopt;
  const auto slice = slice_path(parent.empty() ? "system.slice" : parent);
  if (!slice) return std::nullopt;
  return *slice + "/docker-" + std::string{id} + ".scope";
}

}  // namespace dgxmm::host
