#include "core/model/gguf.h"

#include "tools/byte_reader.h"
#include "tools/gguf_writer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>

namespace dgxmm::model {
namespace {

using testing::GgmlType;
using testing::GgufWriter;

/// Parses a file of which only the header is there; its tensor data is only claimed.
Result<GgufHeader> parse(const std::string& header, std::uint64_t file_size) {
  return parse_gguf("m.gguf", file_size, testing::reader_of(header));
}
Result<GgufHeader> parse(const GgufWriter& w) { return parse(w.header(), w.file_size()); }

/// Has a key, an array and a tensor of every kind, and is short enough to be cut at every byte.
GgufWriter small_model() {
  const testing::DenseGguf shape{.n_layer = 1, .n_embd = 32, .n_head = 2, .n_head_kv = 1, .n_ff = 32, .n_vocab = 8};
  GgufWriter w;
  testing::add_dense_keys(w, shape);
  w.key_texts("tokenizer.ggml.tokens", std::vector<std::string>(8, "token")).key_i32s("types", {1, 2, 3});
  testing::add_dense_tensors(w, shape);
  return w;
}

std::string code(const Result<GgufHeader>& result) { return result ? "ok" : result.error().code; }
std::string message(const Result<GgufHeader>& result) { return result ? "ok" : result.error().message; }

TEST(Gguf, ReadsEveryScalarTypeAsWhatItIs) {
  GgufWriter w;
  w.key_u8("u8", 200).key_u16("u16", 65535).key_u32("u32", 4'000'000'000).key_i32("i32", -5).key_f32("f32", 0.5F);
  w.key_bool("bool", true).key_u64("u64", 1ULL << 40).key_i64("i64", -7).key_f64("f64", 0.25).key_text("text", "hi");
  const auto header = parse(w);
  ASSERT_TRUE(header) << message(header);
  EXPECT_EQ(header->version, 3U);
  EXPECT_EQ(header->integer("u8"), 200);
  EXPECT_EQ(header->integer("u16"), 65535);
  EXPECT_EQ(header->integer("u32"), 4'000'000'000);
  EXPECT_EQ(header->integer("i32"), -5);
  EXPECT_EQ(header->integer("u64"), std::int64_t{1} << 40);
  EXPECT_EQ(header->integer("i64"), -7);
  EXPECT_EQ(std::get<double>(header->values.at("f32")), 0.5);
  EXPECT_EQ(std::get<double>(header->values.at("f64")), 0.25);
  EXPECT_TRUE(std::get<bool>(header->values.at("bool")));
  ASSERT_NE(header->text("text"), nullptr);
  EXPECT_EQ(*header->text("text"), "hi");
  EXPECT_EQ(header->text("u8"), nullptr);
  EXPECT_EQ(header->integer("text"), std::nullopt);
  EXPECT_EQ(header->integer("absent"), std::nullopt);
}

TEST(Gguf, WithoutItsDigestAHeaderReadsTheSame) {
  const auto writer = testing::dense_gguf({.n_vocab = 40'000});  // longer than what is read at a time
  const auto header = writer.header();
  const auto whole = parse_gguf("m.gguf", writer.file_size(), testing::reader_of(header));
  const auto quick = parse_gguf("m.gguf", writer.file_size(), testing::reader_of(header), DigestOf::nothing);
  ASSERT_TRUE(whole && quick) << message(whole) << message(quick);
  EXPECT_EQ(quick->digest, Digest{});
  EXPECT_NE(whole->digest, Digest{});
  ASSERT_EQ(quick->tensors.size(), whole->tensors.size());
  EXPECT_EQ(quick->tensors.back().bytes, whole->tensors.back().bytes);
  EXPECT_EQ(quick->array("tokenizer.ggml.tokens")->count, 40'000U);
  EXPECT_EQ(quick->values.size(), whole->values.size());
}

TEST(Gguf, AnUnsignedNumberAbove63BitsIsNotReadAsASize) {
  GgufWriter w;
  w.key_u64("huge", UINT64_MAX);
  const auto header = parse(w);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->integer("huge"), std::nullopt);
  EXPECT_EQ(std::get<std::uint64_t>(header->values.at("huge")), UINT64_MAX);
}

TEST(Gguf, KeepsShortIntegerArraysAndOnlyCountsTheOthers) {
  GgufWriter w;
  w.key_u32s("heads", {8, 8, 4}).key_array<std::uint8_t>("flags", 7, {0, 1, 2}).key_array<float>("scores", 6, {1, 2});
  w.key_texts("tokens", std::vector<std::string>{"a", "bc", ""}).key_i32s("long", std::vector<std::int32_t>(1025, 1));
  w.key_array<std::uint64_t>("wide", 10, {1, UINT64_MAX}).key_u32("after", 7);
  const auto header = parse(w);
  ASSERT_TRUE(header) << message(header);
  EXPECT_EQ(header->array("heads")->integers, (std::vector<std::int64_t>{8, 8, 4}));
  EXPECT_EQ(header->array("flags")->integers, (std::vector<std::int64_t>{0, 1, 1}));
  EXPECT_EQ(header->array("scores")->count, 2U);
  EXPECT_FALSE(header->array("scores")->integers);
  EXPECT_EQ(header->array("tokens")->count, 3U);
  EXPECT_EQ(header->array("long")->count, 1025U);
  EXPECT_FALSE(header->array("long")->integers);
  EXPECT_FALSE(header->array("wide")->integers);
  EXPECT_EQ(header->integer("after"), 7) << "the walk over the arrays ended in the right place";
}

TEST(Gguf, ALongTextIsCountedNotKept) {
  GgufWriter w;
  w.key_text("chat", std::string(5000, 'x'));
  const auto header = parse(w);
  ASSERT_TRUE(header);
  EXPECT_EQ(std::get<GgufLongText>(header->values.at("chat")).length_bytes, 5000U);
}

TEST(Gguf, TensorBytesFollowTheTableOfTypes) {
  GgufWriter w;
  w.tensor("a", GgmlType::q4_0, {256, 2}).tensor("b", GgmlType::mxfp4, {64}).tensor("c", GgmlType::q6_k, {512, 3});
  const auto header = parse(w);
  ASSERT_TRUE(header) << message(header);
  ASSERT_EQ(header->tensors.size(), 3U);
  EXPECT_EQ(header->tensors[0].bytes, 512U / 32 * 18);
  EXPECT_EQ(header->tensors[1].bytes, 34U);  // field case G7
  EXPECT_EQ(header->tensors[2].bytes, 1536U / 256 * 210);
  EXPECT_EQ(header->tensors[2].dims, (std::vector<std::uint64_t>{512, 3}));
}

TEST(Gguf, EveryKnownTypeHasABlockAndRemovedOnesAreRefused) {
  for (const std::uint32_t removed : {4U, 5U, 31U, 32U, 33U, 36U, 37U, 38U}) {
    EXPECT_FALSE(ggml_type(removed)) << removed;
    GgufWriter w;
    w.tensor_raw("x", removed, {32}, 0, 32);
    EXPECT_EQ(code(parse(w)), "bad_model_file") << removed;
  }
  for (std::uint32_t id = 0; id < 43; ++id) {
    if (const auto type = ggml_type(id)) {
      EXPECT_GT(type->block, 0U);
      EXPECT_GT(type->block_bytes, 0U);
    }
  }
  EXPECT_FALSE(ggml_type(43));
  EXPECT_EQ(ggml_type(23)->name, "IQ4_XS");
  EXPECT_EQ(ggml_type(42)->block_bytes, 18U);
}

TEST(Gguf, ATypeNewerThanTheTableIsSizedByItsRoom) {
  GgufWriter w;
  w.tensor_raw("new", 50, {64}, 0, 96).tensor("known", GgmlType::f32, {8}).tensor_raw("last", 51, {64}, 128, 70);
  const auto header = parse(w);
  ASSERT_TRUE(header) << message(header);
  EXPECT_EQ(header->tensors[0].bytes, 96U);
  EXPECT_EQ(header->tensors[1].bytes, 32U);
  EXPECT_EQ(header->tensors[2].bytes, 70U);
}

TEST(Gguf, ATypeThatCannotExistIsRefused) {
  GgufWriter w;
  w.tensor_raw("x", 0x80000000, {32}, 0, 32);
  EXPECT_EQ(code(parse(w)), "bad_model_file");
}

TEST(Gguf, AFileWithoutTensorsIsAHeader) {
  GgufWriter w;
  w.key_text("general.architecture", "llama");
  EXPECT_TRUE(parse(w));
}

TEST(Gguf, Version2IsReadAsVersion3) { EXPECT_TRUE(parse(GgufWriter{}.version(2).key_u32("a", 1))); }

TEST(Gguf, OtherVersionsAndByteOrdersAreNamed) {
  EXPECT_EQ(code(parse(GgufWriter{}.version(1))), "model_not_supported");
  EXPECT_NE(message(parse(GgufWriter{}.version(1))).find("version 1"), std::string::npos);
  EXPECT_EQ(code(parse(GgufWriter{}.version(4))), "model_not_supported");
  EXPECT_EQ(code(parse(GgufWriter{}.version(0x03000000))), "model_not_supported");
  EXPECT_NE(message(parse(GgufWriter{}.version(0x02000000))).find("big-endian"), std::string::npos);
}

TEST(Gguf, AnotherKindOfFileIsNotGguf) {
  const auto result = parse(std::string(64, 'P'), 64);
  EXPECT_EQ(code(result), "bad_model_file");
  EXPECT_NE(message(result).find("m.gguf"), std::string::npos);
  EXPECT_NE(message(result).find("not a GGUF file"), std::string::npos);
}

TEST(Gguf, EveryTruncationOfTheHeaderIsNamedHalfDownloaded) {
  const auto w = small_model();
  const auto header = w.header();
  for (std::size_t size = 0; size < header.size(); ++size) {
    const auto result = parse(header.substr(0, size), size);
    ASSERT_EQ(code(result), "model_incomplete") << size;
  }
}

TEST(Gguf, AFileThatIsCutWhileItIsReadIsHalfDownloadedAtEveryLength) {
  const auto w = small_model();
  const auto header = w.header();
  for (std::size_t size = 0; size < header.size(); ++size) {
    const auto result = parse(header.substr(0, size), w.file_size());
    ASSERT_EQ(code(result), "model_incomplete") << size;
    ASSERT_NE(message(result).find(fmt::format("at {} bytes", size)), std::string::npos) << message(result);
  }
}

TEST(Gguf, HowTheBytesArriveMakesNoDifference) {
  const auto w = testing::dense_gguf({.n_vocab = 20'000});  // larger than the buffer
  const auto header = w.header();
  const auto whole = parse(w);
  ASSERT_TRUE(whole) << message(whole);
  for (const std::size_t most : {std::size_t{7}, std::size_t{1000}, std::size_t{100'001}}) {
    const auto read = testing::reader_of(header);
    std::size_t largest = 0;
    const auto pieces = parse_gguf("m.gguf", w.file_size(), [&](std::uint64_t offset, std::span<std::byte> into) {
      largest = std::max(largest, into.size());
      return read(offset, into.first(std::min(into.size(), most)));
    });
    ASSERT_TRUE(pieces) << message(pieces);
    EXPECT_EQ(pieces->digest, whole->digest);
    EXPECT_EQ(pieces->array("tokenizer.ggml.tokens")->count, 20'000U);
    EXPECT_LE(largest, 128U * 1024) << "memory does not grow with the header";
  }
}

TEST(Gguf, AFailingReadIsPassedOn) {
  const auto result = parse_gguf("m.gguf", 1000, [](std::uint64_t, std::span<std::byte>) -> Result<std::size_t> {
    return fail("bad_model_file", "input/output error");
  });
  EXPECT_EQ(message(result), "input/output error");
}

TEST(Gguf, NothingBehindTheHeaderIsAskedFor) {
  const auto w = testing::dense_gguf();
  std::uint64_t end = 0;
  const auto header = w.header();
  const auto read = testing::reader_of(header);
  ASSERT_TRUE(parse_gguf("m.gguf", w.file_size(), [&](std::uint64_t offset, std::span<std::byte> into) {
    end = std::max(end, offset + into.size());
    return read(offset, into);
  }));
  EXPECT_LE(end, header.size() + 128 * 1024);
}

TEST(Gguf, MissingTensorDataTellsExpectedAndActualSize) {
  const auto w = testing::dense_gguf();
  const auto result = parse(w.header(), w.file_size() - 1);
  EXPECT_EQ(code(result), "model_incomplete");
  EXPECT_NE(message(result).find(std::to_string(w.file_size())), std::string::npos) << message(result);
  EXPECT_NE(message(result).find(std::to_string(w.file_size() - 1)), std::string::npos) << message(result);
  EXPECT_NE(message(result).find("half-downloaded"), std::string::npos);
  EXPECT_TRUE(parse(w.header(), w.file_size() + 10)) << "bytes after the tensors are no harm";
}

TEST(Gguf, G1_AnArrayThatClaimsMoreThanTheFileHoldsIsTruncated) {
  for (const std::uint32_t type : {8U, 4U, 0U, 10U}) {
    GgufWriter w;
    std::string payload(12 + 100, '\0');
    const std::uint64_t count = std::uint64_t{1} << 62;
    std::memcpy(payload.data(), &type, 4);
    std::memcpy(payload.data() + 4, &count, 8);
    w.key_raw("a", 9, payload);
    EXPECT_EQ(code(parse(w)), "model_incomplete");
    EXPECT_NE(message(parse(w)).find("truncated"), std::string::npos);
  }
}

TEST(Gguf, G2_AKeyThatClaimsToBeHugeIsRefused) {
  std::string file{"GGUF\x03\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0", 24};
  const std::uint64_t length = 0xFFFFFFFFFFFF;
  file.append(reinterpret_cast<const char*>(&length), 8);
  EXPECT_EQ(code(parse(file, file.size())), "model_incomplete") << "32 bytes cannot hold a key";
  EXPECT_EQ(code(parse(file, std::uint64_t{1} << 50)), "bad_model_file");
}

TEST(Gguf, ClaimedCountsAreBoundedBeforeAnythingIsAllocated) {
  const std::uint64_t size = std::uint64_t{1} << 40;
  EXPECT_EQ(code(parse(GgufWriter{}.claim_keys(65'537).header(), size)), "bad_model_file");
  EXPECT_EQ(code(parse(GgufWriter{}.claim_tensors(262'145).header(), size)), "bad_model_file");
  EXPECT_EQ(code(parse(GgufWriter{}.claim_keys(UINT64_MAX).claim_tensors(UINT64_MAX).header(), size)),
            "bad_model_file");
  EXPECT_EQ(code(parse(GgufWriter{}.claim_keys(65'536))), "model_incomplete");
  EXPECT_EQ(code(parse(GgufWriter{}.claim_tensors(262'144))), "model_incomplete");
}

TEST(Gguf, AHeaderLargerThan256MiBIsRefusedWhenThatMuchIsRead) {
  constexpr std::uint64_t kHole = 64 * 1024 * 1024;
  GgufWriter w;
  for (int i = 0; i < 5; ++i) {
    std::string length(8, '\0');
    std::memcpy(length.data(), &kHole, 8);
    w.key_raw("text" + std::to_string(i), 8, length);
  }
  // The keys as they are, each with a text of 64 MiB behind its length whose bytes nobody looks at.
  const auto keys = w.header();
  const std::size_t key_size = (keys.size() - 24) / 5;
  std::uint64_t read_bytes = 0;
  const auto result = parse_gguf("m.gguf", std::uint64_t{1} << 40,
                                 [&](std::uint64_t offset, std::span<std::byte> into) -> Result<std::size_t> {
                                   read_bytes += into.size();
                                   for (std::uint64_t i = 0; i < keys.size(); ++i) {
                                     const auto at = i < 24 ? i : i + (i - 24) / key_size * kHole;
                                     if (at >= offset && at - offset < into.size())
                                       into[at - offset] = static_cast<std::byte>(keys[i]);
                                   }
                                   return into.size();
                                 });
  EXPECT_EQ(code(result), "bad_model_file");
  EXPECT_NE(message(result).find("256 MiB"), std::string::npos) << message(result);
  EXPECT_LE(read_bytes, kMaxGgufHeaderBytes + 256 * 1024);
}

TEST(Gguf, G5_TheAlignmentIsASmallPowerOfTwo) {
  for (const std::uint32_t good : {1U, 32U, 64U, 4096U, 65536U}) {
    GgufWriter w;
    w.alignment(good).tensor("a", GgmlType::f32, {3}).tensor("b", GgmlType::f32, {3});
    EXPECT_TRUE(parse(w)) << good << message(parse(w));
  }
  for (const std::uint32_t bad : {0U, 48U, 131072U, 1U << 30}) {
    GgufWriter w;
    w.key_u32("general.alignment", bad).tensor("a", GgmlType::f32, {3});
    EXPECT_EQ(code(parse(w)), "bad_model_file") << bad;
  }
  GgufWriter w;
  w.key_text("general.alignment", "32").tensor("a", GgmlType::f32, {3});
  EXPECT_EQ(code(parse(w)), "bad_model_file");
}

TEST(Gguf, MalformedHeadersAreRefusedEachForItsReason) {
  struct Case {
    std::string_view reason;
    std::function<void(GgufWriter&)> write;
  };
  const std::vector<Case> cases{
      {"empty key", [](auto& w) { w.key_u32("", 1); }},
      {"'a' is there twice", [](auto& w) { w.key_u32("a", 1).key_u32("a", 2); }},
      {"unknown type 13", [](auto& w) { w.key_raw("a", 13, std::string(16, '\0')); }},
      {"array of arrays", [](auto& w) { w.key_raw("a", 9, std::string("\x09\0\0\0\x01\0\0\0\0\0\0\0", 12)); }},
      {"5 dimensions", [](auto& w) { w.tensor("t", GgmlType::f32, {1, 1, 1, 1, 1}); }},
      {"'t' is there twice", [](auto& w) { w.tensor("t", GgmlType::f32, {8}).tensor("t", GgmlType::f32, {8}); }},
      {"tensor name", [](auto& w) { w.tensor(std::string(64, 'n'), GgmlType::f32, {8}); }},
      {"dimensions of tensor 't'", [](auto& w) { w.tensor("t", GgmlType::q4_0, {48}); }},
      {"dimensions of tensor 't'", [](auto& w) { w.tensor_raw("t", 0, {1ULL << 32, 1ULL << 32}, 0, 0); }},
      {"dimensions of tensor 't'", [](auto& w) { w.tensor_raw("t", 0, {1ULL << 63}, 0, 0); }},
      {"dimensions of tensor 't'", [](auto& w) { w.tensor_raw("t", 28, {1ULL << 62}, 0, 0); }},
      {"impossibly large",
       [](auto& w) {
         w.tensor_raw("a", 24, {(1ULL << 62) + 32}, 0, 0).tensor_raw("b", 24, {1ULL << 62}, (1ULL << 62) + 32, 0);
       }},
      {"is at 64 instead of 32", [](auto& w) { w.tensor("a", GgmlType::f32, {8}).tensor_raw("b", 0, {8}, 64, 32); }},
      {"is at 0 instead of 32", [](auto& w) { w.tensor("a", GgmlType::f32, {8}).tensor_raw("b", 0, {8}, 0, 32); }},
      {"no room",
       [](auto& w) {
         w.tensor("a", GgmlType::f32, {8}).tensor_raw("b", 60, {8}, 32, 8).tensor_raw("c", 0, {8}, 8, 8);
       }},
  };
  for (const auto& test : cases) {
    GgufWriter w;
    test.write(w);
    const auto result = parse(w.header(), std::uint64_t{1} << 40);
    EXPECT_EQ(code(result), "bad_model_file") << test.reason;
    EXPECT_NE(message(result).find(test.reason), std::string::npos) << message(result);
  }
}

TEST(Gguf, ATensorOfNoElementsIsAllowed) {
  GgufWriter w;
  w.tensor("empty", GgmlType::f32, {0, 4}).tensor("next", GgmlType::f32, {4});
  EXPECT_TRUE(parse(w)) << message(parse(w));
}

TEST(Gguf, NamesFromTheFileCannotSmuggleControlBytesIntoMessages) {
  GgufWriter w;
  w.key_u32("a\x1b[2J", 1).key_u32("a\x1b[2J", 2);
  EXPECT_EQ(message(parse(w)).find('\x1b'), std::string::npos);
}

TEST(Gguf, TheDigestCoversTheWholeHeaderAndNothingElse) {
  const auto original = testing::dense_gguf();
  const auto digest = parse(original)->digest;
  EXPECT_EQ(parse(original.header() + std::string(100, 'x'), original.file_size())->digest, digest);
  auto header = original.header();
  header[header.find("t1000")] = 'u';  // one letter of one token
  EXPECT_NE(parse(header, original.file_size())->digest, digest);
}

}  // namespace
}  // namespace dgxmm::model
