#include "core/container/log_stream.h"

#include "base/masking.h"
#include "core/container/documents.h"

#include <fmt/format.h>

#include <algorithm>

namespace dgxmm::container {
namespace {

constexpr std::size_t kHeaderBytes = 8;
constexpr std::size_t kFrameLimit = 16 * 1024 * 1024;
// A line of the program's; what follows in it is dropped. Room for the time before it.
constexpr std::size_t kLineLimit = 16 * 1024;
constexpr std::size_t kJsonLineLimit = 1024 * 1024;
constexpr int kStderr = 2;
constexpr int kEngineError = 3;

LogLine to_line(std::string_view text) {
  if (text.ends_with('\r')) text.remove_suffix(1);
  const auto space = std::min(text.find(' '), text.size());
  const auto time = parse_time(text.substr(0, space));
  if (!time) return {.time = {}, .text = std::string{text}};
  return {.time = time, .text = std::string{text.substr(std::min(space + 1, text.size()))}};
}

}  // namespace

Result<void> LogStream::read_header() {
  const auto byte = [this](std::size_t at) { return static_cast<unsigned char>(header_[at]); };
  type_ = byte(0);
  const bool padded = byte(1) == 0 && byte(2) == 0 && byte(3) == 0;
  left_ = (std::size_t{byte(4)} << 24U) | (std::size_t{byte(5)} << 16U) | (std::size_t{byte(6)} << 8U) | byte(7);
  header_.clear();
  if (type_ > kEngineError || !padded || left_ > kFrameLimit) {
    return fail("bad_log_stream", "the container's log is not framed as it should be");
  }
  return {};
}

void LogStream::take(std::string& line, std::string_view bytes, std::vector<LogLine>& lines) const {
  while (!bytes.empty()) {
    const auto end = bytes.find('\n');
    const auto part = bytes.substr(0, end);
    line += part.substr(0, kLineLimit - std::min(line.size(), kLineLimit));
    if (end == std::string_view::npos) return;
    lines.push_back(to_line(line));
    line.clear();
    bytes.remove_prefix(end + 1);
  }
}

Result<std::vector<LogLine>> LogStream::put(std::string_view bytes) {
  std::vector<LogLine> lines;
  if (tty_) {
    take(out_, bytes, lines);
    return lines;
  }
  while (!bytes.empty()) {
    if (left_ == 0) {
      const auto part = bytes.substr(0, kHeaderBytes - header_.size());
      header_ += part;
      bytes.remove_prefix(part.size());
      if (header_.size() < kHeaderBytes) break;
      if (auto read = read_header(); !read) return fail(read.error());
      continue;
    }
    const auto part = bytes.substr(0, left_);
    left_ -= part.size();
    bytes.remove_prefix(part.size());
    if (type_ == kEngineError) {
      engine_ += part.substr(0, kLineLimit - std::min(engine_.size(), kLineLimit));
      if (left_ > 0) continue;
      return fail("bad_log_stream", "the Docker Engine cannot read the container's log: " + printable(engine_));
    }
    take(type_ == kStderr ? err_ : out_, part, lines);
  }
  return lines;
}

std::vector<LogLine> LogStream::finish() {
  std::vector<LogLine> lines;
  for (auto* line : {&out_, &err_}) {
    if (!line->empty()) lines.push_back(to_line(*line));
    line->clear();
  }
  return lines;
}

Result<std::vector<std::string>> JsonLines::put(std::string_view bytes) {
  std::vector<std::string> lines;
  while (!bytes.empty()) {
    const auto end = bytes.find('\n');
    const auto part = bytes.substr(0, end);
    if (line_.size() + part.size() > kJsonLineLimit) {
      return fail("bad_event_stream", fmt::format("an event has more than {} bytes", kJsonLineLimit));
    }
    line_ += part;
    if (end == std::string_view::npos) break;
    if (line_.find_first_not_of(" \t\r") != std::string::npos) lines.push_back(line_);
    line_.clear();
    bytes.remove_prefix(end + 1);
  }
  return lines;
}

}  // namespace dgxmm::container
