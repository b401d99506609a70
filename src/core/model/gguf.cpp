#include "core/model/gguf.h"

#include "base/masking.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>

namespace dgxmm::model {
namespace {

// Bounds for hostile files, each far above real models: the largest have 520k merges, 1 400 tensors and 60 keys.
constexpr std::uint64_t kMaxKeys = 65'536;
constexpr std::uint64_t kMaxTensors = 262'144;
constexpr std::uint64_t kMaxKeyLength = 65'535;
constexpr std::uint64_t kMaxTensorName = 63;   // GGML_MAX_NAME - 1
constexpr std::uint64_t kMaxText = 1u << 30;   // GGUF_MAX_STRING_LENGTH
constexpr std::uint64_t kMaxArray = 1u << 30;  // GGUF_MAX_ARRAY_ELEMENTS
constexpr std::uint32_t kMaxDims = 4;          // GGML_MAX_DIMS
constexpr std::uint64_t kMaxAlignment = 65'536;
constexpr std::uint64_t kDefaultAlignment = 32;
constexpr std::uint64_t kKeptText = 4096;
constexpr std::uint64_t kKeptArray = 1024;  // LLAMA_MAX_LAYERS is 512
constexpr std::uint64_t kSmallestKey = 8 + 4 + 1;
constexpr std::uint64_t kSmallestTensor = 8 + 4 + 4 + 8;
constexpr std::uint32_t kFirstUnknownType = 43;
constexpr std::uint32_t kLastPlausibleType = 255;

// The ids of the file format: ggml/include/gguf.h, enum gguf_type.
enum class ValueType : std::uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, text, array, u64, i64, f64 };

constexpr std::uint64_t size_of(ValueType type) {
  switch (type) {
    case ValueType::u8:
    case ValueType::i8:
    case ValueType::boolean: return 1;
    case ValueType::u16:
    case ValueType::i16: return 2;
    case ValueType::u32:
    case ValueType::i32:
    case ValueType::f32: return 4;
    case ValueType::u64:
    case ValueType::i64:
    case ValueType::f64: return 8;
    case ValueType::text:
    case ValueType::array: break;
  }
  return 0;
}

// ggml/src/ggml.c, type_traits, at b10587. An empty name: the type was removed.
constexpr auto kGgmlTypes = std::to_array<GgmlType>({
    {"F32", 1, 4},
    {"F16", 1, 2},
    {"Q4_0", 32, 18},
    {"Q4_1", 32, 20},
    {},
    {},
    {"Q5_0", 32, 22},
    {"Q5_1", 32, 24},
    {"Q8_0", 32, 34},
    {"Q8_1", 32, 36},
    {"Q2_K", 256, 84},
    {"Q3_K", 256, 110},
    {"Q4_K", 256, 144},
    {"Q5_K", 256, 176},
    {"Q6_K", 256, 210},
    {"Q8_K", 256, 292},
    {"IQ2_XXS", 256, 66},
    {"IQ2_XS", 256, 74},
    {"IQ3_XXS", 256, 98},
    {"IQ1_S", 256, 50},
    {"IQ4_NL", 32, 18},
    {"IQ3_S", 256, 110},
    {"IQ2_S", 256, 82},
    {"IQ4_XS", 256, 136},
    {"I8", 1, 1},
    {"I16", 1, 2},
    {"I32", 1, 4},
    {"I64", 1, 8},
    {"F64", 1, 8},
    {"IQ1_M", 256, 56},
    {"BF16", 1, 2},
    {},
    {},
    {},
    {"TQ1_0", 256, 54},
    {"TQ2_0", 256, 66},
    {},
    {},
    {},
    {"MXFP4", 32, 17},
    {"NVFP4", 64, 36},
    {"Q1_0", 128, 18},
    {"Q2_0", 64, 18},
});
static_assert(kGgmlTypes.size() == kFirstUnknownType);

/// Walks the header through a buffer that stays in the processor's cache. The first failure sticks: later reads give
/// zeros, so that a sequence of reads is checked once.
class Cursor {
 public:
  Cursor(std::string_view file, std::uint64_t file_size, const ReadAt& read, DigestOf digest_of)
      : file_(file),
        file_size_(file_size),
        read_(read),
        digest_of_(digest_of),
        buffer_(std::make_unique_for_overwrite<std::byte[]>(kBuffer)) {}

  [[nodiscard]] bool ok() const { return !error_; }
  [[nodiscard]] const Error& error() const { return *error_; }
  [[nodiscard]] std::uint64_t position() const { return base_ + at_; }
  [[nodiscard]] std::uint64_t left_in_file() const { return file_size_ - position(); }

