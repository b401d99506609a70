#pragma once
#include "base/clock.h"
#include "base/ids.h"
#include "base/result.h"
#include "core/memory/calibration.h"
#include "core/memory/sleep.h"
#include "core/planner/durations.h"

#include <optional>
#include <string>
#include <vector>

namespace dgxmm::ports {

struct StoredDeployment {
  DeploymentId id;
  std::string name;
  std::string document;  ///< JSON, written and read by the service
};

struct StoredEvent {
  std::int64_t id = 0;  ///< ascending, never used again
  WallTime time;
  std::string type;  ///< "deployment.state", "calibration.recorded", …
  std::optional<DeploymentId> deployment;
  std::string document;  ///< JSON
};

/// A plan being carried out, or carried out.
struct StoredOperation {
  std::int64_t id = 0;   ///< ascending, never used again
  std::string document;  ///< JSON, written and read by the service
};

/// What earlier starts taught, or a part of it.
struct Learned {
  std::vector<memory::CalibrationRecord> records;
  std::vector<memory::OomFloor> oom_floors;
  std::vector<memory::SleepRecord> sleep_records;
  std::vector<planner::DurationRecord> durations;
};

/// What survives the daemon. Calls are short writes to a local file in WAL mode; loop thread only.
/// A write that fails throws `std::runtime_error` naming the file: nothing may go on as if it had been stored.
class Store {
 public:
  virtual ~Store() = default;
  virtual DeploymentId add_deployment(const std::string& name, const std::string& document) = 0;
  virtual void update_deployment(const StoredDeployment& deployment) = 0;
  virtual void remove_deployment(DeploymentId id) = 0;
  virtual std::vector<StoredDeployment> deployments() = 0;

  virtual std::int64_t add_event(const StoredEvent& event) = 0;  ///< returns its id; `event.id` is ignored
  virtual std::vector<StoredEvent> events_after(std::int64_t id, std::size_t limit) = 0;
  virtual std::int64_t last_event_id() = 0;

  virtual std::int64_t add_operation(const std::string& document) = 0;  ///< returns its id
  virtual void update_operation(const StoredOperation& operation) = 0;
  virtual void remove_operation(std::int64_t id) = 0;
  virtual std::vector<StoredOperation> operations() = 0;  ///< oldest first

  virtual void add_calibration(const memory::CalibrationRecord& record) = 0;
  virtual std::vector<memory::CalibrationRecord> calibrations() = 0;  ///< oldest first
  virtual void put_oom_floor(const memory::OomFloor& floor) = 0;
  virtual std::vector<memory::OomFloor> oom_floors() = 0;
  /// In place of an earlier one of the same model, configuration and level.
  virtual void put_sleep_record(const memory::SleepRecord& record) = 0;
  virtual std::vector<memory::SleepRecord> sleep_records() = 0;
  /// In place of an earlier one of the same model, action and level.
  virtual void put_duration(const planner::DurationRecord& record) = 0;
  virtual std::vector<planner::DurationRecord> durations() = 0;
  virtual void forget(const Learned& those) = 0;  ///< all of them or, when that fails, none
};

}  // namespace dgxmm::ports
