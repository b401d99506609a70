#include "app/service/operation_document.h"

#include "app/dto/dto_json.h"

namespace dgxmm::service {

std::string to_document(const dto::Operation& operation) { return json::encode(operation); }

Result<dto::Operation> from_document(const ports::StoredOperation& stored) {
  const auto value = json::parse(stored.document);
  if (!value) return fail(value.error());
  auto operation = json::decode<dto::Operation>(*value, json::Unknown::ignore);
  if (!operation) return operation;
  operation->id = std::to_string(stored.id);
  return operation;
}

}  // namespace dgxmm::service
