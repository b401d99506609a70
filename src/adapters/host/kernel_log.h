#pragma once
#include <string>

namespace dgxmm::host {

/// What the kernel's log holds now, a record a line as /dev/kmsg gives it; empty when it may not be read (it takes
/// CAP_SYSLOG).
std::string read_kernel_log();

}  // namespace dgxmm::host
