#pragma once
#include "app/service/deployment.h"
#include "base/result.h"

#include <string>

namespace dgxmm::service {

/// The JSON that is stored for a deployment.
std::string to_document(const Deployment& deployment);

/// Errors: `bad_json`, `bad_field`, `missing_field`: the database was changed by something else.
Result<Deployment> from_document(DeploymentId id, const std::string& document);

}  // namespace dgxmm::service
