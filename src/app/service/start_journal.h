#pragma once
#include "app/service/deployment_table.h"
#include "ports/event_loop.h"
#include "ports/start_record.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dgxmm::service {

/// Code of the failure of a deployment that was starting, or waking up, when the host went down without a word. That it
/// was the cause is suspected, not known (C5: only the kernel's line is evidence).
inline constexpr std::string_view kHostWentDown = "host_went_down";

/// Which start is under way, on the disk itself, so that the next daemon can say so after a freeze. One at a time, as
/// starts are.
class StartJournal {
 public:
  StartJournal(ports::StartRecord& record, DeploymentTable& table, std::string boot_id, const Clock& clock,
               ports::EventLoop& loop);

  /// What an earlier daemon left; to be called before the deployments are reconciled. One whose start was under way
  /// when the host went down is not started again by itself.
  void read_back();

  /// A start, or a wake, is about to take memory. Returns when the disk has it; when that cannot be had, it goes on
  /// without.
  ports::Task<> begin(DeploymentId id);
  /// It is over, or this daemon ends in order.
  void end(DeploymentId id);

  /// What it is to be said to have failed of, if the host went down meanwhile; once.
  std::optional<Failure> take_suspicion(DeploymentId id);

 private:
  ports::StartRecord& record_;
  DeploymentTable& table_;
  std::string boot_id_;
  const Clock& clock_;
  ports::EventLoop& loop_;
  std::optional<DeploymentId> under_way_;
  std::optional<std::pair<DeploymentId, Failure>> suspicion_;
};

/// Ends the record of a start when that is over, however its task ends.
class StartOnRecord {
 public:
  StartOnRecord(StartJournal& journal, DeploymentId id) : journal_(journal), id_(id) {}
  StartOnRecord(const StartOnRecord&) = delete;
  StartOnRecord& operator=(const StartOnRecord&) = delete;
  ~StartOnRecord() { journal_.end(id_); }

 private:
  StartJournal& journal_;
  DeploymentId id_;
};

/// Starts of the same model with the same configuration (C7) that were under way when the host went down, and that have
/// not served since: a sentence each, with what to do.
std::vector<std::string> suspicions(DeploymentTable& table, const std::string& fingerprint,
                                    const engine::EngineConfig& config);

}  // namespace dgxmm::service
