#include "core/deployment/state.h"

#include <fmt/format.h>

namespace dgxmm::deployment {

std::string_view name_of(State state) {
  switch (state) {
    case State::starting: return "starting";
    case State::loading: return "loading";
    case State::ready: return "ready";
    case State::sleeping: return "sleeping";
    case State::stopping: return "stopping";
    case State::stopped: return "stopped";
    case State::failed: return "failed";
    case State::unknown: return "unknown";
  }
  return "unknown";
}

std::string_view name_of(Event event) {
  switch (event) {
    case Event::start_requested: return "was asked to start";
    case Event::instance_started: return "was created";
    case Event::engine_ready: return "began to serve";
    case Event::fell_asleep: return "fell asleep";
    case Event::wake_requested: return "was asked to wake up";
    case Event::woke_up: return "woke up";
    case Event::stop_requested: return "was asked to stop";
    case Event::instance_gone: return "ended after a stop";
    case Event::instance_ended: return "ended unasked";
    case Event::start_failed: return "could not be started";
    case Event::ready_timeout: return "did not become ready in time";
    case Event::unreachable: return "stopped answering";
    case Event::reachable_loading: return "answered, still loading";
  }
  return "met an unknown event";
}

Result<State> next(State state, Event event) {
  const bool alive = !is_final(state) && state != State::stopping;
  switch (event) {
    case Event::start_requested:
      if (is_final(state)) return State::starting;
      break;
    case Event::instance_started:
      if (state == State::starting) return State::loading;
      break;
    case Event::engine_ready:
      if (state == State::loading || state == State::unknown || state == State::ready) return State::ready;
      break;
    case Event::fell_asleep:
      if (state == State::ready || state == State::unknown || state == State::loading) return State::sleeping;
      break;
    case Event::wake_requested:
      if (state == State::sleeping) return State::loading;
      break;
    case Event::woke_up:
      if (state == State::sleeping) return State::ready;
      break;
    case Event::stop_requested:
      if (alive || state == State::stopping) return State::stopping;
      break;
    case Event::instance_gone:
      if (state == State::stopping) return State::stopped;
      break;
    case Event::instance_ended:
      if (alive) return State::failed;
      break;
    case Event::start_failed:
      if (state == State::starting || state == State::loading) return State::failed;
      break;
    case Event::ready_timeout:
      if (state == State::loading || state == State::unknown) return State::failed;
      break;
    case Event::unreachable:
      if (alive) return State::unknown;
      break;
    case Event::reachable_loading:
      if (state == State::unknown || state == State::loading) return State::loading;
      break;
  }
  return fail("illegal_transition",
              fmt::format("a deployment that is {} cannot be one that just {}", name_of(state), name_of(event)));
}

bool counts_reserved(State state) {
  return state == State::starting || state == State::loading || state == State::ready || state == State::unknown;
}

bool counts_measured(State state) { return state == State::sleeping || state == State::stopping; }

bool is_final(State state) { return state == State::stopped || state == State::failed; }

}  // namespace dgxmm::deployment
