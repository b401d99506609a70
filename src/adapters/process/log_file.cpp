#include "adapters/process/log_file.h"

#include "base/files.h"
#include "base/log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <iterator>
#include <memory>
#include <optional>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace dgxmm::process {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kReadLimitBytes = 1024 * 1024;
constexpr std::size_t kCopyStepBytes = 64 * 1024;
constexpr std::size_t kWitnessBytes = 64;
constexpr mode_t kLogMode = 0600;

FileDescriptor open_for_reading(const fs::path& log) {
  return FileDescriptor{::open(log.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
}

std::optional<struct stat> status_of(const FileDescriptor& file) {
  struct stat status{};
  if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  return status;
}

/// Fewer bytes than wanted: the file ends there, or cannot be read.
std::string read_at(const FileDescriptor& file, std::int64_t offset, std::size_t wanted) {
  std::string bytes(wanted, '\0');
  std::size_t have = 0;
  while (have < wanted) {
    const ssize_t got = ::pread(file.get(), bytes.data() + have, wanted - have, offset + static_cast<off_t>(have));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    have += static_cast<std::size_t>(got);
  }
  bytes.resize(have);
  return bytes;
}

bool write_all(const FileDescriptor& file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

auto unusable(const fs::path& log, std::string_view doing) {
  return fail("log_unusable", fmt::format("cannot {} {}: {}", doing, log.string(), std::strerror(errno)),
              "check the permissions and the free space of its folder", log.string());
}

/// The lines of the last MiB of one file.
std::vector<std::string> last_lines(const fs::path& path) {
  std::vector<std::string> lines;
  const auto file = open_for_reading(path);
  const auto status = status_of(file);
  if (!status) return lines;
  const std::int64_t start = std::max<std::int64_t>(0, status->st_size - static_cast<std::int64_t>(kReadLimitBytes));
  std::string bytes = read_at(file, start, kReadLimitBytes);
  if (start > 0) bytes.erase(0, std::min(bytes.find('\n'), bytes.size() - 1) + 1);  // not from within a line
  LineSplitter splitter;
  splitter.feed(bytes, lines);
  splitter.finish(lines);
  return lines;
}

}  // namespace

void LineSplitter::feed(std::string_view bytes, std::vector<std::string>& lines) {
  for (const char byte : bytes) take(byte, lines);
}

void LineSplitter::take(char byte, std::vector<std::string>& lines) {
  constexpr char kEscape = '\x1b';
  constexpr char kBell = '\a';
  // The end of a line ends an escape that was never finished, too: a broken one must not swallow the log.
  if (byte == '\n' || byte == '\r') return finish(lines);
  switch (escape_) {
    case Escape::none:
      if (byte == kEscape)
        escape_ = Escape::begun;
      else if (line_.size() < kLogLineLimitBytes)
        line_.push_back(byte);
      return;
    case Escape::begun:
      if (byte == '[')
        escape_ = Escape::control_sequence;
      else if (byte == ']' || byte == 'P' || byte == '_' || byte == '^')
        escape_ = Escape::text;
      else if (byte < ' ' || byte > '/')
        escape_ = Escape::none;  // anything between is an intermediate byte
      return;
    case Escape::control_sequence:
      if (byte >= '@' && byte <= '~') escape_ = Escape::none;
      return;
    case Escape::text:
      if (byte == kBell)
        escape_ = Escape::none;
      else if (byte == kEscape)
        escape_ = Escape::begun;  // of the closing ESC backslash
      return;
  }
}

void LineSplitter::finish(std::vector<std::string>& lines) {
  escape_ = Escape::none;
  if (!line_.empty()) lines.push_back(std::exchange(line_, {}));
}

void LineSplitter::reset() {
  line_.clear();
  escape_ = Escape::none;
}

fs::path older_part(const fs::path& log) {
  fs::path older = log;
  older += ".1";
  return older;
}

Result<void> trim(const fs::path& log, std::int64_t limit_bytes) {
  const FileDescriptor file{::open(log.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)};
  if (!file && errno == ENOENT) return {};
  const auto status = status_of(file);
  if (!status) return unusable(log, "open");
  if (status->st_size <= limit_bytes) return {};

  fs::path copy = log;
  copy += ".new";
  const FileDescriptor kept{::open(copy.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, kLogMode)};
  if (!kept) return unusable(copy, "write");
  std::int64_t offset = status->st_size - limit_bytes / 2;
  bool within_line = true;
  std::int64_t written = 0;
  std::int64_t whole_lines = 0;  // of what was written; a read can see the first part of a line that is being written
  for (;;) {
    const std::string bytes = read_at(file, offset, kCopyStepBytes);
    if (bytes.empty()) break;
    offset += static_cast<std::int64_t>(bytes.size());
    std::string_view rest = bytes;
    if (within_line) {  // begin with a whole line
      const auto end = rest.find('\n');
      within_line = end == std::string_view::npos;
      rest.remove_prefix(within_line ? rest.size() : end + 1);
    }
    if (!write_all(kept, rest)) {
      auto failure = unusable(copy, "write");
      ::unlink(copy.c_str());  // on a full disk least of all
      return failure;
    }
    if (const auto end = rest.rfind('\n'); end != std::string_view::npos) {
      whole_lines = written + static_cast<std::int64_t>(end) + 1;
    }
    written += static_cast<std::int64_t>(rest.size());
  }
  if (::ftruncate(kept.get(), whole_lines) != 0) return unusable(copy, "shorten");
  if (::ftruncate(file.get(), 0) != 0) return unusable(log, "shorten");
  if (::rename(copy.c_str(), older_part(log).c_str()) != 0) return unusable(copy, "rename");
  return {};
}

std::vector<std::string> tail(const fs::path& log, std::size_t lines) {
  auto newest = last_lines(log);
  if (newest.size() < lines) {
    auto older = last_lines(older_part(log));
    older.insert(older.end(), std::make_move_iterator(newest.begin()), std::make_move_iterator(newest.end()));
    newest = std::move(older);
  }
  if (newest.size() > lines) newest.erase(newest.begin(), newest.end() - static_cast<std::ptrdiff_t>(lines));
  return newest;
}

FileLogFollower::FileLogFollower(fs::path log, bool from_start) : log_(std::move(log)) {
  if (from_start) return;
  const auto file = open_for_reading(log_);
  const auto status = status_of(file);
  if (!status) return;
  inode_ = status->st_ino;
  offset_ = status->st_size;
  const auto witness = std::min<std::int64_t>(offset_, kWitnessBytes);
  last_read_ = read_at(file, offset_ - witness, static_cast<std::size_t>(witness));
}

std::vector<std::string> FileLogFollower::read_new() {
  std::vector<std::string> lines;
  const auto file = open_for_reading(log_);
  const auto status = status_of(file);
  if (!status) return lines;
  const bool same =
      inode_ == status->st_ino && offset_ <= status->st_size &&
      read_at(file, offset_ - static_cast<std::int64_t>(last_read_.size()), last_read_.size()) == last_read_;
  if (!same) {
    splitter_.reset();
    offset_ = 0;
    last_read_.clear();
    inode_ = status->st_ino;
  }
  const std::string bytes = read_at(file, offset_, kReadLimitBytes);
  splitter_.feed(bytes, lines);
  offset_ += static_cast<std::int64_t>(bytes.size());
  last_read_ += bytes;
  last_read_.erase(0, last_read_.size() - std::min(last_read_.size(), kWitnessBytes));
  return lines;
}

std::unique_ptr<ports::LogFollower> FileEngineLogs::follow(const std::string& path, bool from_start) {
  return std::make_unique<FileLogFollower>(path, from_start);
}

std::vector<std::string> FileEngineLogs::tail(const std::string& path, std::size_t lines) {
  return process::tail(path, lines);
}

Result<void> FileEngineLogs::append(const std::string& path, std::string_view lines) {
  constexpr mode_t kOwnerOnly = 0600;
  const FileDescriptor file{::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, kOwnerOnly)};
  if (!file || !write_all(file, lines)) return unusable(path, "write");
  return {};
}

void FileEngineLogs::trim(const std::string& path) {
  if (const auto done = process::trim(path, limit_bytes_); !done) {
    log::warning("{} {}", done.error().message, done.error().hint);
  }
}

void FileEngineLogs::remove(const std::string& path) {
  ::unlink(path.c_str());
  ::unlink(older_part(path).c_str());
}

}  // namespace dgxmm::process
