#include "adapters/system/process_environment.h"

#include <systemd/sd-daemon.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <sys/resource.h>
#include <system_error>
#include <unistd.h>

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

std::optional<std::string> host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0 || name.front() == '\0') return std::nullopt;
  return name.data();
}

bool program_exists(const std::string& program) {
  const auto can_run = [](const std::string& path) {
    std::error_code error;
    return std::filesystem::is_regular_file(path, error) && ::access(path.c_str(), X_OK) == 0;
  };
  if (program.find('/') != std::string::npos) return can_run(program);
  const char* path = std::getenv("PATH");
  std::istringstream folders{path == nullptr ? "" : path};
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (can_run((folder.empty() ? "." : folder) + "/" + program)) return true;
  }
  return false;
}

}  // namespace dgxmm::system
