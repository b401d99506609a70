#pragma once
#include "cli/command_line.h"

#include <string>

namespace dgxmm::cli {

/// A script that makes the shell (bash, zsh or fish) complete commands, options and their values.
std::string completion_script(const std::string& shell, const Grammar& grammar);

}  // namespace dgxmm::cli
