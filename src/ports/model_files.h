#pragma once
#include "base/result.h"
#include "core/model/companions.h"
#include "core/model/layout.h"

#include <string>
#include <vector>

namespace dgxmm::ports {

/// A model found in one of the folders of the settings.
struct CatalogEntry {
  std::string name;  ///< file name without .gguf or split suffix, or the folder's name
  std::string path;
  model::Format format = model::Format::gguf;
  Bytes size;
  std::string architecture, quantization, base_model;
  std::int64_t training_context = 0;
  std::string problem;  ///< why it cannot be used; empty = usable
};

/// What a scan found.
struct Catalog {
  std::vector<CatalogEntry> models;
  std::vector<std::string> problems;  ///< "FOLDER: …": folders that are not there or cannot be read
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
  /// Every model below the folders, by name; broken ones with their problem.
  virtual Catalog scan(const std::vector<std::string>& folders) = 0;
};

}  // namespace dgxmm::ports
