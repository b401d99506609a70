#pragma once
// Whether answers are what the API's own description says. Knows the part of JSON Schema that the description uses, and
// is stricter than it: an answer has no member that is not described.
#include <boost/json.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dgxmm::testing {

class ApiDescription {
 public:
  using Value = boost::json::value;
  using Faults = std::vector<std::string>;

  /// Of an OpenAPI document.
  explicit ApiDescription(Value document) : document_(std::move(document)) {}

  [[nodiscard]] const Value& document() const { return document_; }
  [[nodiscard]] const boost::json::object& paths() const { return document_.at("paths").as_object(); }
  [[nodiscard]] const boost::json::object& schemas() const {
    return document_.at("components").at("schemas").as_object();
  }

  /// What speaks against an answer; nothing does against one for a path or method that is not described.
  [[nodiscard]] Faults faults_of_answer(std::string method, std::string_view path, int status,
                                        std::string_view content_type, std::string_view body) const {
    const auto* described = path_of(path);
    std::ranges::transform(method, method.begin(), [](char c) { return static_cast<char>(c | 0x20); });
    if (described == nullptr || !described->as_object().contains(method)) return {};
    const auto& responses = described->at(method).at("responses").as_object();
    const auto* response = responses.if_contains(std::to_string(status));
    if (response == nullptr && status < 400) return {"status " + std::to_string(status) + " is not described"};
    if (response == nullptr) response = responses.if_contains("default");
    const auto* content = response->as_object().if_contains("content");
    if (content == nullptr) return body.empty() ? Faults{} : Faults{"a body is not described"};
    const std::string type{content_type.substr(0, content_type.find(';'))};
    const auto* media = content->as_object().if_contains(type);
    if (media == nullptr) return {"content type " + type + " is not described"};
    if (!type.ends_with("json")) return {};
    return faults_of(boost::json::parse(body), media->at("schema"));
  }

  /// What speaks against a document that is to be one of the named ones.
  [[nodiscard]] Faults faults_of_document(const Value& value, std::string_view schema_name) const {
    return faults_of(value, schemas().at(schema_name));
  }

  [[nodiscard]] Faults faults_of(const Value& value, const Value& schema) const {
    Faults faults;
    check(value, schema, "$", faults);
    return faults;
  }

 private:
  static std::string_view text(const Value& value) { return value.as_string(); }

  /// "/api/v1/plans/{set}" for "/api/v1/plans/3"; of several that match, the one with fewer names.
  [[nodiscard]] const Value* path_of(std::string_view path) const {
    for (const auto& [pattern, described] : paths()) {
      if (pattern == path) return &described;
    }
    for (const auto& [pattern, described] : paths()) {
      if (matches(pattern, path)) return &described;
    }
    return nullptr;
  }

  static bool matches(std::string_view pattern, std::string_view path) {
    while (!pattern.empty() && !path.empty()) {
      const auto expected = pattern.substr(0, pattern.find('/', 1));
      const auto actual = path.substr(0, path.find('/', 1));
      if (expected.starts_with("/{") ? actual.size() < 2 : expected != actual) return false;
      pattern.remove_prefix(expected.size());
      path.remove_prefix(actual.size());
    }
    return pattern.empty() && path.empty();
  }

  static bool is_of_type(const Value& value, std::string_view type) {
    if (type == "null") return value.is_null();
    if (type == "boolean") return value.is_bool();
    if (type == "integer") return value.is_int64() || value.is_uint64();
    if (type == "number") return value.is_number();
    if (type == "string") return value.is_string();
    if (type == "array") return value.is_array();
    return type == "object" && value.is_object();
  }

  static bool is_of_any_type(const Value& value, const Value& types) {
    if (types.is_string()) return is_of_type(value, text(types));
    return std::ranges::any_of(types.as_array(), [&](const Value& type) { return is_of_type(value, text(type)); });
  }

  void check(const Value& value, const Value& schema, const std::string& where, Faults& faults) const {
    const auto fault = [&](std::string_view what) {
      faults.push_back(where + ": " + std::string{what} + ", it is " + serialize(value).substr(0, 200));
    };
    const auto& rules = schema.as_object();
    for (const auto& [name, rule] : rules) {
      if (name == "$ref") {
        constexpr std::string_view kSchemas = "#/components/schemas/";
        check(value, schemas().at(text(rule).substr(kSchemas.size())), where, faults);
      } else if (name == "type") {
        if (!is_of_any_type(value, rule)) fault("expected " + serialize(rule));
      } else if (name == "enum") {
        if (std::ranges::find(rule.as_array(), value) == rule.as_array().end()) fault("expected " + serialize(rule));
      } else if (name == "anyOf") {
        const bool one_is =
            std::ranges::any_of(rule.as_array(), [&](const Value& each) { return faults_of(value, each).empty(); });
        if (one_is) continue;
        for (const auto& each : rule.as_array()) check(value, each, where, faults);
      } else if (name == "required") {
        for (const auto& member : rule.as_array()) {
          if (value.is_object() && !value.as_object().contains(text(member))) {
            fault("has no " + std::string{text(member)});
          }
        }
      } else if (name == "properties") {
        if (value.is_object()) check_members(value.as_object(), rules, where, faults);
      } else if (name == "additionalProperties") {
        if (value.is_object() && !rules.contains("properties")) check_members(value.as_object(), rules, where, faults);
      } else if (name == "items") {
        if (!value.is_array()) continue;
        for (std::size_t i = 0; i < value.as_array().size(); ++i) {
          check(value.as_array()[i], rule, where + "[" + std::to_string(i) + "]", faults);
        }
      } else if (name != "format" && name != "description") {
        fault("the schema has a rule that is not known here, " + std::string{name});
      }
    }
  }

  void check_members(const boost::json::object& object, const boost::json::object& rules, const std::string& where,
                     Faults& faults) const {
    const auto* properties = rules.if_contains("properties");
    const auto* others = rules.if_contains("additionalProperties");
    for (const auto& [name, member] : object) {
      const auto place = where + "." + std::string{name};
      const auto* schema = properties == nullptr ? nullptr : properties->as_object().if_contains(name);
      if (schema == nullptr && others != nullptr && others->is_object()) schema = others;
      if (schema == nullptr) {
        faults.push_back(place + ": is not described");
      } else {
        check(member, *schema, place, faults);
      }
    }
  }

  Value document_;
};

}  // namespace dgxmm::testing
