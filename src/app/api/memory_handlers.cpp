#include "app/api/documents.h"
#include "app/api/handlers.h"
#include "app/api/views.h"
#include "base/numbers.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace dgxmm::api {
namespace {

constexpr std::size_t kProcessRows = 25;
constexpr std::size_t kMaxProcessRows = 1000;

}  // namespace

Handlers::Answer Handlers::budget(Call) {
  const auto snapshot = service_.sampler.refresh();
  if (snapshot->problem) co_return problem(*snapshot->problem);
  co_return document(budget_view(service_, *snapshot));
}

Handlers::Answer Handlers::memory(Call) {
  const auto reading = co_await service_.ledger.read(0);
  if (reading.snapshot->problem) co_return problem(*reading.snapshot->problem);
  co_return document(memory_view(service_, reading));
}

Handlers::Answer Handlers::history(Call) { co_return document(history_view(service_)); }

Handlers::Answer Handlers::processes(Call call) {
  auto rows = kProcessRows;
  if (const auto limit = query_value(call.request, "limit")) {
    const auto number = parse_number(*limit);
    if (!number || *number < 1) {
      co_return problem(Error{"bad_field", "limit: expected a whole number, 1 or more", {}, "limit"});
    }
    rows = std::min(static_cast<std::size_t>(*number), kMaxProcessRows);
  }
  const auto reading = co_await service_.ledger.read(rows);
  co_return document(processes_view(reading));
}

Handlers::Answer Handlers::list_orphans(Call) {
  std::vector<dto::Orphan> result;
  for (const auto& orphan : service_.orphans.find()) result.push_back(orphan_view(orphan));
  co_return document(result);
}

Handlers::Answer Handlers::stop_orphan(Call call) {
  const auto stopped = co_await service_.orphans.stop(call.parameters.at(0));
  if (!stopped) co_return problem(stopped.error());
  co_return document(orphan_view(*stopped));
}

}  // namespace dgxmm::api
