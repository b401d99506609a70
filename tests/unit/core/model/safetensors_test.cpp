#include "core/model/safetensors.h"

#include "tools/hf_writer.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace dgxmm::model {
namespace {

using testing::SafetensorsWriter;

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span{text}); }

/// A file with this header and `data_bytes` of data that are not looked at.
Result<SafetensorsHeader> parse(std::string_view json, std::uint64_t data_bytes) {
  const auto bytes = SafetensorsWriter::with_length(json);
  return parse_safetensors("m.safetensors", bytes_of(bytes), bytes.size() + data_bytes);
}
std::string code(const Result<SafetensorsHeader>& result) { return result ? "ok" : result.error().code; }
std::string message(const Result<SafetensorsHeader>& result) { return result ? "ok" : result.error().message; }

std::string tensor(std::string_view dtype, std::string_view shape, std::string_view offsets,
                   std::string_view name = "t") {
  return "\"" + std::string{name} + R"(":{"dtype":")" + std::string{dtype} + R"(","shape":)" + std::string{shape} +
         R"(,"data_offsets":)" + std::string{offsets} + "}";
}
std::string one(std::string_view dtype, std::string_view shape, std::string_view offsets) {
  return "{" + tensor(dtype, shape, offsets) + "}";
}

TEST(Safetensors, ReadsTensorsInTheOrderOfTheirData) {
  const auto header =
      parse("{" + tensor("BF16", "[2,4]", "[12,28]", "b") + R"(,"__metadata__":{"format":"pt","note":"[1]"},)" +
                tensor("F32", "[3]", "[0,12]", "a") + "}",
            28);
  ASSERT_TRUE(header) << message(header);
  ASSERT_EQ(header->tensors.size(), 2U);
  EXPECT_EQ(header->tensors[0].name, "a");
  EXPECT_EQ(header->tensors[0].bytes, 12U);
  EXPECT_EQ(header->tensors[1].name, "b");
  EXPECT_EQ(header->tensors[1].dtype, "BF16");
  EXPECT_EQ(header->tensor_bytes, 28U);
}

TEST(Safetensors, PaddingScalarsAndEmptyTensorsAreAllowed) {
  EXPECT_TRUE(parse("{}        ", 0));
  EXPECT_TRUE(parse(one("F32", "[]", "[0,4]"), 4));
  EXPECT_TRUE(parse("{" + tensor("F32", "[0,5]", "[0,0]", "a") + "," + tensor("F32", "[1]", "[0,4]", "b") + "}", 4));
  EXPECT_TRUE(parse(one("F4", "[2,3]", "[0,3]"), 3)) << "half a byte an element";
}

TEST(Safetensors, AHalfDownloadedFileTellsExpectedAndActualSize) {
  const auto json = one("F32", "[8]", "[0,32]");
  const auto result = parse(json, 31);
  EXPECT_EQ(code(result), "model_incomplete");
  EXPECT_NE(message(result).find(std::to_string(8 + json.size() + 32)), std::string::npos) << message(result);
  EXPECT_NE(message(result).find(std::to_string(8 + json.size() + 31)), std::string::npos) << message(result);
  EXPECT_EQ(code(parse(json, 33)), "bad_model_file") << "the reference implementation refuses a longer file too";
}

TEST(Safetensors, EveryTruncationOfTheHeaderIsIncomplete) {
  const auto bytes = SafetensorsWriter::with_length(one("F32", "[8]", "[0,32]"));
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const auto part = bytes.substr(0, size);
    EXPECT_EQ(code(parse_safetensors("m", bytes_of(part), size)), "model_incomplete") << size;
  }
}

TEST(Safetensors, TheClaimedLengthIsBoundedBeforeAnythingIsRead) {
  std::string bytes(8, '\xff');
  EXPECT_EQ(safetensors_header_end("m", bytes_of(bytes), UINT64_MAX).error().code, "bad_model_file");
  const auto length = [](std::uint64_t n) {
    std::string text(8, '\0');
    std::memcpy(text.data(), &n, 8);
    return text;
  };
  EXPECT_EQ(*safetensors_header_end("m", bytes_of(length(kMaxSafetensorsHeaderBytes)), 1ULL << 40),
            kMaxSafetensorsHeaderBytes + 8);
  EXPECT_FALSE(safetensors_header_end("m", bytes_of(length(kMaxSafetensorsHeaderBytes + 1)), 1ULL << 40));
  EXPECT_EQ(safetensors_header_end("m", bytes_of(length(100)), 50).error().code, "model_incomplete");
}

TEST(Safetensors, HeadersThatContradictThemselvesAreRefused) {
  const std::string cases[] = {
      one("F32", "[8]", "[0,31]"),                     // size against shape
      one("F32", "[8]", "[32,0]"),                     // end before start
      one("F32", "[8]", "[4,36]"),                     // a gap
      one("F32", "[8]", "[0]"),                        // one offset
      one("F32", "[8]", "[0,32,32]"),                  // three
      one("F9", "[8]", "[0,32]"),                      // dtype
      one("F4", "[3]", "[0,1]"),                       // half a byte left
      one("F32", "[4294967296,4294967296]", "[0,0]"),  // overflow
      one("F32", "[-1]", "[0,4]"),                     // negative
      one("F32", "[1.5]", "[0,6]"),                    // no whole number
      one("F32", "[1e400]", "[0,4]"),                  // no number of this world
      one("F32", "[99999999999999999999]", "[0,4]"),   // above 64 bits
      one("F32", "\"8\"", "[0,32]"),                   // text for a list
      one("F32", "[[8]]", "[0,32]"),                   // a list too deep
      one("F32", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "[0,4]"),
      "{" + tensor("F32", "[1]", "[0,4]", "a") + "," + tensor("F32", "[1]", "[0,4]", "b") + "}",  // an overlap
      R"({"t":{"dtype":"F32","data_offsets":[0,4]}})",
      R"({"t":{"shape":[1],"data_offsets":[0,4]}})",
      R"({"t":{"dtype":"F32","shape":[1],"shape":[1],"data_offsets":[0,4]}})",
      R"({"t":[0,4]})",
      R"({"t":null})",
      R"({"t":{"dtype":{},"shape":[1],"data_offsets":[0,4]}})",
      R"([])",
      R"(null)",
      R"({"t")",
      R"({} {})",
      R"( {})",
      "",
  };
  for (const auto& json : cases) EXPECT_EQ(code(parse(json, 64)), "bad_model_file") << json;
}

TEST(Safetensors, NestingAndNamesAreBounded) {
  EXPECT_EQ(code(parse(testing::repeated('[', 10'000'000), 0)), "bad_model_file");
  EXPECT_EQ(code(parse("{\"a\":" + testing::repeated('{', 10'000'000), 0)), "bad_model_file");
  EXPECT_EQ(code(parse("{" + tensor("F32", "[1]", "[0,4]", std::string(5000, 'n')) + "}", 4)), "bad_model_file");
  EXPECT_EQ(code(parse(one(std::string(1'000'000, 'F'), "[1]", "[0,4]"), 4)), "bad_model_file");
}

TEST(Safetensors, TheDigestIsOfTheHeader) {
  const auto one_byte = parse(one("U8", "[1]", "[0,1]"), 1);
  ASSERT_TRUE(one_byte);
  EXPECT_EQ(parse(one("U8", "[1]", "[0,1]"), 1)->digest, one_byte->digest);
  EXPECT_NE(parse(one("I8", "[1]", "[0,1]"), 1)->digest, one_byte->digest);
}

}  // namespace
}  // namespace dgxmm::model
