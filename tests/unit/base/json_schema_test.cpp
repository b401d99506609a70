#include "base/json_schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace dgxmm::json_schema_test {

enum class Colour { red, blue };
BOOST_DESCRIBE_ENUM(Colour, red, blue)

struct Inner {
  std::string name;
  std::vector<Inner> inside;
};
BOOST_DESCRIBE_STRUCT(Inner, (), (name, inside))

struct Document {
  std::int64_t number = 0;
  std::int32_t small = 0;
  Bytes size;
  DeploymentId id;
  bool on = false;
  double share = 0;
  Colour colour = Colour::red;
  std::string kind;
  std::optional<std::string> level;
  std::optional<std::int64_t> count;
  std::optional<double> part;
  std::optional<Inner> inner;
  std::vector<std::string> list;
  std::map<std::string, Inner> map;
  json::bj::value any;
};
BOOST_DESCRIBE_STRUCT(Document, (),
                      (number, small, size, id, on, share, colour, kind, level, count, part, inner, list, map, any))

struct Loose {
  std::string name;
  Bytes size;
};
BOOST_DESCRIBE_STRUCT(Loose, (), (name, size))

namespace other {
struct Inner {
  std::string name;
};
BOOST_DESCRIBE_STRUCT(Inner, (), (name))
}  // namespace other

}  // namespace dgxmm::json_schema_test

namespace dgxmm::json {
template <>
inline constexpr std::array<std::string_view, 2> words<&json_schema_test::Document::kind>{"a", "b"};
template <>
inline constexpr std::array<std::string_view, 2> words<&json_schema_test::Document::level>{"low", "high"};
namespace detail {
template <>
inline constexpr bool is_all_optional<json_schema_test::Loose> = true;
}  // namespace detail
}  // namespace dgxmm::json

namespace dgxmm::json_schema_test {
namespace {

using json::Components;
using json::Side;
namespace bj = json::bj;

bj::value component(Side side, const char* name) {
  Components components;
  json::schema<Document>(side, components);
  return components.schemas().at(name);
}

bj::value property(Side side, const char* name) { return component(side, "Document").at("properties").at(name); }

TEST(JsonSchema, AStructIsAComponentUnderItsNameAndReferredTo) {
  Components components;
  const auto schema = json::schema<Document>(Side::written, components);
  EXPECT_EQ(schema, bj::parse(R"({"$ref": "#/components/schemas/Document"})"));
  EXPECT_THAT(components.schemas(), testing::SizeIs(2));
  EXPECT_EQ(components.schemas().at("Inner"), bj::parse(R"({"type": "object", "properties": {
      "name": {"type": "string"},
      "inside": {"type": "array", "items": {"$ref": "#/components/schemas/Inner"}}},
      "required": ["name", "inside"]})"));
}

TEST(JsonSchema, EveryKindOfMemberHasItsType) {
  const auto expect = [](const char* name, const char* schema) {
    EXPECT_EQ(property(Side::written, name), bj::parse(schema)) << name;
  };
  expect("number", R"({"type": "integer", "format": "int64"})");
  expect("small", R"({"type": "integer"})");
  expect("size", R"({"type": "integer", "format": "int64"})");
  expect("id", R"({"type": "integer", "format": "int64"})");
  expect("on", R"({"type": "boolean"})");
  expect("colour", R"({"type": "string", "enum": ["red", "blue"]})");
  expect("kind", R"({"type": "string", "enum": ["a", "b"]})");
  expect("level", R"({"type": ["string", "null"], "enum": ["low", "high", null]})");
  expect("count", R"({"type": ["integer", "null"], "format": "int64"})");
  expect("inner", R"({"anyOf": [{"$ref": "#/components/schemas/Inner"}, {"type": "null"}]})");
  expect("list", R"({"type": "array", "items": {"type": "string"}})");
  expect("map", R"({"type": "object", "additionalProperties": {"$ref": "#/components/schemas/Inner"}})");
  expect("any", "{}");
}

TEST(JsonSchema, ANumberThatMayNotBeFiniteIsWrittenAsNullAndNotReadAsOne) {
  EXPECT_EQ(property(Side::written, "share"), bj::parse(R"({"type": ["number", "null"]})"));
  EXPECT_EQ(property(Side::written, "part"), bj::parse(R"({"type": ["number", "null"]})"));
  EXPECT_EQ(property(Side::read, "share"), bj::parse(R"({"type": "number"})"));
}

TEST(JsonSchema, WhatIsWrittenHasEveryMember) {
  const auto document = component(Side::written, "Document");
  EXPECT_EQ(document.at("required").as_array().size(), document.at("properties").as_object().size());
  EXPECT_FALSE(document.as_object().contains("additionalProperties")) << "a later version may write more";
}

TEST(JsonSchema, WhatIsReadNeedsOnlyWhatTheCodecNeedsAndTakesNothingElse) {
  const auto document = component(Side::read, "Document");
  EXPECT_FALSE(document.at("additionalProperties").as_bool());
  EXPECT_EQ(document.at("required"),
            bj::parse(R"(["number", "small", "size", "id", "share", "colour", "kind", "any"])"));
  EXPECT_EQ(property(Side::read, "on"), bj::parse(R"({"type": ["boolean", "null"]})"));
  EXPECT_EQ(property(Side::read, "list"), bj::parse(R"({"type": ["array", "null"], "items": {"type": "string"}})"));
  // The codec itself, beside it.
  const auto none = json::decode<Document>(bj::parse("{}"), json::Unknown::reject);
  EXPECT_EQ(none.error().where, "number");
}

TEST(JsonSchema, AStructAllOfWhoseMembersMayBeAbsentRequiresNone) {
  Components components;
  json::schema<Loose>(Side::read, components);
  EXPECT_EQ(components.schemas().at("Loose"), bj::parse(R"({"type": "object", "properties": {
      "name": {"type": ["string", "null"]}, "size": {"type": ["integer", "null"], "format": "int64"}},
      "additionalProperties": false})"));
}

TEST(JsonSchema, TwoStructsOfOneNameOrTwoSidesOfOneAreAMistake) {
  Components components;
  json::schema<Inner>(Side::written, components);
  json::schema<Inner>(Side::written, components);
  EXPECT_THROW(json::schema<other::Inner>(Side::written, components), std::logic_error);
  EXPECT_THROW(json::schema<Inner>(Side::read, components), std::logic_error);
}

}  // namespace
}  // namespace dgxmm::json_schema_test
