#pragma once
// GGUF files for tests and benchmarks. Independent of the reader in src/core/model: it has its own table of types.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace dgxmm::testing {

/// The types that tests write.
enum class GgmlType : std::uint32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q8_0 = 8,
  q4_k = 12,
  q6_k = 14,
  bf16 = 30,
  mxfp4 = 39
};

inline std::uint64_t ggml_bytes(std::uint32_t type, std::uint64_t elements) {
  switch (static_cast<GgmlType>(type)) {
    case GgmlType::f32: return elements * 4;
    case GgmlType::f16:
    case GgmlType::bf16: return elements * 2;
    case GgmlType::q4_0: return elements / 32 * 18;
    case GgmlType::q8_0: return elements / 32 * 34;
    case GgmlType::q4_k: return elements / 256 * 144;
    case GgmlType::q6_k: return elements / 256 * 210;
    case GgmlType::mxfp4: return elements / 32 * 17;
  }
  return elements;  // a type that the tests make up
}

/// Builds a header key by key. What it writes need not be valid: that is what many tests are about.
class GgufWriter {
 public:
  GgufWriter& version(std::uint32_t value) { return version_ = value, *this; }
  /// Claims other counts than there are.
  GgufWriter& claim_keys(std::uint64_t count) { return claimed_keys_ = count, *this; }
  GgufWriter& claim_tensors(std::uint64_t count) { return claimed_tensors_ = count, *this; }

  GgufWriter& key_u8(std::string_view key, std::uint8_t v) { return scalar(key, 0, v); }
  GgufWriter& key_u16(std::string_view key, std::uint16_t v) { return scalar(key, 2, v); }
  GgufWriter& key_u32(std::string_view key, std::uint32_t v) { return scalar(key, 4, v); }
  GgufWriter& key_i32(std::string_view key, std::int32_t v) { return scalar(key, 5, v); }
  GgufWriter& key_f32(std::string_view key, float v) { return scalar(key, 6, v); }
  GgufWriter& key_bool(std::string_view key, bool v) { return scalar(key, 7, static_cast<std::uint8_t>(v)); }
  GgufWriter& key_u64(std::string_view key, std::uint64_t v) { return scalar(key, 10, v); }
  GgufWriter& key_i64(std::string_view key, std::int64_t v) { return scalar(key, 11, v); }
  GgufWriter& key_f64(std::string_view key, double v) { return scalar(key, 12, v); }
  GgufWriter& key_text(std::string_view key, std::string_view v) {
    begin(key, 8);
    put_text(keys_, v);
    return *this;
  }
  template <class T>
  GgufWriter& key_array(std::string_view key, std::uint32_t element_type, const std::vector<T>& values) {
    begin(key, 9);
    put(keys_, element_type);
    put(keys_, std::uint64_t{values.size()});
    for (const T value : values) put(keys_, value);
    return *this;
  }
  GgufWriter& key_u32s(std::string_view key, const std::vector<std::uint32_t>& v) { return key_array(key, 4, v); }
  GgufWriter& key_i32s(std::string_view key, const std::vector<std::int32_t>& v) { return key_array(key, 5, v); }
  GgufWriter& key_f32s(std::string_view key, const std::vector<float>& v) { return key_array(key, 6, v); }
  GgufWriter& key_texts(std::string_view key, std::span<const std::string> values) {
    begin(key, 9);
    put(keys_, std::uint32_t{8});
    put(keys_, std::uint64_t{values.size()});
    for (const auto& value : values) put_text(keys_, value);
    return *this;
  }
  /// A key with a made-up type and payload.
  GgufWriter& key_raw(std::string_view key, std::uint32_t type, std::string_view payload) {
    begin(key, type);
    keys_.append(payload);
    return *this;
  }

  GgufWriter& alignment(std::uint32_t value) {
    alignment_ = value;
    return key_u32("general.alignment", value);
  }

