#include "adapters/process/python_module.h"

#include "base/files.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

namespace dgxmm::process {
namespace {

constexpr mode_t kFolderMode = 0700;
constexpr mode_t kFileMode = 0600;

std::unexpected<Error> unusable(const std::filesystem::path& path) {
  return fail("state_unusable", fmt::format("cannot write {}: {}", path.string(), std::strerror(errno)),
              "the state folder needs space, and belongs to the user that dgxmm runs as", path.string());
}

}  // namespace

Result<void> write_module(const std::filesystem::path& folder, const engine::PythonModule& module) {
  if (::mkdir(folder.c_str(), kFolderMode) != 0 && errno != EEXIST) return unusable(folder);
  const auto path = folder / fmt::format("{}.py", module.name);
  if (read_text_file(path) == module.source) return {};
  auto beside = path;
  beside += ".new";
  {
    const FileDescriptor file{::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, kFileMode)};
    const auto size = static_cast<ssize_t>(module.source.size());
    if (!file || ::write(file.get(), module.source.data(), module.source.size()) != size) return unusable(beside);
  }
  if (::rename(beside.c_str(), path.c_str()) != 0) return unusable(path);
  return {};
}

}  // namespace dgxmm::process
