#pragma once
#include "base/clock.h"
#include "cli/cli.h"
#include "cli/console.h"

#include <string>
#include <vector>

namespace dgxmm::cli {

/// `run` on any console and clock: what the tests drive. `arguments` without the program's name.
int run(std::vector<std::string> arguments, const Composition& composition, Console console, const Clock& clock);

}  // namespace dgxmm::cli