  /// Of all bytes up to the position.
  [[nodiscard]] Digest digest() const {
    if (digest_of_ == DigestOf::nothing) return {};
    auto hasher = hasher_;
    hasher.add_piece({buffer_.get(), at_});
    hasher.add(position());
    return hasher.digest();
  }

  void refuse(std::string code, std::string_view what, std::string hint = {}) {
    if (error_) return;
    error_ = Error{std::move(code), fmt::format("{}: {}", printable(file_), what), std::move(hint), std::string{file_}};
  }

  void malformed(std::string_view what) {
    refuse("bad_model_file", fmt::format("not a usable GGUF file: {}", what), "download or convert it again");
  }

  void truncated() {
    refuse("model_incomplete",
           fmt::format("is truncated or half-downloaded: the header goes on past its end at {} bytes", file_size_),
           "download it again");
  }

  template <class T>
  T number() {
    T value{};
    if (fill(sizeof(T))) {
      std::memcpy(&value, buffer_.get() + at_, sizeof(T));
      at_ += sizeof(T);
    }
    return value;
  }

  /// A text of at most `limit` bytes; valid until the next read.
  std::string_view text(std::uint64_t limit, std::string_view what) {
    const auto length = number<std::uint64_t>();
    if (ok() && length > limit) malformed(fmt::format("a {} of {} bytes", what, length));
    return characters(length);
  }

  /// The next `length` bytes, not more than a key may have; valid until the next read.
  std::string_view characters(std::uint64_t length) {
    if (!fill(length)) return {};
    const std::string_view result{reinterpret_cast<const char*>(buffer_.get() + at_), length};
    at_ += length;
    return result;
  }

  void skip(std::uint64_t count) {
    if (error_) return;
    if (count > left_in_file()) return truncated();
    while (count > buffered()) {
      count -= buffered();
      at_ = filled_;
      if (!fill(1)) return;
    }
    at_ += count;
  }

  /// A text array has no length in bytes: every element is looked at, and none is copied.
  void skip_texts(std::uint64_t count) {
    while (count > 0 && !error_) {
      // Those that lie in the buffer whole, as nearly all of a vocabulary's 150k do, without a question to the file.
      for (std::uint64_t length = 0; count > 0 && buffered() >= sizeof length; --count) {
        std::memcpy(&length, buffer_.get() + at_, sizeof length);
        if (length > buffered() - sizeof length) break;
        at_ += sizeof length + length;
      }
      if (count == 0) return;
      --count;
      const auto length = number<std::uint64_t>();
      if (length > kMaxText) return malformed(fmt::format("a text of {} bytes", length));
      skip(length);
    }
  }

 private:
  // Holds the longest thing that is kept in one piece: a key.
  static constexpr std::size_t kBuffer = 128 * 1024;

  [[nodiscard]] std::uint64_t buffered() const { return filled_ - at_; }

  /// Makes the next `count` bytes lie in the buffer.
  bool fill(std::uint64_t count) { return (!error_ && count <= buffered()) || refill(count); }

  bool refill(std::uint64_t count) {
    if (error_) return false;
    if (count > left_in_file()) return truncated(), false;
    if (count > kMaxGgufHeaderBytes - std::min(position(), kMaxGgufHeaderBytes)) {
      return malformed(fmt::format("its header is larger than {} MiB", kMaxGgufHeaderBytes >> 20)), false;
    }
    // What was read goes into the digest, in whole words, and makes room.
    const auto done = at_ - at_ % sizeof(std::uint64_t);
    if (digest_of_ == DigestOf::header) hasher_.add_piece({buffer_.get(), done});
    std::memmove(buffer_.get(), buffer_.get() + done, filled_ - done);
    base_ += done;
    at_ -= done;
    filled_ -= done;
    while (buffered() < count) {
      const auto room = std::min<std::uint64_t>(kBuffer - filled_, file_size_ - base_ - filled_);
      const auto got = read_(base_ + filled_, {buffer_.get() + filled_, room});
      if (!got) {
        error_ = got.error();
        return false;
      }
      if (*got == 0) {
        file_size_ = base_ + filled_;  // cut while it was read
        return truncated(), false;
      }
      filled_ += *got;
    }
    return true;
  }

