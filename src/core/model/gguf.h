#pragma once
#include "base/result.h"
#include "core/model/identity.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace dgxmm::model {

/// The largest header that is read: real ones end below 20 MiB.
inline constexpr std::uint64_t kMaxGgufHeaderBytes = std::uint64_t{256} * 1024 * 1024;

/// Reads from a file at an offset; gives how many bytes it has read: at least one, unless the file ends there.
using ReadAt = std::function<Result<std::size_t>(std::uint64_t offset, std::span<std::byte> into)>;

/// A text too long to be worth keeping, such as a chat template.
struct GgufLongText {
  std::uint64_t length_bytes = 0;
};

/// An array; its elements are kept only when they may be one number a layer.
struct GgufArray {
  std::uint64_t count = 0;
  std::optional<std::vector<std::int64_t>> integers;  ///< short arrays of whole numbers or bools
};

/// Integers of every width arrive as int64_t, unless they do not fit.
using GgufValue = std::variant<std::int64_t, std::uint64_t, double, bool, std::string, GgufLongText, GgufArray>;

/// A type of ggml: `block` elements take `block_bytes`.
struct GgmlType {
  std::string_view name;
  std::uint32_t block = 0;
  std::uint32_t block_bytes = 0;
};

/// The type with this id; nothing when it was removed, or is newer than llama.cpp b10587.
std::optional<GgmlType> ggml_type(std::uint32_t id);

struct GgufTensor {
  std::string name;
  std::uint32_t type = 0;
  std::vector<std::uint64_t> dims;  ///< the contiguous dimension first
  std::uint64_t bytes = 0;  ///< without padding; for a type newer than this table the room up to the next tensor
};

/// Everything before the tensor data, without the vocabulary itself.
struct GgufHeader {
  std::uint32_t version = 0;
  std::map<std::string, GgufValue, std::less<>> values;
  std::vector<GgufTensor> tensors;
  Digest digest;  ///< of the header's bytes; zeros when it was not asked for

  /// The value, when the key is there and has that type.
  [[nodiscard]] const std::string* text(std::string_view key) const;
  [[nodiscard]] std::optional<std::int64_t> integer(std::string_view key) const;
  [[nodiscard]] const GgufArray* array(std::string_view key) const;
};

/// Whether the header's digest is computed: it takes half of the time, and only a fingerprint needs it.
enum class DigestOf : std::uint8_t { header, nothing };

/// Asked with each key and its value as they are read: true ends the reading, with the error `not_wanted`.
using StopAt = std::function<bool(std::string_view key, const GgufValue& value)>;

/// Reads the header of a file of `file_size` bytes, piece by piece and no further. `file` is used in messages only.
/// Never allocates more than the bytes that it has read justify, whatever the counts in the file claim.
/// Errors: `bad_model_file`, `model_incomplete` (the file ends before its tensors do), `model_not_supported` (a version
/// or byte order that llama.cpp refuses here), and those of `read`.
Result<GgufHeader> parse_gguf(std::string_view file, std::uint64_t file_size, const ReadAt& read,
                              DigestOf digest_of = DigestOf::header, const StopAt& stop = {});

}  // namespace dgxmm::model