  GgufWriter& tensor(std::string_view name, GgmlType type, const std::vector<std::uint64_t>& dims) {
    std::uint64_t elements = 1;
    for (const auto dim : dims) elements *= dim;
    return tensor_raw(name, static_cast<std::uint32_t>(type), dims, next_offset_,
                      ggml_bytes(static_cast<std::uint32_t>(type), elements));
  }
  /// A tensor whose type, place and size are as told.
  GgufWriter& tensor_raw(std::string_view name, std::uint32_t type, const std::vector<std::uint64_t>& dims,
                         std::uint64_t offset, std::uint64_t bytes) {
    ++tensor_count_;
    put_text(tensors_, name);
    put(tensors_, static_cast<std::uint32_t>(dims.size()));
    for (const auto dim : dims) put(tensors_, dim);
    put(tensors_, type);
    put(tensors_, offset);
    data_end_ = offset + bytes;
    next_offset_ = pad(data_end_);
    return *this;
  }

  /// Everything before the tensor data, without padding.
  [[nodiscard]] std::string header() const {
    std::string out{"GGUF"};
    put(out, version_);
    put(out, claimed_tensors_.value_or(tensor_count_));
    put(out, claimed_keys_.value_or(key_count_));
    return out + keys_ + tensors_;
  }
  /// The size of the whole file.
  [[nodiscard]] std::uint64_t file_size() const {
    const auto header_size = header().size();
    return tensor_count_ == 0 ? header_size : pad(header_size) + data_end_;
  }

  /// Writes the file; its tensors are a hole that takes no disk unless `with_data`.
  void write(const std::filesystem::path& path, bool with_data = false) const {
    const auto text = header();
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (file < 0) throw std::runtime_error("cannot create " + path.string());
    bool ok = write_all(file, text);
    if (with_data) {
      ok = ok && write_all(file, std::string(file_size() - text.size(), '\0'));
    } else {
      ok = ok && ::ftruncate(file, static_cast<off_t>(file_size())) == 0;
    }
    ok = (::close(file) == 0) && ok;
    if (!ok) throw std::runtime_error("cannot write " + path.string());
  }

 private:
  template <class T>
  static void put(std::string& out, T value) {
    char bytes[sizeof(T)];
    std::memcpy(bytes, &value, sizeof(T));
    out.append(bytes, sizeof(T));
  }
  static void put_text(std::string& out, std::string_view text) {
    put(out, std::uint64_t{text.size()});
    out.append(text);
  }
  static bool write_all(int file, std::string_view text) {
    while (!text.empty()) {
      const auto written = ::write(file, text.data(), text.size());
      if (written <= 0) return false;
      text.remove_prefix(static_cast<std::size_t>(written));
    }
    return true;
  }
  [[nodiscard]] std::uint64_t pad(std::uint64_t value) const {
    return (value + alignment_ - 1) / alignment_ * alignment_;
  }
  void begin(std::string_view key, std::uint32_t type) {
    ++key_count_;
    put_text(keys_, key);
    put(keys_, type);
  }
  template <class T>
  GgufWriter& scalar(std::string_view key, std::uint32_t type, T value) {
    begin(key, type);
    put(keys_, value);
    return *this;
  }

  std::uint32_t version_ = 3;
  std::uint64_t key_count_ = 0;
  std::uint64_t tensor_count_ = 0;
  std::optional<std::uint64_t> claimed_keys_;
  std::optional<std::uint64_t> claimed_tensors_;
  std::string keys_;
  std::string tensors_;
  std::uint64_t alignment_ = 32;
  std::uint64_t next_offset_ = 0;
  std::uint64_t data_end_ = 0;
};

/// The shape of a dense decoder; the defaults are small. Types with blocks need n_embd and n_ff that are multiples of
/// them.
struct DenseGguf {
  std::string arch = "llama";
  std::uint32_t n_layer = 4;
  std::uint32_t n_embd = 256;
  std::uint32_t n_head = 8;
  std::uint32_t n_head_kv = 2;
  std::uint32_t n_ff = 512;
  std::uint32_t n_vocab = 1024;
  std::uint32_t n_ctx = 4096;
  GgmlType type = GgmlType::q4_0;
  std::uint32_t file_type = 2;  ///< Q4_0
  std::string name = "Test Model";
  bool tied = false;
};

