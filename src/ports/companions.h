#pragma once
#include "base/result.h"
#include "core/engine/request.h"
#include "core/model/companions.h"
#include "ports/model_files.h"

#include <string>
#include <string_view>
#include <utility>

namespace dgxmm::ports {

/// What a request names beside its model, read from the disk; `draft_model` is a path by now. A draft of several files
/// is renamed to the one that the engine is given. Errors: those of ModelFiles, with the field named.
inline Result<model::Companions> describe_companions(ModelFiles& files, engine::DeployRequest& request) {
  const auto named = [](Error error, std::string_view field) {
    error.message = std::string{field} + ": " + error.message;
    error.where = field;
    return fail(std::move(error));
  };
  model::Companions companions;
  if (request.draft_model && !request.draft_model->empty()) {
    auto draft = files.describe(*request.draft_model);
    if (!draft) return named(std::move(draft.error()), "draft_model");
    request.draft_model = model::load_path(*draft);
    companions.draft = std::move(*draft);
  }
  if (request.mmproj && *request.mmproj != "none") {
    auto projector = files.describe_projector(*request.mmproj);
    if (!projector) return named(std::move(projector.error()), "mmproj");
    companions.projector = std::move(*projector);
  }
  return companions;
}

}  // namespace dgxmm::ports
