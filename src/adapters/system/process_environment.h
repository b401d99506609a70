#pragma once
#include <optional>
#include <string>

namespace dgxmm::system {

/// Tells systemd that the service is up or going down; does nothing when it was not started by systemd.
void notify_ready();
void notify_stopping();

/// Raises the soft limit of open descriptors: each listener to events is one, and 1,024 are the usual default.
void allow_many_descriptors();

/// Name of this machine; nothing when it has none.
std::optional<std::string> host_name();

/// A program that can be run: a path, or a name on the PATH.
bool program_exists(const std::string& program);

}  // namespace dgxmm::system
