#pragma once
#include "adapters/modelfs/paths.h"
#include "base/result.h"
#include "core/model/gguf_description.h"
#include "core/model/layout.h"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

// Which files together are a model, and what they say. Every header is read once.
namespace dgxmm::modelfs {

/// A GGUF model: its file or all files of its split, in order.
struct GgufSet {
  std::vector<std::filesystem::path> files;
  std::string stem;                      ///< file name without ending and split suffix
  std::optional<model::GgufPart> first;  ///< of the first file, when it was read already
};

/// The set that a file belongs to: any part of a split leads to all of them.
GgufSet gguf_set_of(const std::filesystem::path& file);

/// What the files of a set are.
struct GgufReading {
  std::vector<model::GgufPart> parts;
  /// A projector or another companion of models, not a model.
  [[nodiscard]] bool companion() const { return model::companion_kind(parts.front().header).has_value(); }
};

/// Reads the headers. `path` stands for the set in messages. Errors: those of read_gguf_file; `model_incomplete` naming
/// the parts that are not there.
Result<GgufReading> read_gguf_set(const std::filesystem::path& path, GgufSet set,
                                  model::DigestOf digest_of = model::DigestOf::header, const model::StopAt& stop = {});

/// Errors: those of read_gguf_set and of describe_gguf.
Result<model::ModelDescription> describe_gguf_set(const std::filesystem::path& path, GgufSet set);

/// Whether a folder is a model of its own.
bool holds_safetensors(const Listing& listing);

/// A folder's name for people: that of the repository for a revision of a Hugging Face cache.
std::string folder_name(const std::filesystem::path& folder);

/// All files of a model's folder and of the folders in it, as relative paths.
std::vector<std::string> files_below(const std::filesystem::path& folder);

Result<model::ModelDescription> describe_safetensors_folder(const std::filesystem::path& folder);

/// A folder with config.json and safetensors, or with one GGUF model, or a repository of a Hugging Face cache.
Result<model::ModelDescription> describe_folder(const std::filesystem::path& folder);

}  // namespace dgxmm::modelfs
