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
#include <utility>
#include <vector>

namespace dgxmm::modelfs {
namespace {

struct OpenFile {
  FileDescriptor descriptor;
  std::uint64_t size = 0;
};

std::unexpected<Error> system_failure(const std::filesystem::path& path, int error) {
  return fail("bad_model_file",
              fmt::format("{}: cannot be read: {}", printable(path.string()), std::generic_category().message(error)),
              error == EACCES ? "let the user that runs dgxmm read it" : "", path.string());
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
                  "the download did not finish: start it again", path.string());
    }
    return fail("model_not_found", fmt::format("{}: there is no such file", printable(path.string())),
                "check the path; `dgxmm models` lists what is in the model folders", path.string());
  }
  struct stat status{};
  if (::fstat(file.descriptor.get(), &status) != 0) return system_failure(path, errno);
  if (!S_ISREG(status.st_mode)) {
    return fail("bad_model_file", fmt::format("{}: is not a file", printable(path.string())),
                "name a GGUF file, or a folder with config.json and safetensors", path.string());
  }
  file.size = static_cast<std::uint64_t>(status.st_size);
  return file;
}

/// Reads until `into` is full or the file ends. Never through a mapping: a file that is cut while it is read would end
/// the process.
Result<std::size_t> read_at(const OpenFile& file, const std::filesystem::path& path, std::uint64_t offset,
                            std::span<std::byte> into) {
  std::size_t done = 0;
  while (done < into.size()) {
    const auto got =
        ::pread(file.descriptor.get(), into.data() + done, into.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_failure(path, errno);
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

/// The first `size` bytes; fewer when the file has become shorter.
Result<std::vector<std::byte>> read_start(const OpenFile& file, const std::filesystem::path& path, std::uint64_t size) {
  std::vector<std::byte> bytes(std::min(size, file.size));
  const auto got = read_at(file, path, 0, bytes);
  if (!got) return fail(got.error());
  bytes.resize(*got);
  return bytes;
}

}  // namespace

Result<model::GgufPart> read_gguf_file(const std::filesystem::path& path, model::DigestOf digest_of,
                                       const model::StopAt& stop) {
  const auto file = open_file(path);
  if (!file) return fail(file.error());
  const auto read = [&](std::uint64_t offset, std::span<std::byte> into) { return read_at(*file, path, offset, into); };
  auto header = model::parse_gguf(path.string(), file->size, read, digest_of, stop);
  if (!header) return fail(std::move(header.error()));
  return model::GgufPart{.path = path.string(), .size = file->size, .header = std::move(*header)};
}

Result<model::SafetensorsPart> read_safetensors_file(const std::filesystem::path& path) {
  const auto file = open_file(path);
  if (!file) return fail(file.error());
  const auto length = read_start(*file, path, sizeof(std::uint64_t));
  if (!length) return fail(length.error());
  const auto header_end = model::safetensors_header_end(path.string(), *length, file->size);
  if (!header_end) return fail(header_end.error());
  const auto bytes = read_start(*file, path, *header_end);
  if (!bytes) return fail(bytes.error());
  auto header = model::parse_safetensors(path.string(), *bytes, file->size);
  if (!header) return fail(std::move(header.error()));
  return model::SafetensorsPart{.path = path.string(), .size = file->size, .header = std::move(*header)};
}

Result<std::string> read_whole_file(const std::filesystem::path& path, std::uint64_t limit) {
  const auto file = open_file(path);
  if (!file) return fail(file.error());
  if (file->size > limit) {
    return fail("bad_model_file",
                fmt::format("{}: has {} bytes, more than {}", printable(path.string()), file->size, limit),
                "no model has one as large: download it again", path.string());
  }
  const auto bytes = read_start(*file, path, file->size);
  if (!bytes) return fail(bytes.error());
  return std::string{reinterpret_cast<const char*>(bytes->data()), bytes->size()};
}

}  // namespace dgxmm::modelfs
