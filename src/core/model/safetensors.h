#pragma once
#include "base/result.h"
#include "core/model/identity.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dgxmm::model {

/// The largest header that the reference implementation reads (safetensors, MAX_HEADER_SIZE).
inline constexpr std::uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;

struct SafetensorsTensor {
  std::string name;
  std::string dtype;  ///< as written: "BF16", "F8_E4M3"
  std::vector<std::uint64_t> shape = {};
  std::uint64_t bytes = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsTensor> tensors;  ///< in the order of their data
  std::uint64_t tensor_bytes = 0;
  Digest digest;  ///< of the header's bytes
};

/// How many bytes from the start of the file parse_safetensors needs, told by the first 8 of them (fewer, when the file
/// is that short). Errors: `bad_model_file`, `model_incomplete`.
Result<std::uint64_t> safetensors_header_end(std::string_view file, std::span<const std::byte> first_bytes,
                                             std::uint64_t file_size);

/// Reads the header from the first safetensors_header_end() bytes of a file of `file_size` bytes. The tensors must fill
/// the file without a gap. Errors: `bad_model_file`, `model_incomplete` (the file ends before its tensors do).
Result<SafetensorsHeader> parse_safetensors(std::string_view file, std::span<const std::byte> bytes,
                                            std::uint64_t file_size);

}  // namespace dgxmm::model
