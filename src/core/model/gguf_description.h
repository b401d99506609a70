#pragma once
#include "base/result.h"
#include "core/model/companions.h"
#include "core/model/gguf.h"
#include "core/model/layout.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace dgxmm::model {

/// One file of a model, with its header.
struct GgufPart {
  std::string path;
  std::uint64_t size = 0;
  GgufHeader header;
};

/// "projector", "adapter", …: what a GGUF file is that is not a model by itself; nothing for a model.
std::optional<std::string> companion_kind(const GgufHeader& header);

/// Describes a projector. Errors: `bad_model_file` when the file is something else.
Result<Projector> describe_projector(const GgufPart& part);

/// The label of `general.file_type`, such as "Q4_K_M"; nothing for values that are retired or not known.
std::optional<std::string> file_type_label(std::int64_t file_type);

/// Describes a model from the headers of all its files, in the order of the split.
/// `path` is what the user named, `stem` the file's name without ending and split suffix.
/// An architecture that is not known is described when nothing in its keys hints at more than plain attention, and is
/// then named in `missing_fields` (E8); else it is `model_not_supported`, so that none is ever estimated as something
/// that it is not (E9). Further errors: `bad_model_file`, `model_incomplete`.
Result<ModelDescription> describe_gguf(std::string_view path, std::string_view stem, std::span<const GgufPart> parts);

}  // namespace dgxmm::model
