#pragma once
#include <boost/json/fwd.hpp>

namespace dgxmm::api {

/// The API as an OpenAPI 3.1 document, made from the table of routes: the same in every daemon of a version.
boost::json::value openapi_document();

}  // namespace dgxmm::api
