#include "adapters/store/start_record_file.h"

#include "base/files.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>

namespace dgxmm::store {
namespace {

constexpr mode_t kFileMode = 0600;

std::unexpected<Error> unusable(const std::filesystem::path& path) {
  return fail("state_unusable", fmt::format("cannot write {}: {}", path.string(), std::strerror(errno)),
              "the state folder needs space, and belongs to the user that dgxmm runs as", path.string());
}

bool write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const auto written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace

Result<void> StartRecordFile::write(const std::string& document) {
  auto beside = path_;
  beside += ".new";
  {
    const FileDescriptor file{::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, kFileMode)};
    if (!file || !write_all(file.get(), document) || ::fsync(file.get()) != 0) return unusable(beside);
  }
  if (::rename(beside.c_str(), path_.c_str()) != 0) return unusable(path_);
  const auto folder = path_.parent_path();
  const FileDescriptor entries{::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (!entries || ::fsync(entries.get()) != 0) return unusable(folder);
  return {};
}

std::optional<std::string> StartRecordFile::read() { return read_text_file(path_); }

void StartRecordFile::clear() { ::unlink(path_.c_str()); }

}  // namespace dgxmm::store
