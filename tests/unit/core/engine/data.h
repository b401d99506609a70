#pragma once
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

namespace dgxmm::engine {

/// A recording in data/. Those named llama-server-0.7-b11669-* are what Debian's llama.cpp 0.7.0 (build 11669)
/// printed for SmolLM2-135M-Instruct on a CPU, without the lines that no test reads.
inline std::string recording(const std::string& name) {
  const auto path = std::filesystem::path{DGXMM_TEST_DATA} / "unit/core/engine/data" / name;
  std::ifstream file{path, std::ios::binary};
  if (!file) throw std::runtime_error("cannot read " + path.string());
  return {std::istreambuf_iterator<char>{file}, {}};
}

}  // namespace dgxmm::engine
