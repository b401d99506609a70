#pragma once
#include "app/dto/dto.h"
#include "base/result.h"
#include "core/engine/config.h"
#include "core/host/readings.h"
#include "core/host/warning.h"
#include "core/memory/budget.h"
#include "core/memory/calibration.h"
#include "core/memory/estimate.h"
#include "core/memory/history.h"
#include "core/model/catalog.h"
#include "core/model/layout.h"
#include "core/planner/plans.h"

#include <chrono>
#include <string>
#include <vector>

// Values of the core as documents.
namespace dgxmm::dto {

std::string word(memory::Confidence confidence);
std::string word(memory::Source source);
std::string word(model::Format format);
std::string word(planner::PlanKind kind);

Estimate to_dto(const memory::Estimate& estimate);
Config to_dto(const engine::EngineConfig& config);
Measured to_dto(const memory::Measured& measured);
Budget to_dto(const memory::Budget& budget);
/// Adds what the budget itself does not count with.
void add_host_figures(Budget& budget, const host::Meminfo& meminfo, const host::Pressure& pressure);
History to_dto(const std::vector<memory::HistoryPoint>& points, std::chrono::milliseconds interval,
               std::optional<Bytes> mem_total);
Plan to_dto(const planner::Plan& plan);
Plans to_dto(const planner::Plans& plans);
ModelInfo to_dto(const model::ModelDescription& model);
CatalogModel to_dto(const model::CatalogEntry& entry);
Process to_dto(const host::ProcessRow& row);
Warning to_dto(const host::Warning& warning);
std::vector<Warning> to_dto(const std::vector<host::Warning>& warnings);

/// Back from a stored document. Errors: `bad_field`.
Result<engine::EngineConfig> from_dto(const Config& config);
Result<memory::Estimate> from_dto(const Estimate& estimate);

/// "smol: forgot 2 measurements and 1 size that ran out of memory (9.0 GiB)". Of one model, and not empty.
std::string forgotten_text(const Calibrations& forgotten);

/// What is known of a figure that is not known whole; null when it is, and when nothing is.
std::optional<Bytes> at_least(std::optional<Bytes> whole, Bytes known);

}  // namespace dgxmm::dto
