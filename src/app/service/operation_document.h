#pragma once
#include "app/dto/dto.h"
#include "base/result.h"
#include "ports/store.h"

#include <string>

namespace dgxmm::service {

/// The JSON that is stored for an operation: what the API shows of it.
std::string to_document(const dto::Operation& operation);

/// Errors: `bad_json`, `bad_field`, `missing_field`: the database was changed by something else.
Result<dto::Operation> from_document(const ports::StoredOperation& stored);

}  // namespace dgxmm::service
