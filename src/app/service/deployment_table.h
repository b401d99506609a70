#pragma once
#include "app/service/deployment.h"
#include "app/service/events.h"
#include "ports/store.h"

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace dgxmm::service {

/// All deployments; the only place where one changes. Each change of state goes through the state machine, is stored,
/// then published. A decision that cannot be stored is not made. A fact that cannot be stored is a fact all the same:
/// it is kept here and stored later; a daemon that is killed before that finds it again by looking at what runs.
class DeploymentTable {
 public:
  DeploymentTable(ports::Store& store, EventLog& events, const Clock& clock);

  /// Reads what an earlier daemon left. Errors: a row that cannot be read, named.
  Result<void> load();

  /// Gives it its id; from here on it is reserved memory (P13). Throws when it cannot be stored.
  Deployment& add(Deployment deployment);
  /// Applies an event and publishes the change with `message`. An illegal event is a mistake of ours: it is logged,
  /// nothing changes, and false is returned. Throws, and changes nothing, when a start cannot be stored.
  bool apply(Deployment& deployment, deployment::Event event, std::string message);
  /// Stores a decision of the user's that is not one of state; `changed` takes the place of the deployment with its id.
  void replace(Deployment changed);
  /// Stores a fact that is not one of state.
  void save_fact(const Deployment& deployment);
  void remove(DeploymentId id);

  /// Tries again to store the facts that could not be; called at every tick.
  void retry_unsaved();
  /// Why facts could not be stored; nothing when all are.
  [[nodiscard]] const std::optional<std::string>& storing_problem() const { return storing_problem_; }

  /// Null when there is none. Pointers stay valid until `remove`; look it up again after every await.
  [[nodiscard]] Deployment* find(DeploymentId id);
  /// By id in digits or by name; the newest of that name that has not ended, else the newest.
  [[nodiscard]] Deployment* find(std::string_view id_or_name);
  [[nodiscard]] std::vector<Deployment*> all();
  /// "base", or "base-2", … so that no deployment has it yet.
  [[nodiscard]] std::string unique_name(const std::string& base) const;

 private:
  void save(const Deployment& deployment);

  ports::Store& store_;
  EventLog& events_;
  const Clock& clock_;
  std::map<DeploymentId, std::unique_ptr<Deployment>> deployments_;
  std::set<DeploymentId> unsaved_;
  std::optional<std::string> storing_problem_;
};

}  // namespace dgxmm::service
