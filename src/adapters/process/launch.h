#pragma once
#include "core/host/readings.h"

#include <string_view>

namespace dgxmm::process {

/// The hidden subcommand under which the binary starts itself to become an engine.
inline constexpr std::string_view kLaunchCommand = "launch-engine";

/// The launcher reports on this descriptor, which closes by itself when the engine takes over.
inline constexpr int kLaunchReportFd = 3;

/// In the environment of every process of an instance: the name of the instance, and "<pid>:<start time>" of its first
/// process.
inline constexpr const char* kNameVariable = "DGXMM_INSTANCE";
inline constexpr const char* kFirstProcessVariable = host::kFirstProcessVariable;

enum class LaunchStep : int { cgroup, log, execute };

/// What the launcher writes when it cannot become the engine.
struct LaunchFailure {
  LaunchStep step = LaunchStep::execute;
  int error = 0;  ///< errno
};

/// The body of `dgxmm launch-engine --cgroup-procs FILE --oom-score-adj N --log FILE -- ENGINE ARGUMENT…`: enters the
/// cgroup, opens the log and becomes the engine, which so is charged there from its first byte and keeps the pid. Its
/// session, signals and descriptors are those that spawn() gave it. Returns only when that failed; main() calls it
/// before anything else.
int launch_engine(int argc, char** argv);

}  // namespace dgxmm::process
