#pragma once
#include "base/result.h"
#include "core/model/layout.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dgxmm::model {

/// A folder to search for models.
struct SearchedFolder {
  std::string path;
  bool may_be_missing = false;  ///< nobody asked for it by name: that it is not there is no problem
};

/// A model found on disk: what people choose by, and no more, so that thousands of them are cheap to keep.
struct CatalogEntry {
  std::string
      name;  ///< what `fit` and `deploy` take, see name_entries; equal for models that only their path tells apart
  std::string path;
  std::optional<Format> format;  ///< absent: a download has begun, and no file of it is there yet
  Bytes size;  ///< of the files that are loaded; of those that are there, when the model has a problem
  std::string architecture, quantization;
  std::string base_model;             ///< of the description: same text = same model in another quantization
  std::int64_t training_context = 0;  ///< 0 = not known
  std::string problem;                ///< why it cannot be used; empty = usable
  std::string group = {};             ///< group_key of the description; empty = not known
  std::string stem = {};              ///< file name without .gguf or split suffix, or the folder's name
  std::string repository = {};        ///< "ORG/NAME" in a Hugging Face cache; empty = a plain file or folder
  std::string revision = {};          ///< the commit of the repository

  friend bool operator==(const CatalogEntry&, const CatalogEntry&) = default;
};

/// What a scan of folders found.
struct Catalog {
  std::vector<CatalogEntry> models;           ///< by name; broken ones with their problem
  std::vector<CatalogEntry> other_revisions;  ///< of repositories, beside the chosen one: names and paths only
  std::vector<std::string> problems;          ///< "FOLDER: …": what could not be searched or is not complete
  std::vector<std::string> folders;  ///< all that were searched: what changes in one of them changes the catalog
};

/// What quantizations of one model have in common in every format, so that a GGUF file stands beside the safetensors
/// that it was made from: "qwen3-8b/36x4096". For showing them together; to swap one for another takes an equal
/// `base_model`. Empty when the base model is not known.
std::string group_key(const ModelDescription& model);

/// The part of a group's key that people read: "qwen3-8b".
std::string_view group_title(std::string_view key);

/// Gives every model of a repository its name: "ORG/NAME" for the only model or the only one in safetensors,
/// "ORG/NAME:TAG" else, where the tag is what the file's name says of its quantization ("Q4_K_M"), or all of the
/// file's name where that does not tell two apart. Other revisions are "ORG/NAME@COMMIT…".
void name_entries(Catalog& catalog);

/// Whether a text can be the name of a repository's model: "ORG/NAME", with "@REVISION", ":TAG" or both behind it.
/// Anything else with a slash in it is a path.
bool is_repository_name(std::string_view text);

/// The path of the model that was meant by a name. Takes an entry's name or the name of its file or folder; of a
/// repository also "NAME" without "ORG/", and behind either "@REVISION" (its first digits) and ":TAG" (what the file's
/// name says of the quantization, the quantization itself or the file's name, in any case). Errors: `model_not_found`,
/// `model_ambiguous`, with `field` as their place.
Result<std::string> find_model(const Catalog& catalog, std::string_view name, std::string_view field = "model");

/// P4: the usable models that are `model` in another quantization and run with the same engine, the largest first; of
/// equally large ones one. Nothing when the base model is not known.
std::vector<const CatalogEntry*> other_quantizations(std::span<const CatalogEntry> models,
                                                     const ModelDescription& model);

/// Of smaller ones, the largest first, those that are worth reading to find the largest that fits into `room` (absent:
/// not known): files larger than that cannot fit. At most `most`, of 1 or more; the smallest is among them, because its
/// plan says what is missing when none fits.
std::vector<const CatalogEntry*> worth_reading(std::vector<const CatalogEntry*> smaller, std::optional<Bytes> room,
                                               std::size_t most);

}  // namespace dgxmm::model
