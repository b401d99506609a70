#pragma once
#include "app/service/admission.h"
#include "app/service/deployment_table.h"
#include "app/service/events.h"
#include "app/service/supervisor.h"
#include "core/settings/settings.h"
#include "ports/event_loop.h"

#include <string>

namespace dgxmm::service {

/// After a restart of the host: starts again what served before it, one after the other, the most important first
/// (D20). Each takes the same way as a start by hand: what does not fit any more stays `failed`, and says why.
class Restoring {
 public:
  Restoring(Admission& admission, Supervisor& supervisor, DeploymentTable& table, EventLog& events,
            const settings::Settings& settings, ports::EventLoop& loop);

  /// Once, after `Supervisor::reconcile`; goes on by itself.
  void begin();

 private:
  ports::Task<> run();
  /// Waits, not for ever, until it is known what became of everything: the most important may be a container.
  ports::Task<> until_all_is_known();
  /// Null when none waits for it.
  Deployment* next();
  ports::Task<> restore(DeploymentId id);
  ports::Task<Result<void>> readmit(DeploymentId id);
  ports::Task<Result<void>> readmit_or_throw(DeploymentId id);
  void leave_as_it_is(Deployment& deployment, const Error& reason);

  Admission& admission_;
  Supervisor& supervisor_;
  DeploymentTable& table_;
  EventLog& events_;
  const settings::Settings& settings_;
  ports::EventLoop& loop_;
};

}  // namespace dgxmm::service
