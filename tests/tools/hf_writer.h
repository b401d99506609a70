#pragma once
// Hugging Face model folders for tests and benchmarks: config.json and sparse safetensors files.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dgxmm::testing {

inline void write_text(const std::filesystem::path& path, std::string_view text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream out{path, std::ios::binary};
  out << text;
  if (!out.flush()) throw std::runtime_error("cannot write " + path.string());
}

/// For nesting that is absurdly deep.
inline std::string repeated(char c, std::size_t count) {
  std::string text;
  text.resize(count, c);
  return text;
}

/// A safetensors file; its data is a hole that takes no disk.
class SafetensorsWriter {
 public:
  SafetensorsWriter& tensor(std::string_view name, std::string_view dtype, const std::vector<std::uint64_t>& shape) {
    std::uint64_t bytes = dtype == "F32" ? 4 : dtype == "BF16" || dtype == "F16" ? 2 : 1;
    std::string dims;
    for (const auto dim : shape) {
      bytes *= dim;
      dims += (dims.empty() ? "" : ",") + std::to_string(dim);
    }
    entries_ += (entries_.empty() ? "" : ",") + ("\"" + std::string{name}) + R"(":{"dtype":")" + std::string{dtype} +
                R"(","shape":[)" + dims + R"(],"data_offsets":[)" + std::to_string(end_) + "," +
                std::to_string(end_ + bytes) + "]}";
    end_ += bytes;
    return *this;
  }

  [[nodiscard]] std::string json() const { return R"({"__metadata__":{"format":"pt"},)" + entries_ + "}"; }
  [[nodiscard]] std::uint64_t data_bytes() const { return end_; }
  [[nodiscard]] std::uint64_t file_size() const { return 8 + json().size() + end_; }

  void write(const std::filesystem::path& path) const {
    write_text(path, with_length(json()));
    std::filesystem::resize_file(path, file_size());
  }

  /// The 8 bytes of length and the header.
  static std::string with_length(std::string_view json) {
    const std::uint64_t length = json.size();
    std::string out(sizeof length, '\0');
    std::memcpy(out.data(), &length, sizeof length);
    return out.append(json);
  }

 private:
  std::string entries_;
  std::uint64_t end_ = 0;
};

/// A dense decoder; the defaults are small.
struct DenseHf {
  std::string architecture = "LlamaForCausalLM";
  std::uint64_t layers = 2;
  std::uint64_t hidden = 64;
  std::uint64_t heads = 4;
  std::uint64_t kv_heads = 2;
  std::uint64_t intermediate = 128;
  std::uint64_t vocabulary = 256;
  std::uint64_t context = 4096;
  std::string dtype = "bfloat16";
  bool tied = false;
};

inline std::string dense_config(const DenseHf& m = {}) {
  const auto number = [](std::string_view key, std::uint64_t value) {
    return ",\"" + std::string{key} + "\":" + std::to_string(value);
  };
  return R"({"architectures":[")" + m.architecture + "\"]" + number("num_hidden_layers", m.layers) +
         number("hidden_size", m.hidden) + number("num_attention_heads", m.heads) +
         number("num_key_value_heads", m.kv_heads) + number("intermediate_size", m.intermediate) +
         number("vocab_size", m.vocabulary) + number("max_position_embeddings", m.context) + R"(,"torch_dtype":")" +
         m.dtype + R"(","tie_word_embeddings":)" + (m.tied ? "true" : "false") + "}";
}

/// All tensors of the model, layer by layer spread over `shards` files.
inline std::vector<SafetensorsWriter> dense_safetensors(const DenseHf& m = {}, std::size_t shards = 1) {
  const std::string_view dtype = m.dtype == "float32" ? "F32" : m.dtype == "float16" ? "F16" : "BF16";
  const auto kv = m.hidden / m.heads * m.kv_heads;
  std::vector<SafetensorsWriter> files(shards);
  files.front().tensor("model.embed_tokens.weight", dtype, {m.vocabulary, m.hidden});
  for (std::uint64_t i = 0; i < m.layers; ++i) {
    const auto layer = "model.layers." + std::to_string(i) + ".";
    files[i % shards]
        .tensor(layer + "self_attn.q_proj.weight", dtype, {m.hidden, m.hidden})
        .tensor(layer + "self_attn.k_proj.weight", dtype, {kv, m.hidden})
        .tensor(layer + "self_attn.v_proj.weight", dtype, {kv, m.hidden})
        .tensor(layer + "self_attn.o_proj.weight", dtype, {m.hidden, m.hidden})
        .tensor(layer + "mlp.gate_proj.weight", dtype, {m.intermediate, m.hidden})
        .tensor(layer + "mlp.up_proj.weight", dtype, {m.intermediate, m.hidden})
        .tensor(layer + "mlp.down_proj.weight", dtype, {m.hidden, m.intermediate});
  }
  files.back().tensor("model.norm.weight", dtype, {m.hidden});
  if (!m.tied) files.back().tensor("lm_head.weight", dtype, {m.vocabulary, m.hidden});
  return files;
}

/// A complete folder with one weight file.
inline void write_dense_hf(const std::filesystem::path& folder, const DenseHf& m = {}) {
  write_text(folder / "config.json", dense_config(m));
  dense_safetensors(m).front().write(folder / "model.safetensors");
}

}  // namespace dgxmm::testing
