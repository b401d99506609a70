#include "app/service/deployment_table.h"

#include "app/service/deployment_document.h"
#include "base/log.h"
#include "base/numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

namespace dgxmm::service {

DeploymentTable::DeploymentTable(ports::Store& store, EventLog& events, const Clock& clock)
    : store_(store),
      events_(events),
      clock_(clock) {}

Result<void> DeploymentTable::load() {
  for (const auto& stored : store_.deployments()) {
    auto deployment = from_document(stored.id, stored.document);
    if (!deployment) {
      return fail(
          "bad_state",
          fmt::format("deployment {} ('{}') in the database cannot be read: {}", stored.id.value, stored.name,
                      deployment.error().message),
          "the database was changed by another program or version; restore it, or start with an empty --state-dir",
          deployment.error().where);
    }
    deployments_[stored.id] = std::make_unique<Deployment>(std::move(*deployment));
  }
  return {};
}

Deployment& DeploymentTable::add(Deployment deployment) {
  deployment.created_at = deployment.state_since = clock_.wall();
  deployment.id = store_.add_deployment(deployment.name, to_document(deployment));
  const auto id = deployment.id;
  auto& added = *(deployments_[id] = std::make_unique<Deployment>(std::move(deployment)));
  events_.publish("deployment.created", id,
                  fmt::format("{}: {} reserved for {}", added.name, format_bytes(added.reserved()), added.model_name),
                  {{"name", added.name}, {"reserved_bytes", std::to_string(added.reserved().count())}});
  return added;
}

bool DeploymentTable::apply(Deployment& deployment, deployment::Event event, std::string message) {
  const auto next = deployment::next(deployment.state, event);
  if (!next) {
    log::error("{}: {}", deployment.name, next.error().message);
    return false;
  }
  const auto before = deployment.state;
  const auto before_since = deployment.state_since;
  deployment.state = *next;
  if (before != *next) deployment.state_since = clock_.wall();
  if (event == deployment::Event::start_requested) {
    try {
      save(deployment);
    } catch (...) {
      deployment.state = before;
      deployment.state_since = before_since;
      throw;
    }
  } else {
    save_fact(deployment);
  }
  events_.publish("deployment.state", deployment.id, fmt::format("{}: {}", deployment.name, message),
                  {{"name", deployment.name},
                   {"from", std::string{deployment::name_of(before)}},
                   {"to", std::string{deployment::name_of(*next)}}});
  return true;
}

void DeploymentTable::save(const Deployment& deployment) {
  store_.update_deployment({deployment.id, deployment.name, to_document(deployment)});
  unsaved_.erase(deployment.id);
}

void DeploymentTable::replace(Deployment changed) {
  save(changed);
  if (auto* deployment = find(changed.id)) *deployment = std::move(changed);
}

void DeploymentTable::save_fact(const Deployment& deployment) {
  try {
    save(deployment);
  } catch (const std::exception& error) {
    log::error("{}: what happened to it could not be stored, and will be tried again: {}", deployment.name,
               error.what());
    unsaved_.insert(deployment.id);
    storing_problem_ = error.what();
  }
}

void DeploymentTable::retry_unsaved() {
  for (const auto id : std::set<DeploymentId>{unsaved_}) {
    try {
      save(*deployments_.at(id));
    } catch (const std::exception& error) {
      storing_problem_ = error.what();
      return;
    }
  }
  storing_problem_.reset();
}

void DeploymentTable::remove(DeploymentId id) {
  const auto found = deployments_.find(id);
  if (found == deployments_.end()) return;
  const auto name = found->second->name;
  store_.remove_deployment(id);
  deployments_.erase(found);
  unsaved_.erase(id);
  events_.publish("deployment.removed", id, fmt::format("{}: removed", name), {{"name", name}});
}

Deployment* DeploymentTable::find(DeploymentId id) {
  const auto found = deployments_.find(id);
  return found == deployments_.end() ? nullptr : found->second.get();
}

Deployment* DeploymentTable::find(std::string_view id_or_name) {
  if (const auto number = parse_number(id_or_name)) {
    if (auto* found = find(DeploymentId{*number})) return found;
  }
  Deployment* best = nullptr;
  for (const auto& [id, deployment] : deployments_) {
    if (deployment->name != id_or_name) continue;
    if (best == nullptr || !deployment::is_final(deployment->state) || deployment::is_final(best->state))
      best = deployment.get();
  }
  return best;
}

std::vector<Deployment*> DeploymentTable::all() {
  std::vector<Deployment*> result;
  result.reserve(deployments_.size());
  for (const auto& [id, deployment] : deployments_) result.push_back(deployment.get());
  return result;
}

std::string DeploymentTable::unique_name(const std::string& base) const {
  const auto taken = [&](const std::string& name) {
    return std::ranges::any_of(deployments_, [&](const auto& entry) { return entry.second->name == name; });
  };
  auto name = base;
  for (int n = 2; taken(name); ++n) name = fmt::format("{}-{}", base, n);
  return name;
}

}  // namespace dgxmm::service
