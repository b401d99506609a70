#include "adapters/host/kernel_log.h"

#include "base/files.h"

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

namespace dgxmm::host {

std::string read_kernel_log() {
  // More than the kernel keeps by default.
  constexpr std::size_t kLimitBytes = 8 * 1024 * 1024;
  const FileDescriptor file{::open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC)};
  std::string text;
  std::array<char, 8192> record;  // NOLINT(cppcoreguidelines-pro-type-member-init): written by read
  while (file && text.size() < kLimitBytes) {
    const auto got = ::read(file.get(), record.data(), record.size());  // one record each
    if (got < 0 && (errno == EPIPE || errno == EINTR)) continue;        // overwritten before it was read: the next
    if (got <= 0) break;
    text.append(record.data(), static_cast<std::size_t>(got));
  }
  return text;
}

}  // namespace dgxmm::host
