// What the layers of each architecture are, by the keys of its GGUF files.
#include "core/model/gguf_description.h"
#include "tools/byte_reader.h"
#include "tools/gguf_writer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace dgxmm::model {
namespace {

using testing::GgmlType;
using testing::GgufWriter;

using Keys = std::initializer_list<std::pair<std::string_view, std::uint32_t>>;
using Lists = std::initializer_list<std::pair<std::string_view, std::vector<std::int32_t>>>;

/// A model of 8 heads of 32 with 2 KV heads, unless its keys say otherwise.
Result<ModelDescription> describe(const std::string& architecture, std::uint32_t layers, Keys keys = {},
                                  Lists lists = {}) {
  GgufWriter w;
  w.key_text("general.architecture", architecture)
      .key_texts("tokenizer.ggml.tokens", std::vector<std::string>(100, "t"));
  std::vector<std::pair<std::string, std::uint32_t>> all{{"block_count", layers},      {"context_length", 32768},
                                                         {"embedding_length", 256},    {"feed_forward_length", 512},
                                                         {"attention.head_count", 8},  {"attention.head_count_kv", 2},
                                                         {"attention.key_length", 32}, {"attention.value_length", 32}};
  for (const auto& [key, value] : keys) {
    std::erase_if(all, [&](const auto& entry) { return entry.first == key; });
    all.emplace_back(key, value);
  }
  for (const auto& [key, values] : lists) {
    std::erase_if(all, [&](const auto& entry) { return entry.first == key; });
    w.key_i32s(architecture + "." + std::string{key}, values);
  }
  for (const auto& [key, value] : all) w.key_u32(architecture + "." + key, value);
  w.tensor("token_embd.weight", GgmlType::f16, {64, 100});
  const auto header = w.header();
  auto parsed = parse_gguf("m.gguf", w.file_size(), testing::reader_of(header));
  EXPECT_TRUE(parsed) << parsed.error().message;
  const GgufPart part{.path = "m.gguf", .size = w.file_size(), .header = std::move(*parsed)};
  return describe_gguf("m.gguf", "m", {&part, 1});
}

std::string code(const Result<ModelDescription>& result) { return result ? "ok" : result.error().code; }
std::string message(const Result<ModelDescription>& result) { return result ? "ok" : result.error().message; }

/// "W" a window, "C" a chunk, "F" full, "M" a latent, "E" an encoder's; "R" recurrent, "-" neither; "s" shares a cache,
/// "i" has an indexer.
std::string kinds_of(const std::vector<Layer>& layers) {
  std::string text;
  for (const auto& layer : layers) {
    if (!text.empty()) text += ' ';
    if (layer.recurrent) text += 'R';
    if (!layer.attention) {
      if (!layer.recurrent) text += '-';
      continue;
    }
    text += "FWCME"[static_cast<std::size_t>(layer.attention->kind)];
    if (layer.attention->shares_kv) text += 's';
    if (layer.attention->indexer_key_length) text += 'i';
  }
  return text;
}

std::string kinds(const Result<ModelDescription>& model) {
  return model ? kinds_of(model->layers) : model.error().message;
}

constexpr std::string_view kWindow = "attention.sliding_window";
constexpr std::string_view kPattern = "attention.sliding_window_pattern";

TEST(GgufWindows, EveryArchitectureHasItsOwnPattern) {
  EXPECT_EQ(kinds(describe("gemma2", 4)), "W F W F");
  EXPECT_EQ(kinds(describe("gemma3", 7, {{kWindow, 512}})), "W W W W W F W");
  EXPECT_EQ(kinds(describe("gpt-oss", 4, {{kWindow, 128}})), "W F W F");
  EXPECT_EQ(kinds(describe("cohere2", 5, {{kWindow, 4096}})), "W W W F W");
  EXPECT_EQ(kinds(describe("cohere2moe", 5, {{kWindow, 4096}})), "F W W W F");
  EXPECT_EQ(kinds(describe("laguna", 5, {{kWindow, 4096}})), "F W W W F");
  EXPECT_EQ(kinds(describe("llama4", 5, {{kWindow, 1024}})), "C C C F C");
  EXPECT_EQ(kinds(describe("plamo3", 9, {{kWindow, 2048}})), "W W W W W W W F W");
  EXPECT_EQ(kinds(describe("gemma4", 4, {{kWindow, 512}}, {{kPattern, {1, 1, 0, 1}}})), "W W F W");
  EXPECT_EQ(kinds(describe("mellum", 4, {{kWindow, 512}}, {{kPattern, {0, 1, 1, 0}}})), "F W W F");
}

TEST(GgufWindows, ThePeriodOfTheFileReplacesTheDefaultAndAListWhereNoneIsReadDoesNot) {
  EXPECT_EQ(kinds(describe("gemma3", 4, {{kWindow, 512}, {kPattern, 2}})), "W F W F");
  EXPECT_EQ(kinds(describe("gemma3", 3, {{kWindow, 512}, {kPattern, 1}})), "F F F");
  EXPECT_EQ(kinds(describe("gemma3", 3, {{kWindow, 512}, {kPattern, 0}})), "W W W");
  EXPECT_EQ(kinds(describe("gemma3", 7, {{kWindow, 512}}, {{kPattern, {0, 0, 0, 0, 0, 0, 0}}})), "W W W W W F W");
}

TEST(GgufWindows, SomeWindowsAreNotWhatTheFileSays) {
  EXPECT_EQ(describe("llama4", 4)->layers[0].attention->window, 8192);
  EXPECT_EQ(describe("llama4", 4, {{kWindow, 1024}})->layers[0].attention->window, 8192);
  EXPECT_EQ(kinds(describe("llama4", 4, {{kWindow, 0}})), "F F F F");
  EXPECT_EQ(describe("smallthinker", 4, {{kWindow, 100}})->layers[1].attention->window, 4096);
  EXPECT_EQ(kinds(describe("smallthinker", 2)), "F F");
  EXPECT_EQ(describe("gemma2", 2)->layers[0].attention->window, 4096);
  EXPECT_EQ(describe("gemma2", 2, {{kWindow, 2048}})->layers[0].attention->window, 2048);
}

TEST(GgufWindows, SomeFilesHaveAWindowThatTheEngineDoesNotUse) {
  for (const auto* architecture : {"llama", "qwen2", "qwen3", "phi3", "mistral3"}) {
    EXPECT_EQ(kinds(describe(architecture, 2, {{kWindow, 512}})), "F F") << architecture;
  }
  EXPECT_EQ(kinds(describe("exaone4", 4, {{kWindow, 4096}})), "F F F F") << "only the model of 64 layers has windows";
  EXPECT_EQ(kinds(describe("exaone4", 64)).substr(0, 9), "W W W F W");
  EXPECT_EQ(kinds(describe("gemma3", 2)), "F F");
}

TEST(GgufWindows, E7_AWindowThatHadToBeThereIsFullAttentionAndMissing) {
  const auto model = describe("gpt-oss", 2);
  EXPECT_EQ(kinds(model), "F F");
  EXPECT_EQ(model->missing_fields, std::vector<std::string>{"gpt-oss.attention.sliding_window"});
  EXPECT_EQ(describe("gemma4", 2, {{kWindow, 512}})->missing_fields,
            std::vector<std::string>{"gemma4.attention.sliding_window_pattern"});
}

TEST(GgufWindows, WindowedLayersMayHaveHeadsOfTheirOwnSize) {
  const auto model = describe("gemma4", 2,
                              {{kWindow, 512},
                               {"attention.key_length", 512},
                               {"attention.value_length", 512},
                               {"attention.key_length_swa", 256},
                               {"attention.value_length_swa", 128}},
                              {{kPattern, {1, 0}}});
  ASSERT_TRUE(model) << message(model);
  EXPECT_EQ(model->layers[0].attention->key_length, 256);
  EXPECT_EQ(model->layers[0].attention->value_length, 128);
  EXPECT_EQ(model->layers[1].attention->key_length, 512);
}

TEST(GgufAttention, LayersThatShareACacheOwnNone) {
  EXPECT_EQ(
      kinds(describe("gemma4", 4, {{kWindow, 512}, {"attention.shared_kv_layers", 2}}, {{kPattern, {1, 0, 1, 0}}})),
      "W F Ws Fs");
  const auto model = describe("gemma3n", 22, {{kWindow, 512}});
  EXPECT_FALSE(model->layers[19].attention->shares_kv);
  EXPECT_TRUE(model->layers[20].attention->shares_kv);
  EXPECT_EQ(code(describe("gemma4", 2, {{kWindow, 512}, {"attention.shared_kv_layers", 3}}, {{kPattern, {1, 0}}})),
            "bad_model_file");
}

constexpr Keys kLatent{{"attention.head_count_kv", 1},      {"attention.key_length", 576},
                       {"attention.value_length", 512},     {"attention.key_length_mla", 192},
                       {"attention.value_length_mla", 128}, {"attention.kv_lora_rank", 512},
                       {"rope.dimension_count", 64}};

TEST(GgufAttention, ALatentIsKeptWithoutValues) {
  const auto model = describe("deepseek2", 2, kLatent);
  EXPECT_EQ(kinds(model), "M M");
  const auto& attention = *model->layers[0].attention;
  EXPECT_FALSE(attention.keeps_values);
  EXPECT_EQ(attention.key_length, 576);
  EXPECT_EQ(attention.kv_lora_rank, 512);
  EXPECT_EQ(attention.mla_key_length, 192);
}

TEST(GgufAttention, AnOldConversionWithoutTheLengthsOfMlaIsPlainAttentionWithAllItsHeads) {
  const auto model = describe("deepseek2", 2,
                              {{"attention.head_count_kv", 8},
                               {"attention.key_length", 192},
                               {"attention.value_length", 128},
                               {"attention.kv_lora_rank", 512}});
  EXPECT_EQ(kinds(model), "F F");
  EXPECT_TRUE(model->layers[0].attention->keeps_values);
  EXPECT_EQ(model->layers[0].attention->n_head_kv, 8);
}

TEST(GgufAttention, AContradictionIsReportedWithBothSides) {
  const auto one =
      describe("deepseek2", 2,
               {{"attention.key_length_mla", 192}, {"attention.kv_lora_rank", 512}, {"rope.dimension_count", 64}});
  EXPECT_EQ(code(one), "bad_model_file");
  EXPECT_NE(message(one).find("deepseek2.attention.value_length_mla is 0"), std::string::npos) << message(one);
  const auto sum = describe("deepseek2", 2,
                            {{"attention.key_length", 500},
                             {"attention.value_length", 512},
                             {"attention.key_length_mla", 192},
                             {"attention.value_length_mla", 128},
                             {"attention.kv_lora_rank", 512},
                             {"rope.dimension_count", 64}});
  EXPECT_EQ(code(sum), "bad_model_file");
  EXPECT_NE(message(sum).find("make 576"), std::string::npos) << message(sum);
}

TEST(GgufAttention, IndexersAreWhereTheArchitectureHasThem) {
  const auto with = [](const std::string& architecture, std::uint32_t layers, std::uint32_t context, Lists lists = {}) {
    return kinds(describe(architecture, layers,
                          {{"attention.head_count_kv", 1},
                           {"attention.key_length", 576},
                           {"attention.value_length", 512},
                           {"attention.key_length_mla", 192},
                           {"attention.value_length_mla", 128},
                           {"attention.kv_lora_rank", 512},
                           {"rope.dimension_count", 64},
                           {"attention.indexer.key_length", 128},
                           {"context_length", context},
                           {"nextn_predict_layers", 1}},
                          lists));
  };
  EXPECT_EQ(with("deepseek32", 4, 163840), "Mi Mi Mi");
  EXPECT_EQ(with("glm-dsa", 4, 202752), "Mi Mi Mi");
  EXPECT_EQ(with("glm-dsa", 9, 1048576), "Mi Mi Mi M M M Mi M");
  EXPECT_EQ(with("glm-dsa", 4, 1048576, {{"attention.indexer.types", {0, 1, 0, 0}}}), "M Mi M");
  EXPECT_EQ(kinds(describe("minimax-m3", 4, {{"attention.indexer.key_length", 64}, {"leading_dense_block_count", 2}})),
            "F F Fi Fi");
}

TEST(GgufAttention, DeepSeek4KeepsAWindowAndCompressesWhatIsOlder) {
  const auto model = describe("deepseek4", 3,
                              {{"attention.head_count_kv", 1},
                               {kWindow, 128},
                               {"attention.indexer.key_length", 128},
                               {"hyper_connection.count", 4}},
                              {{"attention.compress_ratios", {0, 4, 128}}});
  EXPECT_EQ(kinds(model), "W Wi W");
  EXPECT_EQ(model->layers[2].attention->compress_ratio, 128);
  EXPECT_EQ(model->hyper_connections, 4);
  EXPECT_FALSE(model->layers[0].attention->keeps_values);
  EXPECT_EQ(code(describe("deepseek4", 1, {{kWindow, 128}, {"attention.indexer.key_length", 128}},
                          {{"attention.compress_ratios", {8}}})),
            "model_not_supported");
}

TEST(GgufAttention, EncodersKeepNothing) {
  for (const auto* architecture : {"bert", "nomic-bert-moe", "dream", "llada"}) {
    EXPECT_EQ(kinds(describe(architecture, 2)), "E E") << architecture;
  }
}

TEST(GgufAttention, LayersWithoutAttentionAreKnownOfOneArchitectureOnly) {
  EXPECT_EQ(kinds(describe("deci", 3, {}, {{"attention.head_count_kv", {2, 0, 2}}})), "F - F");
  EXPECT_EQ(code(describe("llama", 3, {}, {{"attention.head_count_kv", {2, 0, 2}}})), "model_not_supported");
}

constexpr std::pair<std::string_view, std::uint32_t> kSsm[]{
    {"ssm.conv_kernel", 4}, {"ssm.inner_size", 512}, {"ssm.state_size", 64}, {"ssm.group_count", 2}};

TEST(GgufRecurrent, TheStateIsAsLargeAsTheKindSays) {
  const auto state = [](const Result<ModelDescription>& model) {
    EXPECT_TRUE(model) << message(model);
    const auto& layer = model->layers[0];
    EXPECT_TRUE(layer.recurrent);
    return std::pair{layer.recurrent->conv_elements, layer.recurrent->state_elements};
  };
  using Pair = std::pair<std::int64_t, std::int64_t>;
  EXPECT_EQ(state(describe("mamba", 2, {{"ssm.conv_kernel", 4}, {"ssm.inner_size", 512}, {"ssm.state_size", 16}})),
            (Pair{3 * 512, 16 * 512}));
  EXPECT_EQ(state(describe("mamba2", 2, {kSsm[0], kSsm[1], kSsm[2], kSsm[3]})),
            (Pair{3 * (512 + 2 * 2 * 64), 64 * 512}));
  EXPECT_EQ(state(describe("qwen35", 4, {kSsm[0], kSsm[1], kSsm[2], kSsm[3]})),
            (Pair{3 * (512 + 2 * 2 * 64), 64 * 512}));
  EXPECT_EQ(state(describe("lfm2", 2, {{"shortconv.l_cache", 3}}, {{"attention.head_count_kv", {0, 2}}})),
            (Pair{256 * 2, 0}));
  EXPECT_EQ(state(describe("kimi-linear", 2, {{"ssm.conv_kernel", 4}, {"kda.head_dim", 128}},
                           {{"attention.head_count_kv", {0, 2}}})),
            (Pair{3 * 3 * 8 * 128, 128 * 128 * 8}));
  EXPECT_EQ(state(describe("minimax-01", 8)), (Pair{0, 32 * 32 * 8}));
  EXPECT_EQ(state(describe("rwkv7", 2, {{"wkv.head_size", 64}, {"token_shift_count", 1}})), (Pair{256, 256 * 64}));
  EXPECT_EQ(state(describe("rwkv6", 2, {{"wkv.head_size", 64}})), (Pair{2 * 256, 256 * 64}));
}

TEST(GgufRecurrent, WhichLayersAreRecurrentIsSaidInFiveWays) {
  EXPECT_EQ(kinds(describe("mamba2", 2, {kSsm[0], kSsm[1], kSsm[2], kSsm[3]})), "R R");
  EXPECT_EQ(kinds(describe("falcon-h1", 2, {kSsm[0], kSsm[1], kSsm[2], kSsm[3]})), "RF RF");
  EXPECT_EQ(kinds(describe("qwen3next", 5, {kSsm[0], kSsm[1], kSsm[2], kSsm[3]})), "R R R F R");
  EXPECT_EQ(kinds(describe("qwen3next", 3, {kSsm[0], kSsm[1], kSsm[2], {"full_attention_interval", 2}})), "R F R");
  EXPECT_EQ(kinds(describe("qwen35moe", 3, {kSsm[0], kSsm[1], kSsm[2]}, {{"attention.recurrent_layers", {0, 1, 0}}})),
            "F R F");
  EXPECT_EQ(kinds(describe("granitehybrid", 3, {kSsm[0], kSsm[1], kSsm[2]}, {{"attention.head_count_kv", {0, 2, 0}}})),
            "R F R");
  EXPECT_EQ(kinds(describe("nemotron_h", 4, {kSsm[0], kSsm[1], kSsm[2]},
                           {{"attention.head_count_kv", {0, 0, 2, 0}}, {"feed_forward_length", {0, 512, 0, 512}}})),
            "R - F -");
}

TEST(GgufRecurrent, AHybridMayHaveWindowsToo) {
  EXPECT_EQ(
      kinds(describe("lfm2", 3, {{"shortconv.l_cache", 3}, {kWindow, 128}}, {{"attention.head_count_kv", {0, 2, 2}}})),
      "R W W");
}

TEST(GgufRecurrent, LayersForMultiTokenPredictionAreApartAndNeverRecurrent) {
  const auto model = describe("qwen35", 5, {kSsm[0], kSsm[1], kSsm[2], {"nextn_predict_layers", 1}});
  EXPECT_EQ(kinds(model), "R R R F");
  EXPECT_EQ(kinds_of(model->nextn_layers), "F");
  const auto shorter = describe("glm4moe", 3, {{"nextn_predict_layers", 1}}, {{"attention.head_count_kv", {2, 2}}});
  EXPECT_EQ(kinds(shorter), "F F") << "a list may end with the trunk";
  EXPECT_EQ(code(describe("glm4moe", 3, {{"nextn_predict_layers", 3}})), "bad_model_file");
}

TEST(GgufRecurrent, LoopedLayersHaveACacheForEveryRun) {
  EXPECT_EQ(kinds(describe("nanbeige", 2, {{"num_loops", 3}})), "F F F F F F");
  EXPECT_EQ(code(describe("nanbeige", 2, {{"num_loops", 300}})), "bad_model_file");
}

TEST(GgufRecurrent, HostileShapesAreErrorsOrCountable) {
  constexpr std::uint32_t kHuge = 1U << 20;
  for (const auto* architecture : {"mamba2", "qwen35", "kimi-linear", "rwkv7", "lfm2", "minimax-01", "deepseek2"}) {
    const auto model = describe(architecture, 512,
                                {{"ssm.conv_kernel", 4096},
                                 {"ssm.inner_size", kHuge},
                                 {"ssm.state_size", kHuge},
                                 {"ssm.group_count", 65536},
                                 {"kda.head_dim", kHuge},
                                 {"wkv.head_size", kHuge},
                                 {"shortconv.l_cache", 4096},
                                 {"token_shift_count", 4096},
                                 {"embedding_length", kHuge},
                                 {"attention.head_count", 65536},
                                 {"attention.head_count_kv", 0},
                                 {"attention.key_length", kHuge}});
    if (!model) continue;
    for (const auto& layer : model->layers) {
      EXPECT_TRUE(!layer.recurrent || (layer.recurrent->conv_elements >= 0 && layer.recurrent->state_elements >= 0));
    }
  }
}

}  // namespace
}  // namespace dgxmm::model
