#include "adapters/modelfs/header_reader.h"

#include "base/files.h"
#include "base/masking.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <span>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace dgxmm::modelfs {
namespace {

// Holds the header of a model with 50k tokens; larger ones grow it.
constexpr std::uint64_t kFirstWindow = 2 * 1024 * 1024;

struct OpenFile {
  FileDescriptor descriptor;
  std::uint64_t size = 0;
};

std::unexpected<Error> system_failure(const std::filesystem::path& path, int error) {
  return fail("bad_model_file",
              fmt::format("{}: cannot be read: {}", printable(path.string()), std::generic_category().message(error)),
              error == EACCES ? "Let the user that runs dgxmm read it." : "", path.string());
}

Result<OpenFile> open_file(const std::filesystem::path& path) {
  // Non-blocking, or a FIFO with the name of a model would hold the thread.
  OpenFile file{.descriptor = FileDescriptor{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)}};
  if (!file.descriptor) {
    const int error = errno;
    if (error != ENOENT && error != ENOTDIR) return system_failure(path, error);
    std::error_code ignored;
    if (std::filesystem::is_symlink(std::filesystem::symlink_status(path, ignored))) {
      return fail("model_incomplete",
                  fmt::format("{}: is a link to a file that is not there", printable(path.string())),
                  "The download did not finish: start it again.", path.string());
    }
    return fail("model_not_found", fmt::format("{}: there is no such file", printable(path.string())), {},
                path.string());
  }
  struct stat status{};
  if (::fstat(file.descriptor.get(), &status) != 0) return system_failure(path, errno);
  if (!S_ISREG(status.st_mode)) {
    return fail("bad_model_file", fmt::format("{}: is not a file", printable(path.string())), {}, path.string());
  }
  file.size = static_cast<std::uint64_t>(status.st_size);
  return file;
}

/// The first bytes of a file. Grows, and keeps what it has read; not zeroed, for speed.
class Window {
 public:
  [[nodiscard]] std::span<const std::byte> bytes() const { return {data_.get(), size_}; }

  /// Reads up to `size` bytes from the start; fewer when the file has become shorter.
  Result<void> grow_to(std::uint64_t size, const OpenFile& file, const std::filesystem::path& path) {
    auto larger = std::make_unique_for_overwrite<std::byte[]>(size);
    if (size_ > 0) std::memcpy(larger.get(), data_.get(), size_);
    data_ = std::move(larger);
    while (size_ < size) {
      const auto got = ::pread(file.descriptor.get(), data_.get() + size_, size - size_, static_cast<off_t>(size_));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return system_failure(path, errno);
      if (got == 0) break;
      size_ += static_cast<std::uint64_t>(got);
    }
    return {};
  }

 private:
  std::unique_ptr<std::byte[]> data_;
  std::uint64_t size_ = 0;
};

}  // namespace

Result<model::GgufPart> read_gguf_file(const std::filesystem::path& path) {
  auto file = open_file(path);
  if (!file) return fail(std::move(file.error()));
  Window window;
  auto wanted = std::min(kFirstWindow, file->size);
  for (;;) {
    if (auto grown = window.grow_to(wanted, *file, path); !grown) return fail(std::move(grown.error()));
    if (window.bytes().size() < wanted) file->size = window.bytes().size();  // cut while it was read
    auto header = model::parse_gguf(path.string(), window.bytes(), file->size);
    if (header) return model::GgufPart{.path = path.string(), .size = file->size, .header = std::move(*header)};
    if (header.error().code != model::kNeedMoreBytes) return fail(std::move(header.error()));
    wanted = std::min({wanted * 2, file->size, model::kMaxGgufHeaderBytes});
  }
}

Result<model::SafetensorsPart> read_safetensors_file(const std::filesystem::path& path) {
  auto file = open_file(path);
  if (!file) return fail(std::move(file.error()));
  Window window;
  if (auto first = window.grow_to(std::min<std::uint64_t>(8, file->size), *file, path); !first) {
    return fail(std::move(first.error()));
  }
  const auto header_end = model::safetensors_header_end(path.string(), window.bytes(), file->size);
  if (!header_end) return fail(header_end.error());
  if (auto rest = window.grow_to(*header_end, *file, path); !rest) return fail(std::move(rest.error()));
  auto header = model::parse_safetensors(path.string(), window.bytes(), file->size);
  if (!header) return fail(std::move(header.error()));
  return model::SafetensorsPart{.path = path.string(), .size = file->size, .header = std::move(*header)};
}

Result<std::string> read_whole_file(const std::filesystem::path& path, std::uint64_t limit) {
  const auto file = open_file(path);
  if (!file) return fail(file.error());
  if (file->size > limit) {
    return fail("bad_model_file",
                fmt::format("{}: has {} bytes, more than {}", printable(path.string()), file->size, limit), {},
                path.string());
  }
  Window window;
  if (auto read = window.grow_to(file->size, *file, path); !read) return fail(std::move(read.error()));
  return std::string{reinterpret_cast<const char*>(window.bytes().data()), window.bytes().size()};
}

}  // namespace dgxmm::modelfs