  std::string_view file_;
  std::uint64_t file_size_;
  const ReadAt& read_;
  DigestOf digest_of_;
  std::unique_ptr<std::byte[]> buffer_;
  std::uint64_t base_ = 0;  ///< of the buffer in the file; a multiple of 8
  std::size_t at_ = 0;
  std::size_t filled_ = 0;
  Hasher hasher_;  ///< of the bytes before the buffer
  std::optional<Error> error_;
};

template <class T>
GgufValue read_scalar(Cursor& cursor) {
  const auto value = cursor.number<T>();
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<double>(value);
  } else if (std::in_range<std::int64_t>(value)) {
    return static_cast<std::int64_t>(value);
  } else {
    return static_cast<std::uint64_t>(value);
  }
}

GgufValue read_scalar(Cursor& cursor, ValueType type) {
  switch (type) {
    case ValueType::u8: return read_scalar<std::uint8_t>(cursor);
    case ValueType::i8: return read_scalar<std::int8_t>(cursor);
    case ValueType::u16: return read_scalar<std::uint16_t>(cursor);
    case ValueType::i16: return read_scalar<std::int16_t>(cursor);
    case ValueType::u32: return read_scalar<std::uint32_t>(cursor);
    case ValueType::i32: return read_scalar<std::int32_t>(cursor);
    case ValueType::f32: return read_scalar<float>(cursor);
    case ValueType::u64: return read_scalar<std::uint64_t>(cursor);
    case ValueType::i64: return read_scalar<std::int64_t>(cursor);
    case ValueType::f64: return read_scalar<double>(cursor);
    case ValueType::boolean: return cursor.number<std::uint8_t>() != 0;
    case ValueType::text: {
      const auto length = cursor.number<std::uint64_t>();
      if (length > kMaxText) cursor.malformed(fmt::format("a text of {} bytes", length));
      if (length > kKeptText) {
        cursor.skip(length);
        return GgufLongText{length};
      }
      return std::string{cursor.characters(length)};
    }
    case ValueType::array: break;
  }
  return std::int64_t{0};
}

std::optional<ValueType> read_value_type(Cursor& cursor, std::string_view key) {
  const auto id = cursor.number<std::uint32_t>();
  if (id > static_cast<std::uint32_t>(ValueType::f64)) {
    cursor.malformed(fmt::format("the value of '{}' has the unknown type {}", printable(key), id));
  }
  if (!cursor.ok()) return std::nullopt;
  return static_cast<ValueType>(id);
}

bool is_integer(ValueType type) {
  return type != ValueType::f32 && type != ValueType::f64 && type != ValueType::text && type != ValueType::array;
}

GgufValue read_array(Cursor& cursor, std::string_view key) {
  const auto type = read_value_type(cursor, key);
  const auto count = cursor.number<std::uint64_t>();
  GgufArray array{.count = count, .integers = {}};
  if (!type || !cursor.ok()) return array;
  if (*type == ValueType::array) {
    cursor.malformed(fmt::format("'{}' is an array of arrays", printable(key)));
    return array;
  }
  const auto smallest = *type == ValueType::text ? sizeof(std::uint64_t) : size_of(*type);
  if (count > cursor.left_in_file() / smallest) {
    cursor.truncated();
    return array;
  }
  if (count > kMaxArray) {
    cursor.malformed(fmt::format("'{}' has {} elements", printable(key), count));
    return array;
  }
  if (*type == ValueType::text) {
    cursor.skip_texts(count);
  } else if (is_integer(*type) && count <= kKeptArray) {
    std::vector<std::int64_t> integers;
    for (std::uint64_t i = 0; i < count && cursor.ok(); ++i) {
      const auto value = read_scalar(cursor, *type);
      if (const auto* integer = std::get_if<std::int64_t>(&value)) integers.push_back(*integer);
      if (const auto* boolean = std::get_if<bool>(&value)) integers.push_back(*boolean ? 1 : 0);
    }
    if (integers.size() == count) array.integers = std::move(integers);
  } else {
    cursor.skip(count * smallest);
  }
  return array;
}

void read_values(Cursor& cursor, std::uint64_t count, const StopAt& stop, GgufHeader& header) {
  for (std::uint64_t i = 0; i < count && cursor.ok(); ++i) {
    std::string key{cursor.text(kMaxKeyLength, "key")};
    if (cursor.ok() && key.empty()) cursor.malformed("an empty key");
    const auto type = read_value_type(cursor, key);
    if (!type) return;
    auto value = *type == ValueType::array ? read_array(cursor, key) : read_scalar(cursor, *type);
    if (!cursor.ok()) return;
    const auto [entry, is_new] = header.values.try_emplace(std::move(key), std::move(value));
    if (!is_new) cursor.malformed(fmt::format("the key '{}' is there twice", printable(entry->first)));
    if (stop && stop(entry->first, entry->second)) cursor.refuse("not_wanted", "is of another model", {});
  }
}

