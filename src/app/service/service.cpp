#include "app/service/service.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace dgxmm::service {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kHistory = std::chrono::hours{1};
constexpr milliseconds kHistoryInterval = std::chrono::seconds{10};

milliseconds budget_interval(const settings::Settings& settings) {
  return milliseconds{static_cast<std::int64_t>(settings.budget_interval_s * 1000)};
}

memory::History new_history(const settings::Settings& settings) {
  const auto interval = std::max(kHistoryInterval, budget_interval(settings));
  return {interval, static_cast<std::size_t>(std::max<std::int64_t>(kHistory / interval, 2))};
}

}  // namespace

Service::Service(Ports ports, const settings::Settings& the_settings, Identity identity)
    : settings(the_settings),
      host(ports.host),
      runtime(ports.world.runtime),
      loop(ports.world.loop),
      clock(ports.world.clock),
      events(ports.store, clock, loop),
      table(ports.store, events, clock),
      sampler(host, ports.gpu, runtime, table, settings.budget(), clock, loop),
      history(new_history(settings)),
      catalog(ports.model_files, ports.folder_watch, events, settings, clock, loop),
      estimates(ports.model_files, catalog, ports.store, settings,
                host.has_nvidia_driver() ? memory::Placement::gpu : memory::Placement::cpu, loop),
      admission(estimates, sampler, table, ports.world.tcp_ports, clock, loop),
      start_journal(ports.start_record, table, identity.boot_id, clock, loop),
      supervisor(ports.world, table, events, sampler, estimates, start_journal, settings, std::move(identity)),
      orphans(runtime, host, table, events, sampler, supervisor.identity(),
              std::chrono::milliseconds{static_cast<std::int64_t>(settings.stop_grace_s * 1000)}),
      ledger(sampler, table, host, ports.memory_groups, ports.container_names, orphans, loop),
      operations(ports.store, admission, supervisor, table, events, sampler, clock, loop),
      restoring(admission, supervisor, table, events, settings, loop),
      last_sample_(clock.steady()) {
  const auto announce = [this] { events.changed().notify_all(); };
  admission.turns().on_change(announce);
  supervisor.starts().on_change(announce);
}

Result<void> Service::begin() {
  if (auto loaded = table.load(); !loaded) return loaded;
  if (auto loaded = operations.load(); !loaded) return loaded;
  start_journal.read_back();
  supervisor.reconcile();
  sample();
  operations.resume();
  restoring.begin();
  catalog.begin();
  loop.spawn("read the host", sample_forever());
  loop.spawn("examine the host", examine_forever());
  return {};
}

ports::Task<> Service::sample_forever() {
  while (!loop.stopping()) {
    co_await loop.sleep_for(budget_interval(settings));
    if (loop.stopping()) co_return;
    table.retry_unsaved();
    operations.retry_unsaved();
    estimates.retry_unsaved();
    sample();
    last_sample_ = clock.steady();
  }
}

void Service::sample() {
  const auto snapshot = sampler.refresh();
  if (history.is_due(snapshot->time)) history.add(history_point(*snapshot));
}

ports::Task<> Service::examine_forever() {
  // What is read here changes slowly, and some of it is dear to read.
  constexpr std::chrono::seconds kInterval{60};
  while (!loop.stopping()) {
    host::ExaminedHost facts;
    co_await loop.on_pool([&] { facts = host.examined(); });
    sampler.note(std::move(facts));
    co_await loop.sleep_for(kInterval);
  }
}

std::optional<std::string> Service::trouble() const {
  const auto snapshot = sampler.latest();
  if (snapshot && snapshot->problem) return snapshot->problem->message;
  const auto silent = std::chrono::duration<double>(clock.steady() - last_sample_).count();
  if (silent > 5 * settings.budget_interval_s + 5) return fmt::format("the host was last read {:.0f} s ago", silent);
  if (const auto& problem = table.storing_problem()) return fmt::format("the state cannot be stored: {}", *problem);
  if (auto stuck = admission.turns().trouble()) return stuck;
  return supervisor.starts().trouble();
}

}  // namespace dgxmm::service
