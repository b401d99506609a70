#include "app/service/estimates.h"

#include "app/service/learned.h"
#include "base/log.h"
#include "base/masking.h"
#include "ports/companions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <stdexcept>
#include <utility>

namespace dgxmm::service {
namespace {

constexpr std::size_t kMostOtherQuantizations = 16;

template <class T>
void erase_those(std::vector<T>& from, const std::vector<T>& those) {
  for (const auto& one : those) {
    std::erase_if(from, [id = id_of(one)](const T& other) { return id_of(other) == id; });
  }
}

}  // namespace

Estimates::Estimates(ports::ModelFiles& files, Catalog& catalog, ports::Store& store,
                     const settings::Settings& settings, memory::Placement placement, ports::EventLoop& loop)
    : files_(files),
      catalog_(catalog),
      store_(store),
      settings_(settings),
      placement_(placement),
      loop_(loop),
      records_(store.calibrations()),
      floors_(store.oom_floors()),
      sleep_records_(store.sleep_records()),
      durations_(store.durations()) {}

ports::Task<Result<std::string>> Estimates::resolve_path(std::string model, std::string field) {
  if (model.starts_with('/')) co_return model;
  if (model.find('/') != std::string::npos && !model::is_repository_name(model)) {
    // The daemon's working folder is not that of whoever asks.
    co_return fail("bad_field", fmt::format("{}: '{}' is a relative path", field, printable(model)),
                   "give the whole path, or a name that `dgxmm models` lists", field);
  }
  co_return co_await catalog_.find(std::move(model), std::move(field));
}

ports::Task<std::vector<ports::LinkedFile>> Estimates::linked_files(std::vector<std::string> models) {
  std::vector<ports::LinkedFile> found;
  co_await loop_.on_pool([&] {
    for (const auto& model : models) {
      auto links = files_.linked_files(model);
      found.insert(found.end(), std::make_move_iterator(links.begin()), std::make_move_iterator(links.end()));
    }
  });
  co_return found;
}

ports::Task<Result<Prepared>> Estimates::prepare(engine::DeployRequest request, Where where) {
  auto path = co_await resolve_path(request.model, "model");
  if (!path) co_return fail(path.error());
  request.model = *path;
  if (request.draft_model && !request.draft_model->empty()) {
    auto draft = co_await resolve_path(*request.draft_model, "draft_model");
    if (!draft) co_return fail(draft.error());
    request.draft_model = std::move(*draft);
  }
  if (request.mmproj && *request.mmproj != "none" && !request.mmproj->starts_with('/')) {
    co_return fail("bad_field", fmt::format("mmproj: '{}' is not a whole path", printable(*request.mmproj)),
                   "give the whole path of the file, or none", "mmproj");
  }

  Result<model::ModelDescription> model = fail("model_not_found", "not read");
  Result<model::Companions> companions = model::Companions{};
  co_await loop_.on_pool([&] {
    model = files_.describe(*path);
    if (model) companions = ports::describe_companions(files_, request);
  });
  if (!model) co_return fail(model.error());
  if (!companions) co_return fail(companions.error());

  Prepared prepared;
  auto config = engine::resolve(request, *model, settings_.config_defaults());
  if (!config) co_return fail(config.error());
  auto sized = estimate(*model, *companions, *config, where);
  if (!sized) co_return fail(sized.error());
  prepared.fingerprint = model::fingerprint_of(*model, *companions).digest;
  prepared.companions = std::move(*companions);
  prepared.request = std::move(request);
  prepared.model = std::make_shared<const model::ModelDescription>(std::move(*model));
  prepared.config = *config;
  prepared.estimate = std::move(*sized);
  prepared.where = where;
  co_return prepared;
}

ports::Task<std::vector<model::CatalogEntry>> Estimates::quantizations_of(
    std::shared_ptr<const model::ModelDescription> asked) {
  std::vector<model::CatalogEntry> found;
  const auto snapshot = co_await catalog_.latest();
  if (!snapshot) co_return found;
  for (const auto* entry : model::other_quantizations((*snapshot)->found.models, *asked)) found.push_back(*entry);
  co_return found;
}

ports::Task<std::vector<Prepared>> Estimates::prepare_each(Prepared asked, std::vector<std::string> paths) {
  std::vector<Prepared> others;
  for (auto& path : paths) {
    auto request = asked.request;
    request.model = std::move(path);
    auto prepared = co_await prepare(std::move(request), asked.where);
    // A name that is linked to the same weights is the same quantization.
    if (prepared && prepared->model->fingerprint != asked.model->fingerprint) others.push_back(std::move(*prepared));
  }
  co_return others;
}

ports::Task<std::vector<Prepared>> Estimates::prepare_smaller_quantizations(Prepared asked, std::optional<Bytes> room) {
  const auto all = co_await quantizations_of(asked.model);
  std::vector<const model::CatalogEntry*> smaller;
  for (const auto& entry : all) {
    if (entry.size < asked.model->weights.files) smaller.push_back(&entry);
  }
  std::vector<std::string> paths;
  for (const auto* entry : model::worth_reading(std::move(smaller), room, kMostOtherQuantizations)) {
    paths.push_back(entry->path);
  }
  auto others = co_await prepare_each(std::move(asked), std::move(paths));
  co_return others;
}

ports::Task<std::vector<Prepared>> Estimates::prepare_larger_quantizations(Prepared asked) {
  const auto all = co_await quantizations_of(asked.model);
  std::vector<std::string> paths;
  for (const auto& entry : all) {
    if (entry.size > asked.model->weights.files) paths.push_back(entry.path);
  }
  if (paths.size() > kMostOtherQuantizations) {
    paths.erase(paths.begin(), paths.end() - std::ptrdiff_t{kMostOtherQuantizations});
  }
  auto others = co_await prepare_each(std::move(asked), std::move(paths));
  co_return others;
}

planner::Estimator Estimates::estimator_of(const Prepared& prepared) const {
  return [this, model = prepared.model, companions = prepared.companions, where = prepared.where](
             const engine::EngineConfig& config) { return estimate(*model, companions, config, where); };
}

Result<memory::Estimate> Estimates::estimate(const model::ModelDescription& model, const model::Companions& companions,
                                             const engine::EngineConfig& config, Where where) const {
  const auto placement = where == Where::here ? placement_ : memory::Placement::gpu;
  auto formula = memory::estimate(model, config, settings_.estimate(), placement, companions);
  if (!formula || where == Where::elsewhere) return formula;
  const auto fingerprint = model::fingerprint_of(model, companions).digest;
  std::vector<memory::CalibrationRecord> records;
  std::ranges::copy_if(records_, std::back_inserter(records),
                       [&](const auto& record) { return record.fingerprint == fingerprint; });
  std::vector<memory::OomFloor> floors;
  std::ranges::copy_if(floors_, std::back_inserter(floors),
                       [&](const auto& floor) { return floor.fingerprint == fingerprint; });
  return memory::calibrate(std::move(*formula), fingerprint, engine::configuration_key(config), records, floors);
}

void Estimates::record(const memory::CalibrationRecord& record) {
  records_.push_back(record);
  unsaved_records_.push_back(record);
  retry_unsaved();
}

void Estimates::record_out_of_memory(const std::string& fingerprint, const engine::EngineConfig& config, Bytes estimate,
                                     std::string evidence, WallTime now) {
  const auto key = engine::configuration_key(config);
  const auto found = std::ranges::find_if(
      floors_, [&](const auto& floor) { return floor.fingerprint == fingerprint && floor.configuration_key == key; });
  std::optional<memory::OomFloor> before;
  if (found != floors_.end()) before = *found;
  auto floor = memory::raise_floor(before, fingerprint, key, estimate, std::move(evidence), now);
  unsaved_floors_.push_back(floor);
  if (found != floors_.end()) {
    *found = std::move(floor);
  } else {
    floors_.push_back(std::move(floor));
  }
  retry_unsaved();
}

void Estimates::record_sleep(const memory::SleepRecord& record) {
  std::erase_if(sleep_records_, [&](const auto& other) {
    return other.fingerprint == record.fingerprint && other.configuration_key == record.configuration_key &&
           other.level == record.level;
  });
  sleep_records_.push_back(record);
  unsaved_sleep_records_.push_back(record);
  retry_unsaved();
}

std::optional<Bytes> Estimates::measured_asleep(const std::string& fingerprint, const engine::EngineConfig& config,
                                                int level) const {
  const auto* last = memory::last_sleep(sleep_records_, fingerprint, engine::configuration_key(config), level);
  return last == nullptr ? std::nullopt : std::optional{last->asleep};
}

void Estimates::record_duration(const planner::DurationRecord& record) {
  if (record.fingerprint.empty()) return;
  std::erase_if(durations_, [&](const auto& other) {
    return other.fingerprint == record.fingerprint && other.action == record.action && other.level == record.level;
  });
  durations_.push_back(record);
  unsaved_durations_.push_back(record);
  retry_unsaved();
}

Result<ports::Learned> Estimates::forget(std::string_view id, bool oom_floors_too) {
  auto those = named(learned(), id);
  if (!those) return those;
  if (!those->oom_floors.empty() && !oom_floors_too) {
    const auto& floor = those->oom_floors.front();
    return fail("oom_floor_kept",
                fmt::format("{} was killed for lack of memory, and is what keeps the next start larger",
                            format_bytes(floor.killed_size)),
                "forget it all the same with ?oom_floors=1, when its cause is gone", "id");
  }
  store_.forget(*those);
  erase_those(records_, those->records);
  erase_those(unsaved_records_, those->records);
  erase_those(floors_, those->oom_floors);
  erase_those(unsaved_floors_, those->oom_floors);
  erase_those(sleep_records_, those->sleep_records);
  erase_those(unsaved_sleep_records_, those->sleep_records);
  erase_those(durations_, those->durations);
  erase_those(unsaved_durations_, those->durations);
  return those;
}

void Estimates::retry_unsaved() {
  try {
    while (!unsaved_records_.empty()) {
      store_.add_calibration(unsaved_records_.front());
      unsaved_records_.erase(unsaved_records_.begin());
    }
    while (!unsaved_floors_.empty()) {
      store_.put_oom_floor(unsaved_floors_.front());
      unsaved_floors_.erase(unsaved_floors_.begin());
    }
    while (!unsaved_sleep_records_.empty()) {
      store_.put_sleep_record(unsaved_sleep_records_.front());
      unsaved_sleep_records_.erase(unsaved_sleep_records_.begin());
    }
    while (!unsaved_durations_.empty()) {
      store_.put_duration(unsaved_durations_.front());
      unsaved_durations_.erase(unsaved_durations_.begin());
    }
  } catch (const std::runtime_error& error) {
    log::error("what was learned could not be stored yet: {}", error.what());
  }
}

}  // namespace dgxmm::service
