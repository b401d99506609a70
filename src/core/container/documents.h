#pragma once
// The Docker Engine's JSON (API 1.40 to 1.55) as values. Other programs write it: what is missing is absent, what is
// not understood is skipped, and only a document without what identifies its subject is an error.
#include "base/result.h"
#include "core/container/container.h"

#include <string>
#include <string_view>
#include <vector>

namespace dgxmm::container {

/// Errors of all: `bad_json`, `bad_field` naming the member.
Result<EngineInfo> parse_info(std::string_view json);
Result<Container> parse_container(std::string_view json);
Result<std::vector<ListedContainer>> parse_container_list(std::string_view json);
Result<Image> parse_image(std::string_view json);
Result<std::vector<Image>> parse_image_list(std::string_view json);
Result<Event> parse_event(std::string_view json);

/// The answer to a create.
struct Created {
  std::string id;
  std::vector<std::string> warnings;
};
Result<Created> parse_created(std::string_view json);

/// What `GET /version` says about the versions of the API that it takes; empty: nothing.
struct ApiRange {
  std::string least, most;
};
Result<ApiRange> parse_api_range(std::string_view json);

/// What the engine says in the body of an error: its `message`, else the text itself, made safe to show.
std::string error_message(std::string_view body);

/// "2026-11-30T02:08:07.34885045Z", also with an offset; nothing for anything else, and for year 1, which means never.
std::optional<EngineTime> parse_time(std::string_view text);
/// Seconds with nanoseconds, as the parameters `since` and `until` are written.
std::string since_parameter(EngineTime time);

}  // namespace dgxmm::container
