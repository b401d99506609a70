#include "adapters/system/process_environment.h"

#include <systemd/sd-daemon.h>

#include <algorithm>
#include <sys/resource.h>

namespace dgxmm::system {

void notify_ready() { sd_notify(0, "READY=1"); }
void notify_stopping() { sd_notify(0, "STOPPING=1"); }

void allow_many_descriptors() {
  constexpr rlim_t kEnough = 65'536;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= kEnough) return;
  limit.rlim_cur = std::min(limit.rlim_max, kEnough);
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace dgxmm::system
