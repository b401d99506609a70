#pragma once
#include "base/result.h"
#include "core/container/container.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dgxmm::container {

/// A line of a container's log, asked for with `timestamps=1`. Without its line end.
struct LogLine {
  std::optional<EngineTime> time;  ///< when the engine wrote it down; absent: the line has none
  std::string text;
  friend bool operator==(const LogLine&, const LogLine&) = default;
};

/// Reads what `GET /containers/{id}/logs` sends, however it is cut. Whether it is framed is known from the container
/// (`Config.Tty`), never from the bytes: a raw line can look like a header. Frames are {type, 0, 0, 0, length,
/// big-endian} and bytes; a line may go through several, each of stdout and stderr has its own
/// (docs.docker.com/reference/api/engine, "Attach to a container").
class LogStream {
 public:
  explicit LogStream(bool tty) : tty_(tty) {}

  /// The lines that are complete now. Errors: `bad_log_stream` (no frame can begin so, or one of more than 16 MiB, or a
  /// message of the engine's in place of a log): what follows has no meaning.
  Result<std::vector<LogLine>> put(std::string_view bytes);
  /// The lines that have no end yet: to be taken when the stream has ended.
  std::vector<LogLine> finish();

 private:
  Result<void> read_header();
  void take(std::string& line, std::string_view bytes, std::vector<LogLine>& lines) const;

  bool tty_;
  std::string header_;
  std::size_t left_ = 0;  // of the frame
  int type_ = 0;
  std::string out_, err_, engine_;
};

/// Cuts a stream of JSON objects, one a line, into their texts.
class JsonLines {
 public:
  /// The lines that are complete now, without empty ones. Errors: `bad_event_stream` for a line of more than 1 MiB.
  Result<std::vector<std::string>> put(std::string_view bytes);

 private:
  std::string line_;
};

}  // namespace dgxmm::container
