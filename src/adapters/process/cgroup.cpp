#include "adapters/process/cgroup.h"

#include "adapters/process/process_table.h"
#include "base/files.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <fcntl.h>
#include <random>
#include <sstream>
#include <string_view>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace dgxmm::process {
namespace {

namespace fs = std::filesystem;

// Docker's cgroupfs driver makes its groups at the same place, beside systemd's slices.
constexpr std::string_view kFolder = "/dgxmm";
constexpr mode_t kFolderMode = 0755;

struct Mount {
  std::string root, point, type, options;
};

// proc(5): id parent major:minor root point options [optional]... - type source super-options
std::optional<Mount> parse_mount(const std::string& line) {
  std::istringstream words{line};
  Mount mount;
  std::string skipped;
  words >> skipped >> skipped >> skipped >> mount.root >> mount.point;
  while (words >> skipped && skipped != "-") {
  }
  if (!(words >> mount.type >> skipped >> mount.options)) return std::nullopt;
  return mount;
}

bool has_word(std::string_view list, std::string_view wanted, char separator) {
  while (!list.empty()) {
    const auto end = std::min(list.find(separator), list.size());
    if (list.substr(0, end) == wanted) return true;
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return false;
}

// A mount may show only a part of the hierarchy; paths of /proc are those of the whole.
std::string below_mount(std::string path, const std::string& mount_root) {
  if (path.starts_with("/..")) return {};  // outside of our cgroup namespace
  if (mount_root == "/") return path;
  if (path == mount_root) return "/";
  return path.starts_with(mount_root + "/") ? path.substr(mount_root.size()) : std::string{};
}

bool write_text(const fs::path& path, std::string_view text) {
  const FileDescriptor file{::open(path.c_str(), O_WRONLY | O_CLOEXEC)};
  return file && ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

// Children of a v2 group have memory files only when the group hands the controller down.
bool hand_down_memory(const fs::path& folder) {
  std::string controllers = read_text_file(folder / "cgroup.subtree_control").value_or("");
  std::ranges::replace(controllers, '\n', ' ');
  return has_word(controllers, "memory", ' ') || write_text(folder / "cgroup.subtree_control", "+memory");
}

std::string_view usage_file(int version) { return version == 2 ? "memory.current" : "memory.usage_in_bytes"; }

}  // namespace

std::optional<CgroupHost> find_cgroup_host(std::string_view mountinfo, std::string_view own_cgroup) {
  std::optional<Mount> v1, v2;
  std::istringstream lines{std::string{mountinfo}};
  for (std::string line; std::getline(lines, line);) {
    auto mount = parse_mount(line);
    if (!mount) continue;
    if (mount->type == "cgroup2" && !v2)
      v2 = std::move(mount);
    else if (mount->type == "cgroup" && has_word(mount->options, "memory", ',') && !v1)
      v1 = std::move(mount);
  }
  // A hybrid host has both; the controller is with v1 then.
  const auto& mount = v1 ? v1 : v2;
  if (!mount) return std::nullopt;
  CgroupHost host{.version = v1 ? 1 : 2, .mount = mount->point, .own_path = {}};
  const auto own = host::parse_proc_cgroup(own_cgroup);
  if (own && own->version == host.version) host.own_path = below_mount(own->path, mount->root);
  return host;
}

std::vector<std::string> candidate_parents(const CgroupHost& host) {
  std::vector<std::string> parents{std::string{kFolder}};
  if (host.own_path.empty() || host.own_path == "/") return parents;
  // v2 does not allow groups below one that holds processes, so a sibling of our own; a delegated service has it within
  // its own group when the unit says DelegateSubgroup=.
  const std::string base = host.version == 2 ? fs::path{host.own_path}.parent_path().string() : host.own_path;
  if (base != "/") parents.push_back(base + std::string{kFolder});
  return parents;
}

MemoryCgroups::MemoryCgroups(const fs::path& root, std::optional<std::string> parent) {
  host_ = find_cgroup_host(read_text_file(root / "proc/self/mountinfo").value_or(""),
                           read_text_file(root / "proc/self/cgroup").value_or(""));
  if (!host_) return;
  host_->mount = root / host_->mount.relative_path();
  parents_ = parent ? std::vector{*parent} : candidate_parents(*host_);
}

fs::path MemoryCgroups::folder(std::string_view path) const {
  return host_ ? host_->mount / fs::path{path}.relative_path() : fs::path{};
}

bool MemoryCgroups::prepare_parent(const std::string& path) const {
  const fs::path parent = folder(path);
  if (host_->version == 2 && !hand_down_memory(parent.parent_path())) return false;
  if (::mkdir(parent.c_str(), kFolderMode) != 0 && !fs::is_directory(parent)) return false;
  return host_->version == 1 || hand_down_memory(parent);
}

std::optional<Group> MemoryCgroups::create(const std::string& name) {
  if (!host_) return std::nullopt;
  std::random_device random;
  for (const auto& parent : parents_) {
    if (!prepare_parent(parent)) continue;
    // A name of its own for each start: the old group's counters and its last processes are not this one's.
    Group group{.version = host_->version, .path = fmt::format("{}/{}-{:08x}", parent, name, random())};
    const fs::path made = folder(group.path);
    if (::mkdir(made.c_str(), kFolderMode) != 0) continue;
    if (::access((made / usage_file(group.version)).c_str(), R_OK) == 0 &&
        ::access(procs_file(group).c_str(), W_OK) == 0) {
      return group;
    }
    remove(group);
  }
  return std::nullopt;
}

fs::path MemoryCgroups::procs_file(const Group& group) const { return folder(group.path) / "cgroup.procs"; }

std::optional<host::CgroupMemory> MemoryCgroups::read(const Group& group) const {
  if (!host_ || host_->version != group.version) return std::nullopt;
  const fs::path where = folder(group.path);
  const auto text = [&](std::string_view file) { return read_text_file(where / file).value_or(""); };
  const auto stat = read_text_file(where / "memory.stat");
  if (!stat) return std::nullopt;
  if (group.version == 2) return host::parse_cgroup_v2(*stat, text("memory.events"), text("memory.current"));
  return host::parse_cgroup_v1(*stat, text("memory.kmem.usage_in_bytes"), text("memory.oom_control"),
                               text("memory.usage_in_bytes"));
}

void MemoryCgroups::kill(const Group& group) const {
  signal_all([&] { return members(group); }, SIGKILL);
}

std::vector<std::int64_t> MemoryCgroups::members(const Group& group) const {
  std::vector<std::int64_t> pids;
  if (!host_ || host_->version != group.version) return pids;
  const auto collect = [&pids](const fs::path& where) {
    std::istringstream numbers{read_text_file(where / "cgroup.procs").value_or("")};
    for (std::int64_t pid = 0; numbers >> pid;) pids.push_back(pid);
  };
  const fs::path top = folder(group.path);
  collect(top);
  std::error_code ended;
  for (fs::recursive_directory_iterator entry{top, ended}, end; !ended && entry != end; entry.increment(ended)) {
    if (entry->is_directory(ended)) collect(entry->path());
  }
  return pids;
}

void MemoryCgroups::remove(const Group& group) const {
  if (!host_ || host_->version != group.version) return;
  ::rmdir(folder(group.path).c_str());
}

std::vector<Group> MemoryCgroups::groups(std::string_view prefix) const {
  std::vector<Group> found;
  for (const auto& parent : parents_) {
    std::error_code ended;
    for (fs::directory_iterator entry{folder(parent), ended}, end; !ended && entry != end; entry.increment(ended)) {
      const std::string name = entry->path().filename().string();
      if (!name.starts_with(prefix) || !entry->is_directory(ended)) continue;
      found.push_back({.version = host_->version, .path = parent + "/" + name});
    }
  }
  return found;
}

std::string MemoryCgroups::name_of(const Group& group) const {
  const std::string folder_name = fs::path{group.path}.filename().string();
  return folder_name.substr(0, folder_name.rfind('-'));
}

void MemoryCgroups::remove_leftovers(std::string_view prefix) const {
  for (const auto& group : groups(prefix)) remove(group);
}

}  // namespace dgxmm::process
