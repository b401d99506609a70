#pragma once
#include "app/service/service.h"
#include "ports/http_handler.h"

#include <memory>
#include <string>

namespace dgxmm::api {

struct BuildInfo {
  std::string version;
  std::string commit;
};

/// The HTTP API over the services: routes, checks of Host, Origin and token, documents. No state of its own.
std::unique_ptr<ports::HttpHandler> make_api(service::Service& service, BuildInfo build);

}  // namespace dgxmm::api
