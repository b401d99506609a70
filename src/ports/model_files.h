#pragma once
#include "base/result.h"
#include "core/model/catalog.h"
#include "core/model/companions.h"
#include "core/model/layout.h"

#include <string>
#include <vector>

namespace dgxmm::ports {

using model::Catalog;
using model::CatalogEntry;
using model::SearchedFolder;

/// Where a link in a model's folder leads.
struct LinkedFile {
  std::string path;  ///< that the link names, made absolute: outside of the folder
  std::string file;  ///< what is there in the end
  friend bool operator==(const LinkedFile&, const LinkedFile&) = default;
};

/// Reads models from disk: headers only. Blocking; call on the pool.
class ModelFiles {
 public:
  virtual ~ModelFiles() = default;
  /// A GGUF file (any shard of a split) or a folder with config.json and safetensors. Errors name the file:
  /// `model_not_found`, `bad_model_file`, `model_incomplete`, `model_not_supported`.
  virtual Result<model::ModelDescription> describe(const std::string& path) = 0;
  /// A GGUF file with a projector. Errors as above; `bad_model_file` for one that is something else.
  virtual Result<model::Projector> describe_projector(const std::string& path) = 0;
  /// The files outside of a folder that links in it lead to, as those of the Hugging Face cache do: what somebody
  /// needs who is given the folder alone. Without links to folders, to what is not there, and to the system's own
  /// files. Of anything but a folder none.
  virtual std::vector<LinkedFile> linked_files(const std::string& folder) = 0;
  /// Every model below the folders. A file that has not changed since the last scan is not read again.
  virtual Catalog scan(const std::vector<SearchedFolder>& folders) = 0;
  /// The same models in other quantizations (model::other_quantizations of a scan), found sooner than by a first scan.
  virtual std::vector<CatalogEntry> quantizations_of(const model::ModelDescription& model,
                                                     const std::vector<SearchedFolder>& folders) = 0;
};

}  // namespace dgxmm::ports
