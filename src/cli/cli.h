#pragma once
#include "core/host/examination.h"
#include "core/settings/settings.h"
#include "ports/host_probe.h"
#include "ports/model_files.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace dgxmm::cli {

/// What `fit` and `budget` need of this machine when no daemon answers.
struct OfflineParts {
  std::unique_ptr<ports::ModelFiles> files;
  std::unique_ptr<ports::HostProbe> host;
};

/// What the composition root hands in: the daemon, and the adapters that this room must not know.
struct Composition {
  std::function<int(const settings::Settings&)> serve;  ///< runs the daemon; returns the exit code
  std::function<OfflineParts()> offline;                ///< called only when there is no daemon
  /// What `doctor` tells, of this host and what is installed on it.
  std::function<std::vector<host::Fact>(const settings::Settings&)> examine;
  std::string version;
  std::string commit;
};

/// Runs one command; returns the exit code of the process (exit_codes.h).
int run(int argc, char** argv, const Composition& composition);

}  // namespace dgxmm::cli
