#pragma once
#include "base/result.h"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dgxmm::model {

/// The weight files that vLLM loads from a folder with `load_format auto`, and what it leaves.
struct WeightFileChoice {
  std::vector<std::string> files;   ///< names in the folder, sorted
  std::vector<std::string> unused;  ///< *.safetensors in the folder that are not loaded
};

/// The index file that decides, when the folder has it: its name depends on whether `file_names` (relative paths of the
/// whole tree) flips vLLM to the Mistral format.
std::string_view index_file_name(std::span<const std::string> file_names);

/// vllm/model_executor/model_loader/default_loader.py at 017e9f44. `index`: the text of the file of index_file_name().
/// `folder` is used in messages only. Errors: `bad_model_file`, `model_not_supported` (no safetensors). A file
/// that the index or the numbers of its siblings ask for is chosen even when it is missing: that is for the caller to
/// see.
Result<WeightFileChoice> choose_weight_files(std::string_view folder, std::span<const std::string> file_names,
                                             std::optional<std::string_view> index);

}  // namespace dgxmm::model
