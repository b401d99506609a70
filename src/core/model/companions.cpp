#include "core/model/companions.h"

#include "core/model/identity.h"

#include <string_view>

namespace dgxmm::model {

Fingerprint fingerprint_of(const ModelDescription& model, const Companions& companions) {
  if (!companions.draft && !companions.projector) return model.fingerprint;
  Hasher hasher;
  hasher.add(std::string_view{model.fingerprint.digest});
  hasher.add(std::string_view{companions.draft ? companions.draft->fingerprint.digest : ""});
  hasher.add(std::string_view{companions.projector ? companions.projector->fingerprint.digest : ""});
  return {.digest = to_hex(hasher.digest())};
}

std::string load_path(const ModelDescription& model) {
  const bool one_file = model.format == Format::gguf && !model.files.empty();
  return one_file ? model.files.front().path : model.path;
}

}  // namespace dgxmm::model
