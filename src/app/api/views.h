#pragma once
#include "app/dto/dto.h"
#include "app/service/service.h"

// The state of the services as documents.
namespace dgxmm::api {

/// Who holds the memory; of a reading without a problem.
dto::Memory memory_view(service::Service& service, const service::LedgerReading& reading);
dto::Orphan orphan_view(const service::Orphan& orphan);
dto::Processes processes_view(const service::LedgerReading& reading);
/// Of the process view: certain orphans, then the three largest of some size.
std::vector<dto::Process> holders_view(const service::LedgerReading& reading);
dto::Budget budget_view(service::Service& service, const service::HostSnapshot& snapshot);
/// The points that were added to the history after so many.
dto::History history_view(service::Service& service, std::int64_t after = 0);
dto::Deployment deployment_view(service::Service& service, const service::Deployment& deployment);
/// With its place in the queue.
dto::Operation operation_view(service::Service& service, const dto::Operation& operation);
dto::Queue queue_view(service::Service& service);
/// Of every deployment that serves or sleeps.
std::vector<dto::Activity> activities_view(service::Service& service);
dto::Plans plans_view(const service::PlanSet& set);
/// With the names of the models that deployments have.
dto::Calibrations calibrations_view(service::Service& service, const ports::Learned& learned);
/// Prometheus text format.
std::string metrics_page(service::Service& service, const std::string& version);

}  // namespace dgxmm::api
