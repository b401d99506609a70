#pragma once
#include "base/result.h"

#include <string_view>

namespace dgxmm::deployment {

/// starting (instance being created) -> loading (engine alive, not serving) -> ready -> sleeping -> loading (waking up)
/// -> ready;
/// any -> stopping -> stopped -> starting; failed (ended unasked, or never became ready); unknown (cannot be reached).
enum class State { starting, loading, ready, sleeping, stopping, stopped, failed, unknown };

std::string_view name_of(State state);

/// What happened. Facts, not wishes: the adapters and the supervisor report them.
enum class Event {
  start_requested,   ///< a stopped or failed deployment is started again
  instance_started,  ///< the process or container exists
  engine_ready,      ///< answers, and names the expected model
  fell_asleep,       ///< by anyone's call; or it sleeps again after a wake that was broken off
  wake_requested,    ///< from here on it is counted in full (P13)
  woke_up,           ///< by someone else's call
  stop_requested,
  instance_gone,      ///< it ended, and its memory is back
  instance_ended,     ///< it ended without being asked to
  start_failed,       ///< it could not be created
  ready_timeout,      ///< it never became ready
  unreachable,        ///< the runtime or the engine does not answer
  reachable_loading,  ///< answers again, not serving yet
};

/// The event in words that follow a name: "was asked to stop".
std::string_view name_of(Event event);

/// The state after an event. Errors: `illegal_transition`, a mistake of the caller.
Result<State> next(State state, Event event);

/// B2: counted with max(reserved, measured).
bool counts_reserved(State state);
/// B2: counted with measured only.
bool counts_measured(State state);
/// Ended for good; may be started again or removed.
bool is_final(State state);

}  // namespace dgxmm::deployment
