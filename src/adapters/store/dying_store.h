#pragma once
#include "ports/store.h"

#include <cstdint>
#include <optional>

namespace dgxmm::store {

/// For tests only: a store that ends the whole process, as SIGKILL does, right before the n-th write of what a plan
/// does. Counted are writes of operations and deployments, from the first operation that is begun on.
class DyingStore final : public ports::Store {
 public:
  DyingStore(ports::Store& store, std::int64_t die_at) : store_(store), die_at_(die_at) {}

  DeploymentId add_deployment(const std::string& name, const std::string& document) override;
  void update_deployment(const ports::StoredDeployment& deployment) override;
  void remove_deployment(DeploymentId id) override;
  std::vector<ports::StoredDeployment> deployments() override { return store_.deployments(); }
  std::int64_t add_event(const ports::StoredEvent& event) override { return store_.add_event(event); }
  std::vector<ports::StoredEvent> events_after(std::int64_t id, std::size_t limit) override {
    return store_.events_after(id, limit);
  }
  std::int64_t last_event_id() override { return store_.last_event_id(); }
  std::int64_t add_operation(const std::string& document) override;
  void update_operation(const ports::StoredOperation& operation) override;
  void remove_operation(std::int64_t id) override;
  std::vector<ports::StoredOperation> operations() override { return store_.operations(); }
  void add_calibration(const memory::CalibrationRecord& record) override { store_.add_calibration(record); }
  std::vector<memory::CalibrationRecord> calibrations() override { return store_.calibrations(); }
  void put_oom_floor(const memory::OomFloor& floor) override { store_.put_oom_floor(floor); }
  std::vector<memory::OomFloor> oom_floors() override { return store_.oom_floors(); }
  void put_sleep_record(const memory::SleepRecord& record) override { store_.put_sleep_record(record); }
  std::vector<memory::SleepRecord> sleep_records() override { return store_.sleep_records(); }
  void put_duration(const planner::DurationRecord& record) override { store_.put_duration(record); }
  std::vector<planner::DurationRecord> durations() override { return store_.durations(); }
  void forget(const ports::Learned& those) override { store_.forget(those); }

 private:
  void count();

  ports::Store& store_;
  std::int64_t die_at_;
  std::int64_t writes_ = 0;
};

/// What the variable DGXMM_TEST_KILL_AT_WRITE asks for; nothing when it is not set.
std::optional<std::int64_t> write_to_die_at();

}  // namespace dgxmm::store
