#pragma once
#include "base/bytes.h"
#include "core/model/layout.h"

#include <optional>
#include <string>

namespace dgxmm::model {

/// A GGUF file that turns pictures or sound into embeddings (llama.cpp's `--mmproj`).
struct Projector {
  std::string path;
  Bytes file;
  Bytes tensors;  ///< sum of the tensor bytes in it
  Fingerprint fingerprint;
};

/// What is loaded beside a model.
struct Companions {
  std::optional<ModelDescription> draft;
  std::optional<Projector> projector;
};

/// C7: of a model with what is loaded beside it; that of the model alone when there is nothing.
Fingerprint fingerprint_of(const ModelDescription& model, const Companions& companions);

/// What an engine is given to load: the first file of a GGUF model, the folder of any other.
std::string load_path(const ModelDescription& model);

}  // namespace dgxmm::model
