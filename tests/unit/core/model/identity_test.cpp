#include "core/model/identity.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace dgxmm::model {
namespace {

Digest digest_of(std::initializer_list<std::string_view> fields) {
  Hasher hasher;
  for (const auto field : fields) hasher.add(field);
  return hasher.digest();
}

TEST(Identity, TheDigestKnowsWhereOneFieldEnds) {
  EXPECT_NE(digest_of({"ab", "c"}), digest_of({"a", "bc"}));
  EXPECT_NE(digest_of({"a", ""}), digest_of({"a"}));
  EXPECT_NE(digest_of({std::string_view{"\0", 1}}), digest_of({""}));
  EXPECT_EQ(digest_of({"ab", "c"}), digest_of({"ab", "c"}));
}

TEST(Identity, EverySingleBitOfAFieldCounts) {
  std::set<std::string> seen;
  std::string text(67, 'x');
  seen.insert(to_hex(digest_of({text})));
  for (std::size_t i = 0; i < text.size() * 8; ++i) {
    auto flipped = text;
    flipped[i / 8] = static_cast<char>(flipped[i / 8] ^ (1 << (i % 8)));
    seen.insert(to_hex(digest_of({flipped})));
  }
  EXPECT_EQ(seen.size(), text.size() * 8 + 1);
}

TEST(Identity, C7_TheFingerprintIsOfFormatSizesAndHeaders) {
  const std::vector<FileIdentity> files{{.size = 10, .header = {1, 2}}, {.size = 20, .header = {3, 4}}};
  const auto fingerprint = make_fingerprint(Format::gguf, files);
  EXPECT_EQ(fingerprint.digest.size(), 32U);
  EXPECT_EQ(make_fingerprint(Format::gguf, files), fingerprint);
  EXPECT_NE(make_fingerprint(Format::safetensors, files), fingerprint);
  auto larger = files;
  larger[0].size = 11;
  EXPECT_NE(make_fingerprint(Format::gguf, larger), fingerprint);
  auto other_header = files;
  other_header[1].header.low = 5;
  EXPECT_NE(make_fingerprint(Format::gguf, other_header), fingerprint);
}

TEST(Identity, NamesLoseWhatOnlyTellsTheQuantization) {
  for (const auto* name :
       {"Qwen3-8B", "qwen3 8b", "Qwen3-8B-Q4_K_M", "Qwen3-8B.Q4_0", "Qwen3-8B-UD-IQ2_XXS", "Qwen3-8B-bf16",
        "Qwen3_8B_Q8_0", "Qwen3-8B-FP8", "Qwen3-8B-GGUF", "Qwen3-8B-AWQ", "Qwen3-8B-TQ1_0", "Qwen3-8B-UD-Q4_K_XL"}) {
    EXPECT_EQ(name_without_quantization(name), "qwen3-8b") << name;
  }
  EXPECT_EQ(name_without_quantization("Meta-Llama-3.1-8B-Instruct.Q4_K_M"), "meta-llama-3.1-8b-instruct");
  EXPECT_EQ(name_without_quantization("granite_code_3b"), "granite-code-3b");
  EXPECT_EQ(name_without_quantization("q-tip"), "q-tip") << "not everything with a q is a quantization";
  EXPECT_EQ(name_without_quantization("Q4_K_M"), "");
  EXPECT_EQ(name_without_quantization(""), "");
}

ModelDescription shape() {
  ModelDescription model{
      .architecture = "llama", .embedding_length = 4096, .vocabulary = 1000, .training_context = 8192};
  model.layers.assign(
      4, Layer{.attention = Attention{.n_head = 32, .n_head_kv = 8, .key_length = 128, .value_length = 128}});
  return model;
}

TEST(Identity, QuantizationsOfOneModelAreEqualAndFinetunesAreNot) {
  auto quantized = shape();
  quantized.quantization = "Q4_K_M";
  EXPECT_EQ(base_model_identity(shape(), "Llama-3-8B-F16", 7), base_model_identity(quantized, "Llama 3 8B Q4_K_M", 7));
  EXPECT_NE(base_model_identity(shape(), "Llama-3-8B", 7), base_model_identity(shape(), "Llama-3-8B-Instruct", 7));
}

TEST(Identity, AnotherShapeIsAnotherModelWhateverItsName) {
  const auto original = base_model_identity(shape(), "m", 7);
  EXPECT_NE(base_model_identity(shape(), "m", 8), original);
  auto changed = shape();
  changed.layers.pop_back();
  EXPECT_NE(base_model_identity(changed, "m", 7), original);
  changed = shape();
  changed.layers[0].attention->n_head_kv = 4;
  EXPECT_NE(base_model_identity(changed, "m", 7), original);
  changed = shape();
  changed.vocabulary = 1001;
  EXPECT_NE(base_model_identity(changed, "m", 7), original);
  changed = shape();
  changed.experts = Experts{.count = 8};
  EXPECT_NE(base_model_identity(changed, "m", 7), original);
}

TEST(Identity, WithoutANameTheBaseModelIsNotKnown) { EXPECT_EQ(base_model_identity(shape(), "Q4_0", 7), ""); }

}  // namespace
}  // namespace dgxmm::model