std::uint64_t read_alignment(Cursor& cursor, const GgufHeader& header) {
  const auto found = header.values.find("general.alignment");
  if (found == header.values.end()) return kDefaultAlignment;
  const auto* value = std::get_if<std::int64_t>(&found->second);
  if (value == nullptr || *value < 1 || static_cast<std::uint64_t>(*value) > kMaxAlignment ||
      !std::has_single_bit(static_cast<std::uint64_t>(*value))) {
    cursor.malformed(fmt::format("general.alignment is not a power of two up to {}", kMaxAlignment));
    return kDefaultAlignment;
  }
  return static_cast<std::uint64_t>(*value);
}

// Padding cannot overflow: what is padded lies inside a file.
std::uint64_t pad(std::uint64_t value, std::uint64_t alignment) { return (value + alignment - 1) & ~(alignment - 1); }

/// The bytes of a tensor; nothing when they do not fit 63 bits or the row does not divide into blocks.
std::optional<std::uint64_t> tensor_bytes(const GgufTensor& tensor, const GgmlType& type) {
  const auto row = tensor.dims.empty() ? 1 : tensor.dims.front();
  if (row % type.block != 0) return std::nullopt;
  std::uint64_t elements = 1;
  for (const auto dim : tensor.dims) {
    if (dim > INT64_MAX || __builtin_mul_overflow(elements, dim, &elements) || elements > INT64_MAX)
      return std::nullopt;
  }
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(elements / type.block, type.block_bytes, &bytes) || bytes > INT64_MAX) return std::nullopt;
  return bytes;
}

/// Reads one tensor info; its offset is returned, its bytes are filled by place_tensors.
std::uint64_t read_tensor(Cursor& cursor, GgufTensor& tensor) {
  tensor.name = cursor.text(kMaxTensorName, "tensor name");
  const auto n_dims = cursor.number<std::uint32_t>();
  if (n_dims > kMaxDims) {
    cursor.malformed(fmt::format("tensor '{}' has {} dimensions", printable(tensor.name), n_dims));
    return 0;
  }
  for (std::uint32_t d = 0; d < n_dims; ++d) tensor.dims.push_back(cursor.number<std::uint64_t>());
  tensor.type = cursor.number<std::uint32_t>();
  return cursor.number<std::uint64_t>();
}

/// Checks that the tensors lie one after the other and end inside the file, as llama.cpp does (ggml/src/gguf.cpp).
void place_tensors(Cursor& cursor, std::vector<GgufTensor>& tensors, const std::vector<std::uint64_t>& offsets,
                   std::uint64_t alignment, std::uint64_t file_size) {
  const auto data_start = pad(cursor.position(), alignment);
  std::uint64_t expected = 0;
  std::uint64_t data_end = 0;
  for (std::size_t i = 0; i < tensors.size() && cursor.ok(); ++i) {
    auto& tensor = tensors[i];
    if (offsets[i] != expected) {
      cursor.malformed(
          fmt::format("the data of tensor '{}' is at {} instead of {}", printable(tensor.name), offsets[i], expected));
      return;
    }
    if (const auto type = ggml_type(tensor.type)) {
      const auto bytes = tensor_bytes(tensor, *type);
      if (!bytes) {
        cursor.malformed(fmt::format("the dimensions of tensor '{}' are impossible", printable(tensor.name)));
        return;
      }
      tensor.bytes = *bytes;
      if (__builtin_add_overflow(expected, *bytes, &data_end) || data_end > INT64_MAX) {
        cursor.malformed("its tensors together are impossibly large");
        return;
      }
      expected = pad(data_end, alignment);
    } else if (tensor.type >= kFirstUnknownType && tensor.type <= kLastPlausibleType) {
      // A type newer than this table: it cannot be larger than the room that it was given.
      const auto room_end = i + 1 < tensors.size() ? offsets[i + 1] : file_size - std::min(file_size, data_start);
      if (room_end < expected || room_end > INT64_MAX || (i + 1 < tensors.size() && room_end % alignment != 0)) {
        cursor.malformed(fmt::format("there is no room for the data of tensor '{}'", printable(tensor.name)));
        return;
      }
      tensor.bytes = room_end - expected;
      data_end = room_end;
      expected = room_end;
    } else {
      cursor.malformed(fmt::format("tensor '{}' has the unknown type {}", printable(tensor.name), tensor.type));
      return;
    }
  }
  if (cursor.ok() && !tensors.empty() && data_end > file_size - std::min(file_size, data_start)) {
    cursor.refuse(
        "model_incomplete",
        fmt::format("is half-downloaded or damaged: it has {} bytes and needs {}", file_size, data_start + data_end),
        "download it again");
  }
}

