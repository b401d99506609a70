#pragma once
#include "app/service/service.h"
#include "ports/http_handler.h"

#include <cstdint>
#include <memory>
#include <string>

namespace dgxmm::api {

/// Server-sent events: every event after `last_id`, then new ones as they happen; the budget whenever it changed
/// (`event: budget`, without an id, since only the newest matters), and likewise each new point of the history.
std::unique_ptr<ports::BodyStream> event_stream(service::Service& service, std::int64_t last_id);

/// The last `tail` lines of an engine's log, then new ones until the deployment has ended. Masked.
std::unique_ptr<ports::BodyStream> log_stream(service::Service& service, DeploymentId id, std::size_t tail);

}  // namespace dgxmm::api
