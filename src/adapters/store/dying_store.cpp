#include "adapters/store/dying_store.h"

#include "base/numbers.h"

#include <csignal>
#include <cstdlib>

namespace dgxmm::store {

void DyingStore::count() {
  if (++writes_ == die_at_) std::raise(SIGKILL);
}

DeploymentId DyingStore::add_deployment(const std::string& name, const std::string& document) {
  if (writes_ > 0) count();
  return store_.add_deployment(name, document);
}

void DyingStore::update_deployment(const ports::StoredDeployment& deployment) {
  if (writes_ > 0) count();
  store_.update_deployment(deployment);
}

void DyingStore::remove_deployment(DeploymentId id) {
  if (writes_ > 0) count();
  store_.remove_deployment(id);
}

std::int64_t DyingStore::add_operation(const std::string& document) {
  count();
  return store_.add_operation(document);
}

void DyingStore::update_operation(const ports::StoredOperation& operation) {
  if (writes_ > 0) count();
  store_.update_operation(operation);
}

void DyingStore::remove_operation(std::int64_t id) {
  if (writes_ > 0) count();
  store_.remove_operation(id);
}

std::optional<std::int64_t> write_to_die_at() {
  const char* text = std::getenv("DGXMM_TEST_KILL_AT_WRITE");  // before any thread is started
  return text == nullptr ? std::nullopt : parse_number(text);
}

}  // namespace dgxmm::store
