#pragma once
#include "core/model/gguf.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace dgxmm::testing {

/// Reads from memory, as parse_gguf reads from a file; `bytes` must outlive it.
inline model::ReadAt reader_of(std::span<const std::byte> bytes) {
  return [bytes](std::uint64_t offset, std::span<std::byte> into) -> Result<std::size_t> {
    const auto rest = bytes.subspan(std::min<std::uint64_t>(offset, bytes.size()));
    const auto count = std::min(rest.size(), into.size());
    if (count > 0) std::memcpy(into.data(), rest.data(), count);
    return count;
  };
}
inline model::ReadAt reader_of(std::string_view text) { return reader_of(std::as_bytes(std::span{text})); }

}  // namespace dgxmm::testing
