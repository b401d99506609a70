#pragma once
#include "base/files.h"
#include "ports/store.h"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace SQLite {  // NOLINT(readability-identifier-naming): the library's own
class Database;
}

namespace dgxmm::store {

/// Events beyond the newest ones are removed now and then.
inline constexpr std::int64_t kKeptEvents = 10'000;

/// The state of one daemon: a SQLite file in a folder that no second daemon can open meanwhile.
class SqliteStore final : public ports::Store {
 public:
  /// Makes the folder (0700) and the file in it (0600) when they are not there, and brings an older file up to date.
  /// Errors: `state_in_use` (names the pid), `state_unusable` (cannot be made, read or written), `state_newer` (written
  /// by a newer dgxmm), `state_corrupt`.
  static Result<std::unique_ptr<ports::Store>> open(const std::filesystem::path& folder);

  ~SqliteStore() override;

  DeploymentId add_deployment(const std::string& name, const std::string& document) override;
  void update_deployment(const ports::StoredDeployment& deployment) override;
  void remove_deployment(DeploymentId id) override;
  std::vector<ports::StoredDeployment> deployments() override;

  std::int64_t add_event(const ports::StoredEvent& event) override;
  std::vector<ports::StoredEvent> events_after(std::int64_t id, std::size_t limit) override;
  std::int64_t last_event_id() override;

  std::int64_t add_operation(const std::string& document) override;
  void update_operation(const ports::StoredOperation& operation) override;
  void remove_operation(std::int64_t id) override;
  std::vector<ports::StoredOperation> operations() override;

  void add_calibration(const memory::CalibrationRecord& record) override;
  std::vector<memory::CalibrationRecord> calibrations() override;
  void put_oom_floor(const memory::OomFloor& floor) override;
  std::vector<memory::OomFloor> oom_floors() override;
  void put_sleep_record(const memory::SleepRecord& record) override;
  std::vector<memory::SleepRecord> sleep_records() override;
  void put_duration(const planner::DurationRecord& record) override;
  std::vector<planner::DurationRecord> durations() override;
  void forget(const ports::Learned& those) override;

 private:
  SqliteStore(FileDescriptor lock, std::unique_ptr<SQLite::Database> database, std::string file);

  FileDescriptor lock_;  // released after the database is closed
  std::unique_ptr<SQLite::Database> database_;
  std::string file_;
};

}  // namespace dgxmm::store
