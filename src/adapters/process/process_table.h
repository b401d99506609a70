#pragma once
#include "base/files.h"
#include "core/host/readings.h"
#include "ports/container_runtime.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace dgxmm::process {

/// Of the running kernel.
const std::string& boot_id();

std::optional<host::ProcessStat> read_stat(std::int64_t pid);
host::ProcessMemory read_memory(std::int64_t pid);
/// All threads of these processes, each as a process has it: what waits inside the kernel may be any of them.
std::vector<host::ProcessStat> threads_of(const std::vector<std::int64_t>& pids);

/// Digest of an argument vector, stable between versions: FNV-1a over the arguments, each with its closing NUL.
std::string command_digest(std::span<const std::string> arguments);
/// The same of a running process; absent when it has none (a zombie).
std::optional<std::string> command_digest_of(std::int64_t pid);

/// Is the process with this number the one that was started? Boot id, pid and start time decide: the kernel gives such
/// a triple once. The command is a witness, but an honest engine may change it (a wrapper script that execs, a program
/// that sets its title); then the process must still lead the session that the launcher made, which nothing can change.
bool is_same_process(const ports::Instance& instance);

/// The processes of this host, one look after another: of one that it has seen before, its parent and its start are not
/// read again. Not for several threads at once.
class ProcessTable {
 public:
  /// The processes of an instance without a cgroup: its session, and the descendants of its first process. When the
  /// first process is gone, those of the session whose environment names the instance: the session's number alone could
  /// be somebody else's by then. A descendant that left the session and lost its parent is not found.
  std::vector<std::int64_t> tree_members(const ports::Instance& instance);

 private:
  /// The kernel makes a folder in /proc, with a number of its own, for each process that it shows, and throws it away
  /// with the process (or when memory is short): while the number is the same, so is the process.
  struct Known {
    std::uint64_t folder = 0;
    std::uint64_t parent_folder = 0;  ///< 0: it was not there. Only a parent that ends is exchanged for another
    host::ProcessStat stat;           ///< but for the session, which is asked for, and the state, which is old
  };

  std::vector<host::ProcessStat> look();

  std::unordered_map<std::int64_t, Known> known_;
};

/// The oldest of these that leads a session of its own, which is how the launcher starts every engine.
std::optional<host::ProcessStat> first_process(std::span<const std::int64_t> pids);

/// A process of an instance, by the marks that it has inherited.
struct MarkedMember {
  std::string name;  ///< of the instance
  std::int64_t pid = 0;
  std::int64_t first_pid = 0;  ///< of the first process, which may be gone
  std::uint64_t first_start_time_ticks = 0;
  bool is_first = false;  ///< it is that one
};
/// Every process of an instance on this host that has kept its environment.
std::vector<MarkedMember> marked_members();

/// A handle that stays with one process when its number is given to another. Empty: no such process (errno is ESRCH),
/// or no descriptor left.
FileDescriptor open_pidfd(std::int64_t pid);
/// Has the process of this handle ended, with all its threads?
bool has_ended(const FileDescriptor& pidfd);
bool send_signal(const FileDescriptor& pidfd, int signal);
/// To each process that `members` names, and to nobody who has got its number since.
void signal_all(const std::function<std::vector<std::int64_t>()>& members, int signal);

}  // namespace dgxmm::process
