#include "app/api/documents.h"
#include "app/api/handlers.h"
#include "app/api/views.h"
#include "app/dto/scenario.h"

#include <fmt/format.h>

#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace dgxmm::api {
namespace {

constexpr std::size_t kHolderRows = 10;

/// What the plans make room for.
std::string_view verb_of(service::DeploymentTable& table, const service::PlanSet& set) {
  if (!set.wanted.returns) return "deploy";
  const auto* returning = table.find(*set.wanted.returns);
  return returning != nullptr && returning->state == deployment::State::sleeping ? "wake" : "start";
}

}  // namespace

Handlers::Answer Handlers::refusal(std::string code, service::PlanSet set, std::string what) {
  dto::Problem document;
  document.status = 409;
  document.title = code == "plan_changed" ? "The plan no longer holds" : "Does not fit";
  document.detail = (what.empty() ? "" : what + ": ") + set.plans.summary;
  document.code = std::move(code);
  if (set.plans.fits_now) {
    document.hint = fmt::format("no plan is needed any more: {} it as it is", verb_of(service_.table, set));
  } else if (set.plans.plans.empty()) {
    document.hint = "stop something that dgxmm does not manage, or choose a smaller model";
  } else {
    document.hint = fmt::format("carry out one of the plans: POST /api/v1/plans/{}/PLAN/apply", set.id);
  }
  document.plans = plans_view(set);
  const auto reading = co_await service_.ledger.read(kHolderRows, service_.sampler.latest());
  document.holders = holders_view(reading);
  co_return problem(std::move(document));
}

Handlers::Answer Handlers::make_plans(Call call) {
  auto request = read_deploy_request(call.request);
  if (!request) co_return problem(request.error());
  const auto set = co_await service_.admission.plan(std::move(*request));
  if (!set) co_return problem(set.error());
  co_return document(plans_view(*set));
}

Handlers::Answer Handlers::show_scenario(Call call) {
  std::optional<engine::DeployRequest> wanted;
  if (call.request.method == "POST") {
    auto request = read_deploy_request(call.request);
    if (!request) co_return problem(request.error());
    wanted = std::move(*request);
  }
  auto scenario = co_await service_.admission.describe_host(std::move(wanted));
  if (!scenario) co_return problem(scenario.error());
  co_return json_response(200, dto::write_scenario(planner::masked(std::move(*scenario))));
}

Handlers::Answer Handlers::show_plans(Call call) {
  const auto* set = service_.admission.find_set(call.parameters.at(0));
  if (set == nullptr)
    co_return problem(Error{"plan_not_found", fmt::format("there are no plans '{}'", call.parameters.at(0)),
                            "ask for them again", "set"});
  co_return document(plans_view(*set));
}

Handlers::Answer Handlers::apply_plan(Call call) {
  const auto& set = call.parameters.at(0);
  const bool even_if_busy = query_value(call.request, "even_if_busy") == "1";
  const auto begun =
      service_.operations.apply(set == "latest" ? std::string{} : set, call.parameters.at(1), even_if_busy);
  if (!begun) co_return problem(begun.error());
  if (begun->changed) co_return co_await refusal("plan_changed", *begun->changed, begun->what_changed);
  co_return document(operation_view(service_, *begun->operation), 202);
}

Handlers::Answer Handlers::list_operations(Call) {
  std::vector<dto::Operation> result;
  for (const auto& operation : service_.operations.all()) result.push_back(operation_view(service_, *operation));
  co_return document(result);
}

Handlers::Answer Handlers::show_operation(Call call) {
  const auto operation = service_.operations.find(call.parameters.at(0));
  if (!operation)
    co_return problem(
        Error{"operation_not_found", fmt::format("there is no operation '{}'", call.parameters.at(0)), {}, "id"});
  co_return document(operation_view(service_, *operation));
}

Handlers::Answer Handlers::cancel_operation(Call call) {
  const auto operation = service_.operations.cancel(call.parameters.at(0));
  if (!operation) co_return problem(operation.error());
  co_return document(operation_view(service_, **operation), 202);
}

Handlers::Answer Handlers::show_queue(Call) { co_return document(queue_view(service_)); }

Handlers::Answer Handlers::leave_queue(Call call) {
  const auto& id = call.parameters.at(0);
  if (service_.admission.turns().cancel(id) || service_.supervisor.starts().cancel(id)) {
    co_return text_response(204, {});
  }
  co_return problem(Error{"queue_entry_not_found", fmt::format("nothing waits as '{}', or it cannot be taken out", id),
                          "`dgxmm queue` lists what waits", "id"});
}

}  // namespace dgxmm::api
