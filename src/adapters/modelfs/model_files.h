#pragma once
#include "adapters/modelfs/catalog_scan.h"
#include "base/result.h"
#include "ports/model_files.h"

#include <optional>
#include <string>
#include <vector>

namespace dgxmm::modelfs {

/// Models in the filesystem. May be called from several threads at once.
class FileSystemModels final : public ports::ModelFiles {
 public:
  /// Also takes a folder with one GGUF model, and the `models--ORG--NAME` folder of a Hugging Face cache.
  Result<model::ModelDescription> describe(const std::string& path) override;
  Result<model::Projector> describe_projector(const std::string& path) override;
  std::vector<ports::LinkedFile> linked_files(const std::string& folder) override;
  /// Follows links to folders, each folder once; a model that several links lead to is listed once.
  ports::Catalog scan(const std::vector<ports::SearchedFolder>& folders) override;
  std::vector<ports::CatalogEntry> quantizations_of(const model::ModelDescription& model,
                                                    const std::vector<ports::SearchedFolder>& folders) override;

 private:
  FactsMemory memory_;
};

/// Why a folder cannot be searched: "FOLDER: does not exist", "FOLDER: cannot be read: …"; absent when it can.
std::optional<std::string> folder_problem(const std::string& folder);

}  // namespace dgxmm::modelfs
