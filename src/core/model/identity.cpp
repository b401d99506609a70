#include "core/model/identity.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <iterator>
#include <vector>

namespace dgxmm::model {
namespace {

// Odd, with bits spread evenly (digits of the golden ratio and of e), so that a step loses nothing of either word.
constexpr std::uint64_t kHighFactor = 0x9E3779B97F4A7C15;
constexpr std::uint64_t kLowFactor = 0xB7E151628AED2A6B;

std::uint64_t avalanche(std::uint64_t x) {
  for (int round = 0; round < 3; ++round) {
    x ^= x >> 32;
    x *= kHighFactor;
  }
  return x ^ (x >> 29);
}

std::string lower(std::string_view text) {
  std::string result{text};
  std::ranges::transform(result, result.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return result;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Words that say how the weights are stored or packed, and nothing about the model.
constexpr auto kQuantizationWords = std::to_array<std::string_view>(
    {"f32",  "f16",       "bf16",    "fp32", "fp16",  "fp8",  "fp4",       "nvfp4",   "mxfp4", "int4", "int8",
     "awq",  "gptq",      "w4a16",   "w8a8", "w8a16", "w4a4", "gguf",      "ggml",    "exl2",  "bnb",  "4bit",
     "8bit", "quantized", "imatrix", "imat", "i1",    "ud",   "mxfp4_moe", "dynamic", "block", "hf"});

// "q4_k_m", "iq2_xxs", "q8_0", "tq1_0": a letter or two, a digit, and parts of at most three letters or digits.
bool is_ggml_quantization(std::string_view word) {
  std::size_t at = word.starts_with("iq") || word.starts_with("tq") ? 2 : word.starts_with("q") ? 1 : 0;
  if (at == 0 || at == word.size() || !is_digit(word[at])) return false;
  ++at;
  while (at < word.size()) {
    if (word[at] != '_') return false;
    const auto end = std::min(word.find('_', at + 1), word.size());
    const auto part = word.substr(at + 1, end - at - 1);
    static constexpr auto kParts =
        std::to_array<std::string_view>({"0", "1", "k", "s", "m", "l", "xs", "xxs", "nl", "xl", "4", "8"});
    if (std::ranges::find(kParts, part) == kParts.end()) return false;
    at = end;
  }
  return true;
}

bool is_quantization(std::string_view word) {
  return std::ranges::find(kQuantizationWords, word) != kQuantizationWords.end() || is_ggml_quantization(word);
}

// Names that use '_' between words: the longest ending that is a quantization goes.
std::string_view without_quantized_ending(std::string_view word) {
  for (std::size_t at = word.find('_'); at != std::string_view::npos; at = word.find('_', at + 1)) {
    if (is_quantization(word.substr(at + 1))) return word.substr(0, at);
  }
  return word;
}

/// Calls `take` with where each word of a name begins and the word. A dot between digits belongs to a version ("3.1"),
/// any other one ends a word.
template <class Take>
void for_each_word(std::string_view text, Take take) {
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool version_dot = c == '.' && i > 0 && i + 1 < text.size() && is_digit(text[i - 1]) && is_digit(text[i + 1]);
    if (version_dot || (c != '-' && c != ' ' && c != '.' && c != '/' && c != ':')) continue;
    take(begin, text.substr(begin, i - begin));
    begin = i + 1;
  }
  take(begin, text.substr(begin));
}

}  // namespace

void Hasher::mix(std::uint64_t word) {
  high_ = (high_ ^ word) * kHighFactor;
  high_ ^= high_ >> 29;
  low_ = (std::rotl(low_, 31) + word) * kLowFactor;
}

void Hasher::add_piece(std::span<const std::byte> bytes) {
  std::size_t at = 0;
  for (; at + sizeof(std::uint64_t) <= bytes.size(); at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    mix(word);
  }
  if (at == bytes.size()) return;
  std::uint64_t rest = 0;
  std::memcpy(&rest, bytes.data() + at, bytes.size() - at);
  mix(rest);
}

void Hasher::add(std::span<const std::byte> bytes) {
  mix(bytes.size());
  add_piece(bytes);
}

void Hasher::add(std::string_view text) { add(std::as_bytes(std::span{text})); }

void Hasher::add(std::uint64_t number) { mix(number); }

Digest Hasher::digest() const { return {.high = avalanche(high_), .low = avalanche(low_ ^ std::rotl(high_, 17))}; }

std::string to_hex(const Digest& digest) { return fmt::format("{:016x}{:016x}", digest.high, digest.low); }

Fingerprint make_fingerprint(Format format, std::span<const FileIdentity> files) {  // C7
  Hasher hasher;
  hasher.add(format == Format::gguf ? std::string_view{"gguf"} : std::string_view{"safetensors"});
  for (const auto& file : files) {
    hasher.add(file.size);
    hasher.add(file.header.high);
    hasher.add(file.header.low);
  }
  return {to_hex(hasher.digest())};
}

std::string name_without_quantization(std::string_view name) {
  const auto text = lower(name);
  std::string result;
  const auto append = [&result](std::string_view word) {
    word = without_quantized_ending(word);
    if (word.empty() || is_quantization(word)) return;
    if (!result.empty()) result += '-';
    std::ranges::transform(word, std::back_inserter(result), [](char c) { return c == '_' ? '-' : c; });
  };
  for_each_word(text, [&](std::size_t, std::string_view word) { append(word); });
  return result;
}

std::string_view quantization_in_name(std::string_view name) {
  const auto text = lower(name);
  auto from = std::string_view::npos;
  for_each_word(text, [&from](std::size_t begin, std::string_view word) {
    if (is_quantization(word)) {
      from = std::min(from, begin);
    } else if (const auto rest = without_quantized_ending(word); rest.size() < word.size()) {
      from = begin + rest.size() + 1;
    } else {
      from = std::string_view::npos;
    }
  });
  return from == std::string_view::npos ? std::string_view{} : name.substr(from);
}

std::string base_model_identity(const ModelDescription& model, std::string_view name, std::uint64_t tensor_shapes) {
  const auto words = name_without_quantization(name);
  if (words.empty()) return {};  // shape alone would make strangers of one size equal
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  for (const auto& layer : model.layers) {
    if (!layer.attention) continue;
    heads += layer.attention->n_head;
    kv_heads += layer.attention->n_head_kv;
  }
  return fmt::format("{}:{}x{}:h{}/{}:e{}:v{}:c{}:t{:x}:{}", model.architecture, model.layers.size(),
                     model.embedding_length, heads, kv_heads, model.experts ? model.experts->count : 0,
                     model.vocabulary, model.training_context, tensor_shapes, words);
}

std::string_view words_of_identity(std::string_view base_model) {
  // They come last, and hold no colon: that ends a word.
  return base_model.substr(base_model.rfind(':') + 1);
}

}  // namespace dgxmm::model
