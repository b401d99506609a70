#include "app/api/documents.h"
#include "app/api/handlers.h"
#include "app/api/openapi.h"
#include "app/api/streams.h"
#include "app/api/views.h"
#include "base/numbers.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace dgxmm::api {
namespace {

/// What somebody has to see to while the daemon itself is well: what ails the GPU (B8), and what a plan took and could
/// not bring back (P11).
std::string open_matters(const service::HostSnapshot& snapshot) {
  std::vector<std::string> matters;
  if (!snapshot.gpu.unavailable.empty()) {
    matters.push_back(snapshot.gpu.unavailable);
  } else if (!snapshot.gpu.warnings.empty()) {
    matters.push_back(snapshot.gpu.warnings.front());
  }
  for (const auto& warning : snapshot.warnings) {
    if (warning.code == dto::kNotBroughtBack) matters.push_back(warning.message);
  }
  return fmt::format("{}", fmt::join(matters, "; "));
}

}  // namespace

Handlers::Handlers(service::Service& service, BuildInfo build) : service_(service), build_(std::move(build)) {}

Handlers::Answer Handlers::healthz(Call) {
  const auto trouble = service_.trouble();
  const dto::Health health{.status = trouble ? "trouble" : "ok",
                           .detail = trouble.value_or(open_matters(*service_.sampler.latest()))};
  co_return document(health, trouble ? 503 : 200);
}

Handlers::Answer Handlers::metrics(Call) {
  co_return text_response(200, metrics_page(service_, build_.version), "text/plain; version=0.0.4; charset=utf-8");
}

// Made anew each time: kept, its 57 KiB would stay for a document that is asked for once in a while.
Handlers::Answer Handlers::openapi(Call) { co_return document(openapi_document()); }

Handlers::Answer Handlers::version(Call) {
  co_return document(dto::Version{.version = build_.version, .commit = build_.commit, .host = build_.host});
}

Handlers::Answer Handlers::settings(Call) {
  std::vector<dto::Setting> rows;
  for (const auto& definition : settings::definitions()) {
    const auto source = service_.settings.sources.find(std::string{definition.name});
    rows.push_back({.name = std::string{definition.name},
                    .value = settings::value_text(service_.settings, definition.name),
                    .source = source == service_.settings.sources.end() ? "default" : source->second,
                    .description = std::string{definition.description}});
  }
  co_return document(rows);
}

Handlers::Answer Handlers::events(Call call) {
  // From now on, unless the client says what it has seen.
  auto last_id = service_.events.last_id();
  const auto header = call.request.headers.find("last-event-id");
  const auto query = call.request.query.find("after");
  const auto given = header != call.request.headers.end() ? header->second
                     : query != call.request.query.end()  ? query->second
                                                          : std::string{};
  if (const auto tail = call.request.query.find("tail"); given.empty() && tail != call.request.query.end()) {
    const auto number = parse_number(tail->second);
    if (!number || *number < 0) co_return problem(Error{"bad_field", "tail: expected a whole number", {}, "tail"});
    last_id -= std::min(*number, last_id);  // ids have no gaps
  }
  if (!given.empty()) {
    const auto number = parse_number(given);
    if (!number || *number < 0)
      co_return problem(Error{"bad_field", "Last-Event-ID: expected the id of an event", {}, "Last-Event-ID"});
    // An id that was never given is from another state folder: nothing that it says was seen here.
    last_id = std::min(*number, last_id);
  }
  auto response = text_response(200, {}, "text/event-stream");
  response.stream = event_stream(service_, last_id);
  co_return response;
}

}  // namespace dgxmm::api
