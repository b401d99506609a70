#pragma once
#include "app/api/page.h"
#include "app/service/service.h"
#include "ports/http_handler.h"

#include <memory>
#include <optional>
#include <span>
#include <string>

namespace dgxmm::api {

struct BuildInfo {
  std::string version;
  std::string commit;
  std::optional<std::string> host = {};  ///< name of this machine
};

/// The HTTP API over the services, and the page: routes, checks of Host, Origin and token, documents. No state of its
/// own. The page's files must outlive it; none: built without the page.
std::unique_ptr<ports::HttpHandler> make_api(service::Service& service, BuildInfo build,
                                             std::span<const PageFile> page = {});

}  // namespace dgxmm::api
