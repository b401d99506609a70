#pragma once
#include "app/api/api.h"
#include "app/service/service.h"
#include "ports/http_handler.h"

#include <string>
#include <vector>

namespace dgxmm::api {

/// What a route gets: the request and the parts of the path that its pattern names.
struct Call {
  ports::HttpRequest request;
  std::vector<std::string> parameters;
};

/// What the routes do: each decodes, asks a service, and encodes. Which one a request gets is in routes.cpp; they are
/// defined in one file a resource.
class Handlers {
 public:
  using Answer = ports::Task<ports::HttpResponse>;

  Handlers(service::Service& service, BuildInfo build);

  // daemon_handlers.cpp
  Answer healthz(Call call);
  Answer metrics(Call call);
  Answer openapi(Call call);
  Answer version(Call call);
  Answer settings(Call call);
  Answer events(Call call);

  // memory_handlers.cpp
  Answer budget(Call call);
  Answer memory(Call call);
  Answer history(Call call);
  Answer processes(Call call);
  Answer list_orphans(Call call);
  Answer stop_orphan(Call call);

  // model_handlers.cpp
  Answer models(Call call);
  Answer fit(Call call);
  Answer calibration(Call call);
  Answer forget_calibration(Call call);

  // deployment_handlers.cpp
  Answer list_deployments(Call call);
  Answer deploy(Call call);
  Answer show_deployment(Call call);
  Answer change_deployment(Call call);
  Answer remove_deployment(Call call);
  Answer stop_deployment(Call call);
  Answer start_deployment(Call call);
  Answer sleep_deployment(Call call);
  Answer wake_deployment(Call call);
  Answer logs(Call call);

  // plan_handlers.cpp
  Answer make_plans(Call call);
  Answer show_scenario(Call call);
  Answer show_plans(Call call);
  Answer apply_plan(Call call);
  Answer list_operations(Call call);
  Answer show_operation(Call call);
  Answer cancel_operation(Call call);
  Answer show_queue(Call call);
  Answer leave_queue(Call call);

 private:
  /// 409: the plans, and who holds the memory that is missing (A7, D1).
  Answer refusal(std::string code, service::PlanSet set, std::string what = {});
  /// The one that the path names, by number or name.
  service::Deployment* find(const Call& call);
  /// How it is now, or that it is gone.
  ports::HttpResponse shown(DeploymentId id, const Call& call);
  /// "stop it first", and with which ids those of its name that have ended can be removed.
  std::string removal_hint(const service::Deployment& running);

  service::Service& service_;
  BuildInfo build_;
};

}  // namespace dgxmm::api
