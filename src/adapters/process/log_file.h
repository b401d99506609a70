#pragma once
#include "base/result.h"
#include "ports/engine_logs.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace dgxmm::process {

/// Longest line that is handed on; what follows in the same line is dropped.
inline constexpr std::size_t kLogLineLimitBytes = 8 * 1024;

/// Cuts a stream of bytes into lines for people: a line ends with LF, CR or both (progress bars use CR alone), colours
/// and cursor movements are dropped, and so are lines with nothing in them.
class LineSplitter {
 public:
  void feed(std::string_view bytes, std::vector<std::string>& lines);
  /// The last line when it has no end yet.
  void finish(std::vector<std::string>& lines);
  void reset();

 private:
  enum class Escape { none, begun, control_sequence, text };  // ECMA-48: ESC, CSI, OSC and its like

  void take(char byte, std::vector<std::string>& lines);

  std::string line_;
  Escape escape_ = Escape::none;
};

/// Where `trim` keeps what it cuts off: the log's path + ".1".
std::filesystem::path older_part(const std::filesystem::path& log);

/// Bounds a log that an engine appends to: once it is larger than `limit_bytes`, its newest half is copied to
/// `older_part` (replacing the one before) and the log is emptied in place, where the engine's O_APPEND goes on. Lines
/// written within the microseconds between the last read and the emptying are lost. Errors: `log_unusable`.
Result<void> trim(const std::filesystem::path& log, std::int64_t limit_bytes);

/// The newest lines, oldest first, continued into `older_part` when the log holds fewer. No file, no lines.
std::vector<std::string> tail(const std::filesystem::path& log, std::size_t lines);

/// Survives a log that does not exist yet, that is emptied in place or replaced; then it goes on at the beginning.
/// Reads at most 1 MiB a call, the rest comes with the next ones.
class FileLogFollower final : public ports::LogFollower {
 public:
  FileLogFollower(std::filesystem::path log, bool from_start);

  std::vector<std::string> read_new() override;

 private:
  std::filesystem::path log_;
  LineSplitter splitter_;
  std::uint64_t inode_ = 0;
  std::int64_t offset_ = 0;
  std::string last_read_;  // the bytes before offset_, to notice that the file was emptied and has grown again
};

/// The engines' logs, each bounded to about one and a half times `limit_bytes` with its older part.
class FileEngineLogs final : public ports::EngineLogs {
 public:
  explicit FileEngineLogs(std::int64_t limit_bytes) : limit_bytes_(limit_bytes) {}

  std::unique_ptr<ports::LogFollower> follow(const std::string& path, bool from_start) override;
  std::vector<std::string> tail(const std::string& path, std::size_t lines) override;
  Result<void> append(const std::string& path, std::string_view lines) override;
  void trim(const std::string& path) override;
  void remove(const std::string& path) override;

 private:
  std::int64_t limit_bytes_;
};

}  // namespace dgxmm::process
