#include "base/json_schema.h"

#include <fmt/format.h>

#include <stdexcept>

namespace dgxmm::json {

std::pair<std::string, bool> Components::claim(const std::string& type, Side side) {
  const auto colon = type.rfind(':');
  auto name = colon == std::string::npos ? type : type.substr(colon + 1);
  const auto owner = fmt::format("{} {}", type, side == Side::read ? "read" : "written");
  const auto [found, is_new] = owners_.emplace(name, owner);
  if (found->second != owner) {
    throw std::logic_error{fmt::format("two schemas have the name {}: {} and {}", name, found->second, owner)};
  }
  return {std::move(name), is_new};
}

namespace detail {

bj::object of_type(std::string_view type) {
  bj::object result;
  result.emplace("type", type);
  return result;
}

bj::value nullable(bj::value schema) {
  auto& object = schema.as_object();
  if (object.empty()) return schema;  // anything, so null too
  auto* type = object.if_contains("type");
  if (type == nullptr) {
    bj::array either;
    either.push_back(std::move(schema));
    either.emplace_back(of_type("null"));
    bj::object result;
    result.emplace("anyOf", std::move(either));
    return result;
  }
  if (type->is_array()) return schema;  // it is already
  bj::array types;
  types.push_back(std::move(*type));
  types.emplace_back("null");
  *type = std::move(types);
  if (auto* words = object.if_contains("enum")) words->as_array().emplace_back(nullptr);
  return schema;
}

bj::object one_of(std::span<const std::string_view> words) {
  bj::array names;
  for (const auto word : words) names.emplace_back(word);
  auto result = of_type("string");
  result.emplace("enum", std::move(names));
  return result;
}

bj::value reference(const std::string& name) {
  bj::object result;
  result.emplace("$ref", "#/components/schemas/" + name);
  return result;
}

}  // namespace detail
}  // namespace dgxmm::json