void refuse_duplicate_names(Cursor& cursor, const std::vector<GgufTensor>& tensors) {
  std::vector<std::string_view> names;
  names.reserve(tensors.size());
  for (const auto& tensor : tensors) names.emplace_back(tensor.name);
  std::ranges::sort(names);
  if (const auto twice = std::ranges::adjacent_find(names); twice != names.end()) {
    cursor.malformed(fmt::format("the tensor '{}' is there twice", printable(*twice)));
  }
}

void read_tensors(Cursor& cursor, std::uint64_t count, std::uint64_t file_size, GgufHeader& header) {
  const auto alignment = read_alignment(cursor, header);
  std::vector<std::uint64_t> offsets;
  for (std::uint64_t i = 0; i < count && cursor.ok(); ++i) {
    offsets.push_back(read_tensor(cursor, header.tensors.emplace_back()));
  }
  if (!cursor.ok()) return;
  refuse_duplicate_names(cursor, header.tensors);
  place_tensors(cursor, header.tensors, offsets, alignment, file_size);
}

std::uint32_t read_version(Cursor& cursor) {
  if (cursor.characters(4) != "GGUF" && cursor.ok()) {
    cursor.refuse("bad_model_file", "not a GGUF file: it does not begin with the letters GGUF",
                  "name a GGUF file, or a folder with config.json and safetensors");
  }
  const auto version = cursor.number<std::uint32_t>();
  if (!cursor.ok()) return 0;
  if ((version & 0xFFFF) == 0) {
    cursor.refuse("model_not_supported", "a big-endian GGUF file cannot be served on this machine",
                  "get the little-endian file of this model");
  } else if (version == 1) {
    cursor.refuse("model_not_supported", "GGUF version 1 is no longer supported by llama.cpp",
                  "convert the model again with a present llama.cpp");
  } else if (version > 3) {
    cursor.refuse("model_not_supported", fmt::format("GGUF version {} is newer than any that is known", version),
                  "update dgxmm and llama.cpp");
  }
  return version;
}

}  // namespace

std::optional<GgmlType> ggml_type(std::uint32_t id) {
  if (id >= kGgmlTypes.size() || kGgmlTypes[id].name.empty()) return std::nullopt;
  return kGgmlTypes[id];
}

const std::string* GgufHeader::text(std::string_view key) const {
  const auto found = values.find(key);
  return found == values.end() ? nullptr : std::get_if<std::string>(&found->second);
}

std::optional<std::int64_t> GgufHeader::integer(std::string_view key) const {
  const auto found = values.find(key);
  if (found == values.end()) return std::nullopt;
  const auto* value = std::get_if<std::int64_t>(&found->second);
  return value == nullptr ? std::nullopt : std::optional{*value};
}

const GgufArray* GgufHeader::array(std::string_view key) const {
  const auto found = values.find(key);
  return found == values.end() ? nullptr : std::get_if<GgufArray>(&found->second);
}

Result<GgufHeader> parse_gguf(std::string_view file, std::uint64_t file_size, const ReadAt& read, DigestOf digest_of,
                              const StopAt& stop) {
  Cursor cursor{file, file_size, read, digest_of};
  GgufHeader header;
  header.version = read_version(cursor);
  const auto tensor_count = cursor.number<std::uint64_t>();
  const auto key_count = cursor.number<std::uint64_t>();
  if (cursor.ok() && (key_count > kMaxKeys || tensor_count > kMaxTensors)) {
    cursor.malformed(fmt::format("it claims {} keys and {} tensors", key_count, tensor_count));
  }
  if (cursor.ok() &&
      (key_count > cursor.left_in_file() / kSmallestKey || tensor_count > cursor.left_in_file() / kSmallestTensor)) {
    cursor.truncated();
  }
  if (cursor.ok()) read_values(cursor, key_count, stop, header);
  if (cursor.ok()) read_tensors(cursor, tensor_count, file_size, header);
  if (!cursor.ok()) return fail(cursor.error());
  header.digest = cursor.digest();
  return header;
}

}  // namespace dgxmm::model