/// The keys that llama.cpp needs for the shape, without tokenizer.
inline void add_dense_keys(GgufWriter& w, const DenseGguf& m) {
  const auto key = [&m](std::string_view suffix) { return m.arch + "." + std::string{suffix}; };
  w.key_text("general.architecture", m.arch)
      .key_text("general.type", "model")
      .key_text("general.name", m.name)
      .key_u32("general.file_type", m.file_type)
      .key_u32("general.quantization_version", 2)
      .key_u32(key("block_count"), m.n_layer)
      .key_u32(key("context_length"), m.n_ctx)
      .key_u32(key("embedding_length"), m.n_embd)
      .key_u32(key("feed_forward_length"), m.n_ff)
      .key_u32(key("attention.head_count"), m.n_head)
      .key_u32(key("attention.head_count_kv"), m.n_head_kv)
      .key_f32(key("attention.layer_norm_rms_epsilon"), 1e-5F)
      .key_f32(key("rope.freq_base"), 10000.0F);
}

/// A byte-pair tokenizer of about the size of a real one.
inline void add_tokenizer(GgufWriter& w, std::uint32_t n_vocab,
                          const std::string& chat_template = std::string(6000, '{')) {
  std::vector<std::string> tokens;
  std::vector<std::string> merges;
  tokens.reserve(n_vocab);
  merges.reserve(n_vocab);
  for (std::uint32_t i = 0; i < n_vocab; ++i) {
    tokens.push_back("t" + std::to_string(i));
    if (i >= 256) merges.push_back("t" + std::to_string(i / 2) + " t" + std::to_string(i % 256));
  }
  w.key_text("tokenizer.ggml.model", "gpt2")
      .key_text("tokenizer.ggml.pre", "default")
      .key_texts("tokenizer.ggml.tokens", tokens)
      .key_i32s("tokenizer.ggml.token_type", std::vector<std::int32_t>(n_vocab, 1))
      .key_texts("tokenizer.ggml.merges", merges)
      .key_u32("tokenizer.ggml.bos_token_id", 1)
      .key_u32("tokenizer.ggml.eos_token_id", 2)
      .key_text("tokenizer.chat_template", chat_template);
}

inline void add_dense_tensors(GgufWriter& w, const DenseGguf& m) {
  const std::uint64_t embd = m.n_embd;
  const std::uint64_t kv = embd / m.n_head * m.n_head_kv;
  w.tensor("token_embd.weight", m.type, {embd, m.n_vocab});
  for (std::uint32_t i = 0; i < m.n_layer; ++i) {
    const auto block = "blk." + std::to_string(i) + ".";
    w.tensor(block + "attn_norm.weight", GgmlType::f32, {embd})
        .tensor(block + "attn_q.weight", m.type, {embd, embd})
        .tensor(block + "attn_k.weight", m.type, {embd, kv})
        .tensor(block + "attn_v.weight", m.type, {embd, kv})
        .tensor(block + "attn_output.weight", m.type, {embd, embd})
        .tensor(block + "ffn_norm.weight", GgmlType::f32, {embd})
        .tensor(block + "ffn_gate.weight", m.type, {embd, m.n_ff})
        .tensor(block + "ffn_up.weight", m.type, {embd, m.n_ff})
        .tensor(block + "ffn_down.weight", m.type, {m.n_ff, embd});
  }
  w.tensor("output_norm.weight", GgmlType::f32, {embd});
  if (!m.tied) w.tensor("output.weight", m.type, {embd, m.n_vocab});
}

/// A complete plausible model; an 8B-sized one costs only its header on disk.
inline GgufWriter dense_gguf(const DenseGguf& m = {}) {
  GgufWriter w;
  add_dense_keys(w, m);
  add_tokenizer(w, m.n_vocab);
  add_dense_tensors(w, m);
  return w;
}

inline void write_dense_gguf(const std::filesystem::path& path, const DenseGguf& m = {}) { dense_gguf(m).write(path); }

}  // namespace dgxmm::testing
