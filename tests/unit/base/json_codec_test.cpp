#include "base/json_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace dgxmm::json_codec_test {

enum class Colour { red, blue };
BOOST_DESCRIBE_ENUM(Colour, red, blue)

struct Port {
  std::string host;
  std::uint16_t number = 0;
};
BOOST_DESCRIBE_STRUCT(Port, (), (host, number))

struct Everything {
  std::string name;
  std::optional<std::int64_t> count;
  std::vector<Port> ports;
  std::map<std::string, std::string> labels;
  std::optional<Colour> colour;
  bool on = true;
  std::optional<double> share;
  std::optional<Bytes> size;
  std::optional<DeploymentId> deployment;
};
BOOST_DESCRIBE_STRUCT(Everything, (), (name, count, ports, labels, colour, on, share, size, deployment))

namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

Result<Everything> read(std::string_view text, json::Unknown unknown = json::Unknown::reject) {
  const auto value = json::parse(text);
  if (!value) return fail(value.error());
  return json::decode<Everything>(*value, unknown);
}

Error error_of(std::string_view text) {
  const auto result = read(text);
  EXPECT_FALSE(result) << text;
  return result ? Error{} : result.error();
}

TEST(JsonParse, WhitespaceAroundADocumentIsAllowedAndNothingElse) {
  EXPECT_TRUE(json::parse(" \t\r\n{} \n"));
  EXPECT_TRUE(json::parse("0"));
  for (const std::string text : {"", " ", "{", "{}x", "{} {}", "{broken", "[1,]", "nul", "'a'", R"("\ud800")",
                                 "\"\xff\"", "01", "NaN", "// c\n1", "\"a\nb\""}) {
    const auto value = json::parse(text);
    ASSERT_FALSE(value) << text;
    EXPECT_EQ(value.error().code, "bad_json");
    EXPECT_THAT(value.error().message, HasSubstr("near byte"));
  }
}

TEST(JsonParse, TheErrorSaysWhere) {
  EXPECT_THAT(json::parse("{\"a\": 1, !}").error().message, HasSubstr("near byte 9"));
}

TEST(JsonParse, NestingDeeperThanTheLimitIsRefused) {
  const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_TRUE(json::parse(nested(json::kMaxDepth)));
  EXPECT_FALSE(json::parse(nested(json::kMaxDepth + 1)));
  EXPECT_FALSE(json::parse(nested(1'000'000)));
}

TEST(JsonParse, OfAKeyThatStandsTwiceTheLastOneCounts) { EXPECT_EQ(read(R"({"name": "a", "name": "b"})")->name, "b"); }

TEST(JsonDecode, EveryKindOfMemberIsRead) {
  const auto result = read(R"({"name": "n", "count": -3, "ports": [{"host": "h", "number": 65535}],
      "labels": {"a": "b"}, "colour": "blue", "on": false, "share": 1, "size": 9007199254740993, "deployment": 7})");
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->count, -3);
  ASSERT_EQ(result->ports.size(), 1U);
  EXPECT_EQ(result->ports[0].number, 65535);
  EXPECT_EQ(result->labels.at("a"), "b");
  EXPECT_EQ(result->colour, Colour::blue);
  EXPECT_FALSE(result->on);
  EXPECT_EQ(result->share, 1.0);
  EXPECT_EQ(result->size, Bytes{9007199254740993});  // 2^53 + 1: not by way of a double
  EXPECT_EQ(result->deployment, DeploymentId{7});
}

TEST(JsonDecode, AbsentAndNullMeanTheSame) {
  for (const std::string text : {R"({"name": "n"})",
                                 R"({"name": "n", "count": null, "ports": null, "labels": null, "colour": null,
                                     "on": null, "share": null, "size": null, "deployment": null})"}) {
    const auto result = read(text);
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_EQ(result->count, std::nullopt);
    EXPECT_TRUE(result->ports.empty());
    EXPECT_TRUE(result->on);
  }
  EXPECT_EQ(error_of(R"({"name": null})").code, "missing_field");
  EXPECT_EQ(error_of("{}").message, "name: is required");
}

