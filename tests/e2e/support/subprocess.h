#pragma once
#include "e2e/support/environment.h"

#include <chrono>
#include <csignal>
#include <filesystem>
#include <optional>
#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

namespace dgxmm::e2e {

using Variables = std::vector<std::pair<std::string, std::string>>;

/// A program that runs. What it writes goes to files, so that nobody has to read it for the program to go on. Ends with
/// this object, and also when the test itself is killed.
class Subprocess {
 public:
  /// Of the test's environment the program gets what does not concern dgxmm, and `added`.
  Subprocess(const std::vector<std::string>& arguments, const Variables& added);
  Subprocess(const Subprocess&) = delete;
  Subprocess& operator=(const Subprocess&) = delete;
  ~Subprocess();

  [[nodiscard]] pid_t pid() const { return pid_; }
  void signal(int number) const;
  /// As a shell has it: the exit code, or 128 + the signal. Nothing: it runs on after `limit`.
  std::optional<int> wait(std::chrono::milliseconds limit = kPatience);
  [[nodiscard]] std::string out() const { return read_file(folder_.path() / "out"); }
  [[nodiscard]] std::string err() const { return read_file(folder_.path() / "err"); }

 private:
  TempDir folder_;
  pid_t pid_ = -1;
  std::optional<int> ended_;
};

/// A program that has run to its end.
struct Run {
  int exit_code = -1;  ///< as a shell has it; -1: it did not end in time
  std::string out;
  std::string err;

  [[nodiscard]] std::string all() const { return out + err; }
};
Run run_program(const std::vector<std::string>& arguments, const Variables& added);

/// The same on a terminal of that width, where both outputs are one.
Run run_on_terminal(const std::vector<std::string>& arguments, const Variables& added, unsigned short columns);

/// The processes whose environment has this entry: "NAME=VALUE".
std::vector<pid_t> processes_with(const std::string& entry);
/// Does the environment of the process have an entry that begins like this?
bool has_variable(pid_t pid, const std::string& beginning);

/// The memory cgroup of a process, as a folder; nothing when it has none but the root.
std::optional<std::filesystem::path> memory_cgroup_of(pid_t pid);

/// Not of one that has ended and waits for whoever inherited it to take notice.
bool process_runs(pid_t pid);

}  // namespace dgxmm::e2e
