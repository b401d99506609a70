#pragma once
#include "core/model/layout.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace dgxmm::model {

/// 128 bits that stand for some bytes.
struct Digest {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  friend bool operator==(const Digest&, const Digest&) = default;
};

/// Digests a sequence of fields. Not cryptographic, on purpose: a header of 8 MB has to be digested in a millisecond,
/// and whoever forges a collision only makes two of his own models share their calibration.
class Hasher {
 public:
  /// A field's length is part of it: ("ab", "c") and ("a", "bc") differ.
  void add(std::span<const std::byte> bytes);
  void add(std::string_view text);
  void add(std::uint64_t number);
  /// A piece of a longer field, without its length; every piece but the last has a multiple of 8 bytes.
  void add_piece(std::span<const std::byte> bytes);
  [[nodiscard]] Digest digest() const;

 private:
  void mix(std::uint64_t word);

  std::uint64_t high_ = 0x243F6A8885A308D3;  // digits of pi
  std::uint64_t low_ = 0x13198A2E03707344;
};

/// 32 hex digits.
std::string to_hex(const Digest& digest);

/// What the fingerprint knows of one file: never its name.
struct FileIdentity {
  std::uint64_t size = 0;
  Digest header;
};

/// C7: the same weights, wherever they lie.
Fingerprint make_fingerprint(Format format, std::span<const FileIdentity> files);

/// A model's name in lower case, words joined by '-', without the words that only tell its quantization:
/// "Qwen3-8B-Q4_K_M" and "qwen3 8b" both give "qwen3-8b".
std::string name_without_quantization(std::string_view name);

/// The end of a name that only tells its quantization, as it is written there: "UD-Q4_K_XL" of "Qwen3-8B-UD-Q4_K_XL",
/// "Q8_0" of "qwen3_8b_Q8_0"; empty when there is none.
std::string_view quantization_in_name(std::string_view name);

/// A text that is equal for the quantizations of one model and differs between finetunes: the shape of the model and
/// its name without quantization. `tensor_shapes` sets apart what the numbers of the description do not; 0 when
/// unknown.
std::string base_model_identity(const ModelDescription& model, std::string_view name, std::uint64_t tensor_shapes);

/// The words of the name in such an identity: what `name_without_quantization` made of it.
std::string_view words_of_identity(std::string_view base_model);

}  // namespace dgxmm::model
