#pragma once
#include "app/dto/dto.h"
#include "app/dto/fit.h"
#include "base/clock.h"
#include "base/result.h"
#include "cli/cli.h"
#include "core/engine/request.h"
#include "core/settings/settings.h"

// The same answers without a daemon: one direct reading of this machine, the formula alone.
namespace dgxmm::cli {

/// B1–B7 with no deployments: what a daemon manages, if there is one elsewhere, counts as external.
/// Errors: those of the port.
Result<dto::Budget> offline_budget(ports::HostProbe& host, const settings::Settings& settings, WallTime now);

/// Errors: those of the model files, of `engine::resolve` and of `memory::estimate`.
Result<dto::Fit> offline_fit(const OfflineParts& parts, const settings::Settings& settings,
                             engine::DeployRequest request, const std::optional<dto::GivenHost>& given, WallTime now);

/// The catalog of a scan made for this answer.
dto::Models offline_models(ports::ModelFiles& files, const settings::Settings& settings, WallTime now);

}  // namespace dgxmm::cli
