#pragma once
#include "base/result.h"
#include "core/model/gguf_description.h"
#include "core/model/hf_config.h"

#include <cstdint>
#include <filesystem>
#include <string>

namespace dgxmm::modelfs {

/// Reads the header of a GGUF file and nothing of its tensors. Errors: `model_not_found`, `model_incomplete`,
/// `bad_model_file`, `model_not_supported`, `not_wanted`.
Result<model::GgufPart> read_gguf_file(const std::filesystem::path& path,
                                       model::DigestOf digest_of = model::DigestOf::header,
                                       const model::StopAt& stop = {});

/// The same for a safetensors file.
Result<model::SafetensorsPart> read_safetensors_file(const std::filesystem::path& path);

/// The whole of a small file such as config.json. Errors as above; `bad_model_file` when it is larger than `limit`.
Result<std::string> read_whole_file(const std::filesystem::path& path, std::uint64_t limit);

}  // namespace dgxmm::modelfs
