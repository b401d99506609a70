#include "base/files.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

namespace dgxmm {

void FileDescriptor::reset(int number) {
  if (number_ >= 0) ::close(number_);
  number_ = number;
}

std::optional<std::string> read_text_file(const std::filesystem::path& path, std::size_t limit) {
  const FileDescriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (!file) return std::nullopt;
  constexpr std::size_t kStep = 4096;
  std::string text;
  while (text.size() < limit) {
    const std::size_t before = text.size();
    const std::size_t wanted = std::min(kStep, limit - before);
    text.resize(before + wanted);
    const ssize_t got = ::read(file.get(), text.data() + before, wanted);
    text.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got == 0) break;
    if (got < 0 && errno != EINTR) return std::nullopt;
  }
  return text;
}

}  // namespace dgxmm
