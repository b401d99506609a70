#pragma once
#include "base/files.h"

#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

namespace dgxmm::process {

using Environment = std::vector<std::pair<std::string, std::string>>;

struct Pipe {
  FileDescriptor read, write;
};

/// Closed on exec; empty ends when the limit of open files is reached.
Pipe make_pipe();

/// "NAME=value" of this process, without what is meant for it alone (its own settings and secrets, systemd's sockets
/// and watchdog) and what an engine would take as flags (LLAMA_ARG_*, API keys), and with `added` in place of what was
/// there.
std::vector<std::string> child_environment(const Environment& added);

/// The same from a given environment, to be tested.
std::vector<std::string> child_environment(std::vector<std::string> own, const Environment& added);

struct SpawnOptions {
  std::vector<std::string> arguments;  ///< the executable first, looked up in PATH
  std::vector<std::string> environment;
  int output = -1;  ///< becomes stdout and stderr; -1: those of this process
  int report = -1;  ///< becomes kLaunchReportFd
};

struct Spawned {
  pid_t pid = 0;
  int error = 0;  ///< errno; 0 = running
};

/// Starts a child in its own session with fresh signal handling, /dev/null as stdin and nothing else open.
Spawned spawn(const SpawnOptions& options);

}  // namespace dgxmm::process
