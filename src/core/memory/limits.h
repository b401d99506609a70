#pragma once
#include "base/bytes.h"
#include "base/result.h"
#include "core/model/layout.h"

#include <cstdint>
#include <string_view>

namespace dgxmm::memory {

// Sizes up to which the formulas are sure not to overflow 64 bits: the product of the largest ones of a cache (context
// x layers x widths of K and V x 4 bytes) stays below 2^62. Each is far above anything that exists.
inline constexpr std::int64_t kMaxContext = std::int64_t{1} << 27;
inline constexpr std::int64_t kMaxBatch = std::int64_t{1} << 16;
inline constexpr std::int64_t kMaxLayers = std::int64_t{1} << 10;
inline constexpr std::int64_t kMaxWidth = std::int64_t{1} << 20;
inline constexpr std::int64_t kMaxHeads = std::int64_t{1} << 14;
/// Elements of a recurrent state: x 4 bytes x layers x sequences stays below 2^62.
inline constexpr std::int64_t kMaxState = std::int64_t{1} << 34;
/// Patches of one picture: x width x 16 bytes x as many pictures as a batch has tokens stays below 2^62.
inline constexpr std::int64_t kMaxPatches = std::int64_t{1} << 24;
inline constexpr std::int64_t kMaxVocabulary = std::int64_t{1} << 24;
/// Of all files of a model.
inline constexpr Bytes kMaxFiles{std::int64_t{1} << 56};

/// Errors: `bad_configuration` naming the field.
Result<void> check_setting(std::string_view field, std::int64_t value, std::int64_t least, std::int64_t most);

/// Layers and sizes of a model that can be multiplied without overflow, whatever the kinds of its layers.
/// Errors: `model_not_supported` naming the model and the layer.
Result<void> check_countable(const model::ModelDescription& model);

}  // namespace dgxmm::memory
