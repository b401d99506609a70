#pragma once
#include "core/model/catalog.h"
#include "core/model/identity.h"

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace dgxmm::modelfs {

/// What a catalog needs of a model's headers.
struct ModelFacts {
  Bytes size;
  std::string architecture, quantization, base_model, group;
  std::int64_t training_context = 0;
  std::string problem;
  bool companion = false;  ///< a projector or the like, not a model
};

/// What was read in the last scan, by what tells the files from any others: paths, devices, inodes, sizes and times.
class FactsMemory {
 public:
  struct Hash {
    std::size_t operator()(const model::Digest& digest) const { return digest.low; }
  };
  using Map = std::unordered_map<model::Digest, ModelFacts, Hash>;

  [[nodiscard]] Map copy();
  void replace(Map facts);

 private:
  std::mutex mutex_;
  Map facts_;
};

/// Walks the folders, reads the headers that `memory` does not know, on a few threads when there are many, and keeps in
/// `memory` what is of use for the next scan.
model::Catalog scan_folders(const std::vector<model::SearchedFolder>& folders, FactsMemory& memory);

/// The other quantizations of a model below the folders, all that `scan_folders` would find. Of other models no more is
/// read than tells that they are others: for most of them the first keys of a GGUF file, or the name of a folder.
std::vector<model::CatalogEntry> find_quantizations(const std::vector<model::SearchedFolder>& folders,
                                                    const model::ModelDescription& model);

}  // namespace dgxmm::modelfs
