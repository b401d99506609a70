#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dgxmm::model {

/// Where a file stands in a split model, as told by its name: "PREFIX-00002-of-00003.gguf". llama.cpp and transformers
/// use the same pattern.
struct SplitName {
  std::string prefix;
  std::uint32_t number = 0;  ///< 1-based
  std::uint32_t count = 0;
  std::string ending;  ///< ".gguf" or ".safetensors"
};

/// Nothing when `file_name` is not the name of such a part.
std::optional<SplitName> parse_split_name(std::string_view file_name, std::string_view ending);

/// The name of part `number` (1-based) of the same split.
std::string split_file_name(const SplitName& split, std::uint32_t number);

}  // namespace dgxmm::model
