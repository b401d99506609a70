#pragma once
#include "core/host/readings.h"
#include "ports/memory_groups.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dgxmm::process {

/// A memory cgroup of one engine.
using Group = host::CgroupPath;

/// Where this host has its memory controller, and which group the daemon itself is in.
struct CgroupHost {
  int version = 0;
  std::filesystem::path mount;
  std::string own_path;  ///< below the mount; empty when the namespace hides it
};

/// From the text of /proc/self/mountinfo and /proc/self/cgroup; absent when there is no memory controller.
std::optional<CgroupHost> find_cgroup_host(std::string_view mountinfo, std::string_view own_cgroup);

/// Groups that may hold the engines' groups, the best first. One outside the daemon's own group is better: systemd ends
/// everything below a service's group together with the service.
std::vector<std::string> candidate_parents(const CgroupHost& host);

/// Makes, reads and removes the memory cgroups of the engines; v1 and v2.
class MemoryCgroups final : public ports::MemoryGroups {
 public:
  /// `root` is prepended to the files of /proc and to the mount points; `parent` replaces the places that are tried.
  explicit MemoryCgroups(const std::filesystem::path& root = "/", std::optional<std::string> parent = {});

  /// A new, empty group; its name begins with `name` and has never been used before. Absent when none may be made.
  std::optional<Group> create(const std::string& name);
  /// The file through which a process enters.
  [[nodiscard]] std::filesystem::path procs_file(const Group& group) const;
  [[nodiscard]] std::optional<host::CgroupMemory> read(const Group& group) const override;
  [[nodiscard]] std::vector<std::int64_t> members(const Group& group) const override;
  void kill(const Group& group) const override;
  /// Every group that was made here, for a name that begins with `prefix`, and still exists.
  [[nodiscard]] std::vector<Group> groups(std::string_view prefix) const;
  /// What `create` was given for this group.
  [[nodiscard]] std::string name_of(const Group& group) const;
  /// Removes it if it is empty: the kernel refuses otherwise.
  void remove(const Group& group) const;
  /// Removes the empty ones of these groups. Those of another daemon's engines are not ours to remove: an empty group
  /// may be about to be entered, or hold the proof of a kill.
  void remove_leftovers(std::string_view prefix) const;

 private:
  [[nodiscard]] std::filesystem::path folder(std::string_view path) const;
  [[nodiscard]] bool prepare_parent(const std::string& path) const;

  std::optional<CgroupHost> host_;
  std::vector<std::string> parents_;
};

}  // namespace dgxmm::process
