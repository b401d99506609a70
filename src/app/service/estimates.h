#pragma once
#include "app/service/catalog.h"
#include "core/engine/request.h"
#include "core/memory/calibration.h"
#include "core/memory/estimate.h"
#include "core/memory/sleep.h"
#include "core/model/companions.h"
#include "core/model/layout.h"
#include "core/planner/durations.h"
#include "core/planner/plans.h"
#include "core/settings/settings.h"
#include "ports/event_loop.h"
#include "ports/model_files.h"
#include "ports/store.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dgxmm::service {

/// Whose memory an estimate is for.
enum class Where {
  here,       ///< this host, with what was learned on it
  elsewhere,  ///< a host that is only described: with a GPU, by the formula alone
};

/// A request with everything worked out that does not depend on the host's memory.
struct Prepared {
  engine::DeployRequest request;
  std::shared_ptr<const model::ModelDescription> model;
  model::Companions companions;
  std::string fingerprint;  ///< C7: of the model and its companions
  engine::EngineConfig config;
  memory::Estimate estimate;  ///< with calibration
  Where where = Where::here;
  std::vector<Prepared> quantizations = {};  ///< the same request for others of its model (P4), when plans are needed
};

/// From a request to a size: reads the model, resolves the configuration, applies the formula and what was learned.
class Estimates {
 public:
  Estimates(ports::ModelFiles& files, Catalog& catalog, ports::Store& store, const settings::Settings& settings,
            memory::Placement placement, ports::EventLoop& loop);

  /// Errors: those of ModelFiles::describe, engine::resolve and memory::estimate; `model_not_found` for a name that
  /// the catalog does not have.
  ports::Task<Result<Prepared>> prepare(engine::DeployRequest request, Where where = Where::here);
  /// P4: the same request for the smaller quantizations of its model in the catalog, the largest first; those that
  /// cannot be had, and those that are certain not to fit into `room`, are left out.
  ports::Task<std::vector<Prepared>> prepare_smaller_quantizations(Prepared asked, std::optional<Bytes> room);
  /// The nearest larger ones, the largest first.
  ports::Task<std::vector<Prepared>> prepare_larger_quantizations(Prepared asked);

  /// What links in these models' folders lead to outside of them.
  ports::Task<std::vector<ports::LinkedFile>> linked_files(std::vector<std::string> models);

  /// The estimate of one configuration of a model and what is loaded beside it, with calibration. Pure but for what was
  /// learned.
  [[nodiscard]] Result<memory::Estimate> estimate(const model::ModelDescription& model,
                                                  const model::Companions& companions,
                                                  const engine::EngineConfig& config, Where where = Where::here) const;
  /// Of a request under other settings. Refers to this, not to `prepared`.
  [[nodiscard]] planner::Estimator estimator_of(const Prepared& prepared) const;

  /// What was learned counts at once; when it cannot be stored, that is tried again (`retry_unsaved`).
  void record(const memory::CalibrationRecord& record);
  /// C5
  void record_out_of_memory(const std::string& fingerprint, const engine::EngineConfig& config, Bytes estimate,
                            std::string evidence, WallTime now);
  /// P10: in place of what was known of that model, configuration and level.
  void record_sleep(const memory::SleepRecord& record);
  /// The last measured size asleep; nothing when it was never measured.
  [[nodiscard]] std::optional<Bytes> measured_asleep(const std::string& fingerprint, const engine::EngineConfig& config,
                                                     int level) const;
  /// In place of what was known of that model, action and level. One without a fingerprint is not kept.
  void record_duration(const planner::DurationRecord& record);
  [[nodiscard]] std::optional<std::chrono::seconds> measured_duration(const std::string& fingerprint,
                                                                      planner::Action action, int level = 0) const {
    return planner::measured(durations_, fingerprint, action, level);
  }
  /// Forgets what `id` names (`named`) and returns it; estimates and plans go without it at once. Sizes that ran out of
  /// memory only with `oom_floors_too`: nothing else keeps the next start from being killed likewise.
  /// Errors: `calibration_not_found`, `oom_floor_kept`.
  Result<ports::Learned> forget(std::string_view id, bool oom_floors_too);
  /// Stores what could not be stored before.
  void retry_unsaved();
  [[nodiscard]] const std::vector<memory::CalibrationRecord>& records() const { return records_; }
  [[nodiscard]] const std::vector<memory::OomFloor>& floors() const { return floors_; }
  [[nodiscard]] const std::vector<planner::DurationRecord>& durations() const { return durations_; }
  /// Everything that was learned.
  [[nodiscard]] ports::Learned learned() const { return {records_, floors_, sleep_records_, durations_}; }
  [[nodiscard]] const settings::Settings& settings() const { return settings_; }
  [[nodiscard]] memory::Placement placement() const { return placement_; }

 private:
  /// As model::other_quantizations, of the catalog.
  ports::Task<std::vector<model::CatalogEntry>> quantizations_of(std::shared_ptr<const model::ModelDescription> asked);
  ports::Task<std::vector<Prepared>> prepare_each(Prepared asked, std::vector<std::string> paths);
  ports::Task<Result<std::string>> resolve_path(std::string model, std::string field);

  ports::ModelFiles& files_;
  Catalog& catalog_;
  ports::Store& store_;
  const settings::Settings& settings_;
  memory::Placement placement_;
  ports::EventLoop& loop_;
  std::vector<memory::CalibrationRecord> records_;
  std::vector<memory::OomFloor> floors_;
  std::vector<memory::CalibrationRecord> unsaved_records_;
  std::vector<memory::OomFloor> unsaved_floors_;
  std::vector<memory::SleepRecord> sleep_records_;
  std::vector<memory::SleepRecord> unsaved_sleep_records_;
  std::vector<planner::DurationRecord> durations_;
  std::vector<planner::DurationRecord> unsaved_durations_;
};

}  // namespace dgxmm::service
