#pragma once
#include "core/engine/engine.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

namespace dgxmm::engine {

/// A recording in data/. Those named llama-server-0.7-b11669-* are what Debian's llama.cpp 0.7.0 (build 11669)
/// printed for SmolLM2-135M-Instruct on a CPU, without the lines that no test reads.
inline std::string recording(const std::string& name) {
  const auto path = std::filesystem::path{DGXMM_TEST_DATA} / "unit/core/engine/data" / name;
  std::ifstream file{path, std::ios::binary};
  if (!file) throw std::runtime_error("cannot read " + path.string());
  return {std::istreambuf_iterator<char>{file}, {}};
}

/// An engine's reader that has read these lines.
inline std::unique_ptr<LogReader> read_log(EngineKind kind, std::string_view log) {
  auto reader = make_log_reader(kind);
  while (!log.empty()) {
    const auto end = log.find('\n');
    reader->read_line(log.substr(0, end));
    log.remove_prefix(end == std::string_view::npos ? log.size() : end + 1);
  }
  return reader;
}

}  // namespace dgxmm::engine
