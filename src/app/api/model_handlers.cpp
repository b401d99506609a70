#include "app/api/documents.h"
#include "app/api/handlers.h"
#include "app/api/views.h"
#include "app/dto/convert.h"
#include "app/dto/fit.h"
#include "app/service/start_journal.h"
#include "base/masking.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <optional>
#include <utility>

namespace dgxmm::api {

Handlers::Answer Handlers::models(Call) {
  const auto snapshot = co_await service_.catalog.latest();
  if (!snapshot) co_return problem(snapshot.error());
  const auto& found = (*snapshot)->found;
  dto::Models result{.folders = {}, .models = {}, .warnings = found.problems};
  for (const auto& folder : service_.settings.searched_folders()) result.folders.push_back(folder.path);
  for (const auto& entry : found.models) result.models.push_back(dto::to_dto(entry));
  result.scanned_at = format_time((*snapshot)->time);
  result.age_s =
      std::chrono::duration_cast<std::chrono::seconds>(service_.clock.steady() - (*snapshot)->finished).count();
  co_return document(result);
}

Handlers::Answer Handlers::fit(Call call) {
  auto request = read_deploy_request(call.request);
  if (!request) co_return problem(request.error());
  const auto given = dto::read_given_host(query_value(call.request, "host"), query_value(call.request, "free"));
  if (!given) co_return problem(given.error());
  const auto where = *given && (*given)->mem_total ? service::Where::elsewhere : service::Where::here;
  const auto prepared = co_await service_.estimates.prepare(std::move(*request), where);
  if (!prepared) co_return problem(prepared.error());
  const auto larger = co_await service_.estimates.prepare_larger_quantizations(*prepared);
  const auto smaller = co_await service_.estimates.prepare_smaller_quantizations(*prepared, std::nullopt);

  const auto sized = [&](const service::Prepared& model) -> dto::SizedModel {
    return {model.model, model.config, model.estimate, service_.estimates.estimator_of(model)};
  };
  dto::FitQuestion question{.asked = sized(*prepared), .others = {}, .situation = {}, .budget = {}};
  if (*given) {
    question.place(**given, service_.settings);
  } else {
    const auto snapshot = service_.sampler.refresh();
    if (snapshot->problem) co_return problem(*snapshot->problem);
    question.situation = service_.admission.situation_of(*prepared, *snapshot);
    question.budget = budget_view(service_, *snapshot);
  }
  std::ranges::transform(larger, std::back_inserter(question.others), sized);
  std::ranges::transform(smaller, std::back_inserter(question.others), sized);
  auto fit = dto::make_fit(std::move(question));
  if (!fit) co_return problem(fit.error());
  if (!*given) {
    std::ranges::move(service::suspicions(service_.table, prepared->fingerprint, prepared->config),
                      std::back_inserter(fit->notes));
  }
  if (const auto& refused = service_.sampler.latest()->gpu.no_starts; refused && !*given) {
    fit->notes.push_back("it could not be started here: " + refused->message);
  }
  co_return document(*fit);
}

Handlers::Answer Handlers::calibration(Call) {
  co_return document(calibrations_view(service_, service_.estimates.learned()));
}

Handlers::Answer Handlers::forget_calibration(Call call) {
  const auto& id = call.parameters.at(0);
  const auto forgotten = service_.estimates.forget(id, query_value(call.request, "oom_floors") == "1");
  if (!forgotten) co_return problem(forgotten.error());
  const auto view = calibrations_view(service_, *forgotten);
  service_.events.publish("calibration.forgotten", std::nullopt, printable(dto::forgotten_text(view)), {{"id", id}});
  co_return document(view);
}

}  // namespace dgxmm::api