TEST(JsonDecode, ErrorsSayThePathAndWhatWasExpected) {
  EXPECT_EQ(error_of(R"({"name": "n", "ports": [{"host": "h", "number": 1}, {"host": 5, "number": 1}]})").message,
            "ports[1].host: expected text");
  EXPECT_EQ(error_of(R"({"name": "n", "ports": [{"host": "h"}]})").message, "ports[0].number: is required");
  EXPECT_EQ(error_of(R"({"name": "n", "ports": {}})").message, "ports: expected a list");
  EXPECT_EQ(error_of(R"({"name": "n", "labels": {"a": 1}})").message, "labels.a: expected text");
  EXPECT_EQ(error_of(R"({"name": "n", "colour": "green"})").message, "colour: expected one of red, blue");
  EXPECT_EQ(error_of(R"({"name": "n", "colour": 0})").message, "colour: expected one of red, blue");
  EXPECT_EQ(error_of(R"({"name": "n", "on": 1})").message, "on: expected true or false");
  EXPECT_EQ(error_of(R"({"name": "n", "share": "1"})").message, "share: expected a number");
  EXPECT_EQ(error_of("[]").message, "the document: expected an object");
  EXPECT_EQ(error_of(R"({"name": "n", "ports": {}})").where, "ports");
}

TEST(JsonDecode, WholeNumbersAreWholeAndInRange) {
  for (const std::string value : {"1.5", "1.0", "\"1\"", "true", "[]", "1e3", "18446744073709551616"}) {
    EXPECT_EQ(error_of(R"({"name": "n", "count": )" + value + "}").message, "count: expected a whole number") << value;
  }
  EXPECT_EQ(error_of(R"({"name": "n", "count": 9223372036854775808})").message,
            "count: expected a whole number in range");
  for (const std::string value : {"-1", "65536"}) {
    EXPECT_EQ(error_of(R"({"name": "n", "ports": [{"host": "h", "number": )" + value + "}]}").message,
              "ports[0].number: expected a whole number in range");
  }
  EXPECT_EQ(read(R"({"name": "n", "count": -9223372036854775808})")->count, std::numeric_limits<std::int64_t>::min());
}

TEST(JsonDecode, NumbersAreFinite) {
  EXPECT_EQ(read(R"({"name": "n", "share": 18446744073709551615})")->share, 18446744073709551615.0);
  EXPECT_FALSE(read(R"({"name": "n", "share": 1e999})"));
}

TEST(JsonDecode, UnknownKeysAreRejectedFromUsersAndIgnoredFromOthers) {
  const auto error = error_of(R"({"nmae": "n"})");  // and not "name is required"
  EXPECT_EQ(error.code, "unknown_field");
  EXPECT_EQ(error.where, "nmae");
  EXPECT_THAT(error.hint, HasSubstr("name, count, ports"));
  EXPECT_EQ(error_of(R"({"name": "n", "ports": [{"host": "h", "number": 1, "x": 2}]})").where, "ports[0].x");
  EXPECT_TRUE(
      read(R"({"name": "n", "x": [[1]], "ports": [{"host": "h", "number": 1, "y": 2}]})", json::Unknown::ignore));
}

TEST(JsonDecode, AHostileKeyCannotReachTheTerminal) {
  EXPECT_EQ(error_of(R"({"name": "n", "\u001b[2J": 1})").where, "\\x1b[2J");
  EXPECT_THAT(error_of(R"({"name": "n", "labels": {"a\nb": 1}})").message,
              AllOf(HasSubstr("a\\x0ab"), Not(HasSubstr("\n"))));
}

TEST(JsonEncode, UnknownIsNullAndEveryFieldIsThere) {
  EXPECT_EQ(json::encode(Everything{.name = "n"}),
            R"({"name":"n","count":null,"ports":[],"labels":{},"colour":null,"on":true,"share":null,"size":null,)"
            R"("deployment":null})");
}

TEST(JsonEncode, WhatIsWrittenIsReadBackTheSame) {
  const Everything before{.name = "q\"\\\n\u20ac",
                          .count = std::numeric_limits<std::int64_t>::max(),
                          .ports = {{"h", 1}, {"", 2}},
                          .labels = {{"k", "v"}},
                          .colour = Colour::red,
                          .on = false,
                          .share = 0.1,
                          .size = Bytes{-5},
                          .deployment = DeploymentId{3}};
  const auto after = read(json::encode(before));
  ASSERT_TRUE(after) << after.error().message;
  EXPECT_EQ(json::encode(*after), json::encode(before));
  EXPECT_EQ(after->name, before.name);
  EXPECT_EQ(after->share, before.share);
}

TEST(JsonEncode, TheDocumentIsAlwaysValid) {
  const auto text = json::encode(
      Everything{.name = "a\xff", .labels = {{"\xfe", "\xc3"}}, .share = std::numeric_limits<double>::quiet_NaN()});
  const auto back = read(text);
  ASSERT_TRUE(back) << text;
  EXPECT_EQ(back->name, "a\xef\xbf\xbd");
  EXPECT_EQ(back->share, std::nullopt);
}

}  // namespace
}  // namespace dgxmm::json_codec_test
