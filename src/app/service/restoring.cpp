#include "app/service/restoring.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <tuple>
#include <utility>
#include <vector>

namespace dgxmm::service {
namespace {

using namespace std::chrono_literals;

// Docker comes up within seconds of dgxmm, or not at all.
constexpr auto kDockerPatience = 60s;
constexpr auto kLongWait = 1h;

bool is_waiting(const Deployment& deployment) {
  return deployment.ended_with_host && deployment::is_final(deployment.state);
}

/// The most important first; of equals the sleepers, which need their room for a while only.
bool comes_before(const Deployment* a, const Deployment* b) {
  const auto key = [](const Deployment& deployment) {
    return std::tuple{-deployment.priority, !deployment.sleep_level.has_value(), deployment.id.value};
  };
  return key(*a) < key(*b);
}

}  // namespace

Restoring::Restoring(Admission& admission, Supervisor& supervisor, DeploymentTable& table, EventLog& events,
                     const settings::Settings& settings, ports::EventLoop& loop)
    : admission_(admission),
      supervisor_(supervisor),
      table_(table),
      events_(events),
      settings_(settings),
      loop_(loop) {}

void Restoring::begin() { loop_.spawn("start again what ended with the host", run()); }

ports::Task<> Restoring::until_all_is_known() {
  for (auto waited = 0s; waited < kDockerPatience && !supervisor_.all_known() && !loop_.stopping(); waited += 1s) {
    co_await loop_.sleep_for(1s);
  }
}

Deployment* Restoring::next() {
  auto all = table_.all();
  std::erase_if(all, [](const auto* deployment) { return !is_waiting(*deployment); });
  const auto first = std::ranges::min_element(all, comes_before);
  return first == all.end() ? nullptr : *first;
}

ports::Task<> Restoring::run() {
  co_await until_all_is_known();
  bool announced = false;
  while (!loop_.stopping()) {
    auto* deployment = next();
    if (deployment == nullptr) {
      if (supervisor_.all_known()) co_return;
      co_await events_.changed().wait_for(kLongWait);
      continue;
    }
    if (settings_.restore_after_reboot == "off") {
      deployment->ended_with_host = false;
      table_.save_fact(*deployment);
      continue;
    }
    if (!std::exchange(announced, true)) {
      events_.publish("host.restarted", std::nullopt,
                      "the host was restarted: what served before is started again, one after the other", {});
    }
    const auto id = deployment->id;
    co_await restore(id);
  }
}

ports::Task<Result<void>> Restoring::readmit_or_throw(DeploymentId id) {
  const auto* asked = table_.find(id);
  if (asked == nullptr) co_return fail("cancelled", "it is wanted no more");
  TurnQueue::Claim claim{.what = fmt::format("start {} again after the restart of the host", asked->name),
                         .priority = asked->priority,
                         .deployment = id,
                         .patient = true};
  const auto turn = co_await admission_.turns().take(std::move(claim));
  if (!turn) co_return fail(turn.error());
  const auto* deployment = table_.find(id);
  if (loop_.stopping() || deployment == nullptr || !is_waiting(*deployment)) {
    co_return fail("cancelled", "it is wanted no more");
  }
  auto readmitted = co_await admission_.readmit_in_turn(id);
  co_return readmitted;
}

/// An exception of the store must not keep the others from being started.
ports::Task<Result<void>> Restoring::readmit(DeploymentId id) {
  try {
    auto readmitted = co_await readmit_or_throw(id);
    co_return readmitted;
  } catch (const std::exception& error) {
    co_return fail("internal_error", error.what());
  }
}

ports::Task<> Restoring::restore(DeploymentId id) {
  const auto* before = table_.find(id);
  if (before == nullptr) co_return;
  const auto level = before->sleep_level;
  const auto readmitted = co_await readmit(id);
  if (loop_.stopping()) co_return;  // the next daemon goes on with it
  auto* deployment = table_.find(id);
  if (deployment == nullptr) co_return;
  if (!readmitted) {
    if (is_waiting(*deployment)) leave_as_it_is(*deployment, readmitted.error());
    co_return;
  }
  supervisor_.start(id);
  co_await supervisor_.settle(id);
  deployment = table_.find(id);
  if (!level || loop_.stopping() || deployment == nullptr || deployment->state != deployment::State::ready) co_return;
  const auto asleep = co_await supervisor_.sleep(id, *level, true);
  static_cast<void>(asleep);  // the supervisor has said so: it serves, and can be put to sleep again by hand
}

void Restoring::leave_as_it_is(Deployment& deployment, const Error& reason) {
  deployment.ended_with_host = false;
  const auto last_lines = deployment.failure ? deployment.failure->last_lines : std::vector<std::string>{};
  deployment.failure = Failure{
      "host_restarted", fmt::format("the host was restarted, and it could not be started again: {}", reason.message),
      reason.hint.empty() ? std::string{"start it again when there is room"} : reason.hint, last_lines};
  table_.save_fact(deployment);
  events_.publish("deployment.not_restored", deployment.id,
                  fmt::format("{}: {}", deployment.name, deployment.failure->message), {{"name", deployment.name}});
}

}  // namespace dgxmm::service
