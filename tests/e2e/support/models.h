#pragma once
// Model files that are not what they should be.
#include "tools/gguf_writer.h"

#include <filesystem>

namespace dgxmm::e2e {

/// A valid file of a supported architecture that lacks all but the first of its tensors: dgxmm can size it, and
/// llama-server finds out while it loads.
inline std::filesystem::path model_without_its_last_tensors(const std::filesystem::path& folder) {
  const testing::DenseGguf shape;
  testing::GgufWriter writer;
  testing::add_dense_keys(writer, shape);
  testing::add_tokenizer(writer, shape.n_vocab);
  writer.tensor("token_embd.weight", shape.type, {shape.n_embd, shape.n_vocab});
  auto path = folder / "broken.gguf";
  writer.write(path, true);
  return path;
}

/// An encoder with a decoder.
inline std::filesystem::path model_of_unsupported_architecture(const std::filesystem::path& folder) {
  testing::DenseGguf shape;
  shape.arch = "t5";
  auto path = folder / "t5.gguf";
  testing::write_dense_gguf(path, shape);
  return path;
}

}  // namespace dgxmm::e2e
