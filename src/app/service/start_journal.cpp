#include "app/service/start_journal.h"

#include "base/json_codec.h"
#include "base/log.h"
#include "base/masking.h"
#include "core/engine/request.h"

#include <boost/describe.hpp>
#include <fmt/format.h>

#include <utility>

namespace dgxmm::service {
namespace {

/// What the file holds. A field added later must be optional.
struct BegunStart {
  std::int64_t deployment = 0;
  std::string boot_id;
  std::string begun_at;
  bool wakes = false;
  Bytes needed_bytes;
};
BOOST_DESCRIBE_STRUCT(BegunStart, (), (deployment, boot_id, begun_at, wakes, needed_bytes))

Failure suspicion_of(const BegunStart& begun) {
  const auto* when =
      begun.wakes ? "the host went down while it was waking up" : "the host went down while it was starting";
  return {.code = std::string{kHostWentDown},
          .message = fmt::format("{} (begun {}, needs {}): it may have been the cause", when, printable(begun.begun_at),
                                 format_bytes(begun.needed_bytes)),
          .hint = "ask for less (context, sequences), or stop something first; starting it again tries the same",
          .last_lines = {}};
}

}  // namespace

StartJournal::StartJournal(ports::StartRecord& record, DeploymentTable& table, std::string boot_id, const Clock& clock,
                           ports::EventLoop& loop)
    : record_(record),
      table_(table),
      boot_id_(std::move(boot_id)),
      clock_(clock),
      loop_(loop) {}

void StartJournal::read_back() {
  const auto text = record_.read();
  if (!text) return;
  const auto parsed = json::parse(*text);
  const auto begun = parsed ? json::decode<BegunStart>(*parsed, json::Unknown::ignore)
                            : Result<BegunStart>{std::unexpect, parsed.error()};
  if (!begun) {
    log::warning("the record of starts cannot be read: {}", printable(begun.error().message));
    record_.clear();
    return;
  }
  const DeploymentId id{begun->deployment};
  auto* deployment = table_.find(id);
  const bool same_boot = begun->boot_id == boot_id_ || begun->boot_id.empty() || boot_id_.empty();
  if (same_boot && deployment != nullptr && !deployment::is_final(deployment->state)) {
    under_way_ = id;  // it is found again, or its end is
    return;
  }
  record_.clear();
  if (same_boot || deployment == nullptr) return;
  auto failure = suspicion_of(*begun);
  log::warning("{}: {}", printable(deployment->name), failure.message);
  // What was stored of it last may be older than the record.
  deployment->ended_with_host = false;
  if (deployment::is_final(deployment->state)) {
    deployment->failure = std::move(failure);
  } else {
    suspicion_ = {id, std::move(failure)};
  }
  table_.save_fact(*deployment);
}

ports::Task<> StartJournal::begin(DeploymentId id) {
  const auto* deployment = table_.find(id);
  if (deployment == nullptr) co_return;
  BegunStart begun;
  begun.deployment = id.value;
  begun.boot_id = boot_id_;
  begun.begun_at = format_time(clock_.wall());
  begun.wakes = deployment->sleep_level.has_value();
  begun.needed_bytes = deployment->reserved();
  under_way_ = id;
  const auto text = json::encode(begun);
  Result<void> written;
  co_await loop_.on_pool([&] { written = record_.write(text); });
  if (!written) log::warning("{}", printable(written.error().message));
}

void StartJournal::end(DeploymentId id) {
  if (under_way_ != id) return;
  under_way_.reset();
  record_.clear();
}

std::optional<Failure> StartJournal::take_suspicion(DeploymentId id) {
  if (!suspicion_ || suspicion_->first != id) return std::nullopt;
  auto failure = std::move(suspicion_->second);
  suspicion_.reset();
  return failure;
}

std::vector<std::string> suspicions(DeploymentTable& table, const std::string& fingerprint,
                                    const engine::EngineConfig& config) {
  const auto key = engine::configuration_key(config);
  std::vector<std::string> found;
  for (const auto* deployment : table.all()) {
    const auto& failure = deployment->failure;
    if (!failure || failure->code != kHostWentDown) continue;
    if (deployment->fingerprint != fingerprint || engine::configuration_key(deployment->config) != key) continue;
    found.push_back(fmt::format("{}: {}; {}", deployment->name, failure->message, failure->hint));
  }
  return found;
}

}  // namespace dgxmm::service
