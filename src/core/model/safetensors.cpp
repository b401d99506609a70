#include "core/model/safetensors.h"

#include "base/masking.h"

#include <boost/json/basic_parser_impl.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

namespace dgxmm::model {
namespace {

namespace bj = boost::json;

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::size_t kMaxDepth = 4;  // tensors, a tensor, its shape; one more gives a better message
constexpr std::size_t kMaxDims = 16;
constexpr std::size_t kMaxName = 4096;

struct Dtype {
  std::string_view name;
  std::uint64_t bits;
};

// safetensors/src/tensor.rs, enum Dtype, at 0.6.
constexpr auto kDtypes = std::to_array<Dtype>(
    {{"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"BOOL", 8}, {"U8", 8},   {"I8", 8},    {"F8_E5M2", 8},
     {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"I16", 16},    {"U16", 16}, {"F16", 16}, {"BF16", 16}, {"I32", 32},
     {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64}, {"I64", 64}, {"U64", 64}});

std::optional<std::uint64_t> bits_of(std::string_view dtype) {
  const auto found = std::ranges::find(kDtypes, dtype, &Dtype::name);
  if (found == kDtypes.end()) return std::nullopt;
  return found->bits;
}

struct RawTensor {
  std::string name;
  std::string dtype;
  std::vector<std::uint64_t> shape;
  std::vector<std::uint64_t> offsets;
  bool has_shape = false;
};

/// Handler of Boost.JSON's parser. A document tree would take up to 16 times the memory of a hostile header.
class HeaderHandler {
 public:
  static constexpr std::size_t max_object_size = 262'144;
  static constexpr std::size_t max_array_size = kMaxDims;
  static constexpr std::size_t max_key_size = kMaxName;
  static constexpr std::size_t max_string_size = 100'000'000;

  std::vector<RawTensor> tensors;
  std::string problem;  ///< set when the parser was stopped

  bool on_document_begin(bj::error_code&) { return true; }
  bool on_document_end(bj::error_code&) { return true; }
  bool on_object_begin(bj::error_code& stop) {
    ++depth_;
    if (depth_ == 1) return true;
    if (depth_ == 2) {
      in_metadata_ = key_ == "__metadata__";
      if (!in_metadata_) tensors.push_back({.name = key_, .dtype = {}, .shape = {}, .offsets = {}});
      return true;
    }
    return refuse("an object inside a tensor", stop);
  }
  bool on_object_end(std::size_t, bj::error_code&) {
    --depth_;
    in_metadata_ = in_metadata_ && depth_ > 1;
    return true;
  }
  bool on_array_begin(bj::error_code& stop) {
    ++depth_;
    if (depth_ != 3 || in_metadata_) return refuse("a list where none belongs", stop);
    list_ = key_ == "shape" ? &tensors.back().shape : key_ == "data_offsets" ? &tensors.back().offsets : nullptr;
    if (key_ == "shape") tensors.back().has_shape = true;
    if (list_ == nullptr || !list_->empty()) return refuse("an unknown list or one that is there twice", stop);
    return true;
  }
  bool on_array_end(std::size_t, bj::error_code&) {
    --depth_;
    list_ = nullptr;
    return true;
  }
  bool on_key_part(bj::string_view part, std::size_t, bj::error_code&) {
    partial_ += part;
    return true;
  }
  bool on_key(bj::string_view part, std::size_t, bj::error_code&) {
    partial_ += part;
    key_ = std::exchange(partial_, {});
    return true;
  }
  bool on_string_part(bj::string_view part, std::size_t, bj::error_code&) {
    if (!in_metadata_) partial_ += part;
    return true;
  }
  bool on_string(bj::string_view part, std::size_t, bj::error_code& stop) {
    if (in_metadata_) return true;
    partial_ += part;
    auto text = std::exchange(partial_, {});
    if (depth_ != 2 || key_ != "dtype") return refuse("a text where none belongs", stop);
    tensors.back().dtype = std::move(text);
    return true;
  }
  bool on_number_part(bj::string_view, bj::error_code&) { return true; }
  bool on_int64(std::int64_t number, bj::string_view, bj::error_code& stop) {
    if (number < 0) return refuse("a negative number", stop);
    return on_uint64(static_cast<std::uint64_t>(number), {}, stop);
  }
  bool on_uint64(std::uint64_t number, bj::string_view, bj::error_code& stop) {
    if (list_ == nullptr) return refuse("a number where none belongs", stop);
    list_->push_back(number);
    return true;
  }
  bool on_double(double, bj::string_view, bj::error_code& stop) { return refuse("a broken number", stop); }
  bool on_bool(bool, bj::error_code& stop) { return refuse("true or false where none belongs", stop); }
  bool on_null(bj::error_code& stop) { return refuse("a null", stop); }
  bool on_comment_part(bj::string_view, bj::error_code&) { return true; }
  bool on_comment(bj::string_view, bj::error_code&) { return true; }

 private:
  bool refuse(std::string_view what, bj::error_code& stop) {
    problem = fmt::format("{} at '{}'", what, printable(tensors.empty() || depth_ < 2 ? key_ : tensors.back().name));
    stop = bj::error::syntax;
    return false;
  }

  std::size_t depth_ = 0;
  bool in_metadata_ = false;
  std::string partial_;
  std::string key_;
  std::vector<std::uint64_t>* list_ = nullptr;
};

std::unexpected<Error> malformed(std::string_view file, std::string_view what) {
  return fail("bad_model_file", fmt::format("{}: not a usable safetensors file: {}", printable(file), what),
              "download it again", std::string{file});
}

std::unexpected<Error> incomplete(std::string_view file, std::uint64_t size, std::uint64_t needed) {
  return fail(
      "model_incomplete",
      fmt::format("{}: is half-downloaded or damaged: it has {} bytes and needs {}", printable(file), size, needed),
      "download it again", std::string{file});
}

/// The bytes of a tensor by its shape; nothing when they are no whole number of bytes or do not fit 63 bits.
std::optional<std::uint64_t> bytes_of(const RawTensor& tensor) {
  const auto bits = bits_of(tensor.dtype);
  if (!bits) return std::nullopt;
  std::uint64_t total = *bits;
  for (const auto dim : tensor.shape) {
    if (__builtin_mul_overflow(total, dim, &total) || total > INT64_MAX) return std::nullopt;
  }
  if (total % 8 != 0) return std::nullopt;
  return total / 8;
}

}  // namespace

Result<std::uint64_t> safetensors_header_end(std::string_view file, std::span<const std::byte> first_bytes,
                                             std::uint64_t file_size) {
  if (first_bytes.size() < kLengthBytes || file_size < kLengthBytes) return incomplete(file, file_size, kLengthBytes);
  std::uint64_t length = 0;
  std::memcpy(&length, first_bytes.data(), sizeof length);
  if (length > kMaxSafetensorsHeaderBytes) {
    return malformed(file, fmt::format("its header claims {} bytes, more than {}", length, kMaxSafetensorsHeaderBytes));
  }
  if (length > file_size - kLengthBytes) return incomplete(file, file_size, length + kLengthBytes);
  return length + kLengthBytes;
}

Result<SafetensorsHeader> parse_safetensors(std::string_view file, std::span<const std::byte> bytes,
                                            std::uint64_t file_size) {
  const auto header_end = safetensors_header_end(file, bytes, file_size);
  if (!header_end) return fail(header_end.error());
  if (*header_end > bytes.size()) return incomplete(file, bytes.size(), *header_end);
  const auto header_bytes = bytes.subspan(kLengthBytes, *header_end - kLengthBytes);
  std::string_view text{reinterpret_cast<const char*>(header_bytes.data()), header_bytes.size()};
  while (text.ends_with(' ')) text.remove_suffix(1);  // padding, as the format says
  if (!text.starts_with('{')) return malformed(file, "its header is not a JSON object");

  bj::parse_options options;
  options.max_depth = kMaxDepth;
  bj::basic_parser<HeaderHandler> parser{options};
  bj::error_code error;
  const auto read = parser.write_some(false, text.data(), text.size(), error);
  auto& handler = parser.handler();
  if (!handler.problem.empty()) return malformed(file, handler.problem);
  if (error || read != text.size()) {
    return malformed(file, fmt::format("its header is not valid JSON near byte {}", read + kLengthBytes));
  }

  auto& tensors = handler.tensors;
  SafetensorsHeader header;
  for (const auto& tensor : tensors) {
    const auto needed = bytes_of(tensor);
    if (tensor.offsets.size() != 2 || !tensor.has_shape || !bits_of(tensor.dtype)) {
      return malformed(file,
                       fmt::format("tensor '{}' lacks a known dtype, a shape or data_offsets", printable(tensor.name)));
    }
    if (!needed || tensor.offsets[0] > tensor.offsets[1] || tensor.offsets[1] - tensor.offsets[0] != *needed) {
      return malformed(
          file, fmt::format("the data_offsets of tensor '{}' do not agree with its shape", printable(tensor.name)));
    }
  }
  // Empty tensors may lie at the start of another one: both ends count for the order.
  std::ranges::sort(tensors, {}, [](const RawTensor& t) { return std::pair{t.offsets[0], t.offsets[1]}; });
  for (auto& tensor : tensors) {
    if (tensor.offsets[0] != header.tensor_bytes) {
      return malformed(file, fmt::format("there is a gap or an overlap before tensor '{}'", printable(tensor.name)));
    }
    header.tensor_bytes = tensor.offsets[1];
    header.tensors.push_back({.name = std::move(tensor.name),
                              .dtype = std::move(tensor.dtype),
                              .shape = std::move(tensor.shape),
                              .bytes = tensor.offsets[1] - tensor.offsets[0]});
  }
  const auto data_bytes = file_size - *header_end;
  if (header.tensor_bytes > data_bytes) {
    if (header.tensor_bytes > INT64_MAX - *header_end) return malformed(file, "its tensors are impossibly large");
    return incomplete(file, file_size, *header_end + header.tensor_bytes);
  }
  if (header.tensor_bytes < data_bytes) {
    return malformed(file, fmt::format("{} bytes follow its last tensor", data_bytes - header.tensor_bytes));
  }
  Hasher hasher;
  hasher.add(header_bytes);
  header.digest = hasher.digest();
  return header;
}

}  // namespace dgxmm::model
