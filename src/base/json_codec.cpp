#include "base/json_codec.h"

#include <fmt/format.h>

#include <algorithm>

namespace dgxmm::json {

Result<bj::value> parse(std::string_view text) {
  bj::parse_options options;
  options.max_depth = kMaxDepth;
  bj::stream_parser parser{{}, options};
  bj::error_code error;
  const auto consumed = parser.write_some(text.data(), text.size(), error);
  if (!error) {
    const auto rest = text.substr(std::min(consumed, text.size()));
    if (rest.find_first_not_of(" \t\r\n") != std::string_view::npos) {
      error = bj::error::extra_data;
    } else {
      parser.finish(error);
    }
  }
  if (error) {
    return fail("bad_json", fmt::format("not valid JSON near byte {}: {}", consumed, error.message()));
  }
  return parser.release();
}

}  // namespace dgxmm::json
