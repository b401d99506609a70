#pragma once
#include "base/result.h"
#include "core/settings/settings.h"
#include "ports/http_handler.h"

#include <optional>

namespace dgxmm::api {

/// Who may ask: checked on the head of every request, before its route. Nothing when it may pass.
/// `bad_host` (403): a name that is not ours, as in DNS rebinding. `bad_origin` (403): a page of another site.
/// `unauthorized` (401): the token is missing or wrong. `unsupported_media_type` (415): a body that is not JSON, which
/// is all that a foreign page could send without asking.
/// What needs no token is for everybody who may ask at all.
std::optional<Error> check_access(const ports::HttpRequest& request, const settings::Settings& settings,
                                  bool needs_token = true);

}  // namespace dgxmm::api
