#include "adapters/process/spawn.h"

#include "adapters/process/launch.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <fcntl.h>
#include <spawn.h>
#include <string_view>
#include <unistd.h>

namespace dgxmm::process {
namespace {

constexpr std::array<std::string_view, 6> kOwnVariables{"NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC",
                                                        "LISTEN_FDS",    "LISTEN_PID",   "LISTEN_FDNAMES"};

// What an engine would take as flags: nobody has planned for them, and with a key it answers nobody, dgxmm included.
constexpr std::array<std::string_view, 3> kEngineFlags{"LLAMA_API_KEY", "VLLM_API_KEY", "VLLM_SERVER_DEV_MODE"};
constexpr std::string_view kEngineFlagPrefix = "LLAMA_ARG_";

std::string_view name_of(std::string_view variable) { return variable.substr(0, variable.find('=')); }

bool is_own(std::string_view name) {
  return name.starts_with("DGXMM_") || std::ranges::find(kOwnVariables, name) != kOwnVariables.end();
}

bool is_engine_flag(std::string_view name) {
  return name.starts_with(kEngineFlagPrefix) || std::ranges::find(kEngineFlags, name) != kEngineFlags.end();
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> list;
  // posix_spawn takes char* for the sake of C and writes to none of them.
  for (const auto& text : texts) list.push_back(const_cast<char*>(text.c_str()));
  list.push_back(nullptr);
  return list;
}

}  // namespace

Pipe make_pipe() {
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return {};
  return {.read = FileDescriptor{ends[0]}, .write = FileDescriptor{ends[1]}};
}

std::vector<std::string> child_environment(const Environment& added) {
  std::vector<std::string> own;
  for (char** variable = environ; *variable != nullptr; ++variable) own.emplace_back(*variable);
  return child_environment(std::move(own), added);
}

std::vector<std::string> child_environment(std::vector<std::string> own, const Environment& added) {
  std::erase_if(own, [&added](const std::string& variable) {
    const auto name = name_of(variable);
    return is_own(name) || is_engine_flag(name) ||
           std::ranges::find(added, name, &Environment::value_type::first) != added.end();
  });
  for (const auto& [name, value] : added) own.push_back(name + "=" + value);
  return own;
}

Spawned spawn(const SpawnOptions& options) {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  if (options.output >= 0) {
    posix_spawn_file_actions_adddup2(&files, options.output, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&files, options.output, STDERR_FILENO);
  }
  if (options.report >= 0) posix_spawn_file_actions_adddup2(&files, options.report, kLaunchReportFd);
  posix_spawn_file_actions_addclosefrom_np(&files, options.report >= 0 ? kLaunchReportFd + 1 : kLaunchReportFd);

  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);

  const auto arguments = pointers(options.arguments);
  const auto environment = pointers(options.environment);
  Spawned result;
  result.error = ::posix_spawnp(&result.pid, arguments[0], &files, &attributes, arguments.data(), environment.data());
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  return result;
}

}  // namespace dgxmm::process
