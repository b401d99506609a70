// The rules of vLLM's KV cache against what its own code plans: tests/truth/vllm_vectors.csv, each row from the model's
// config.json (tests/truth/vllm_configs.json) to bytes.
#include "base/json_codec.h"
#include "core/memory/estimate.h"
#include "core/memory/vllm_cache.h"
#include "core/memory/vllm_ranks.h"
#include "core/model/hf_config.h"
#include "tools/accuracy_rows.h"

#include <boost/json.hpp>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace dgxmm::memory {
namespace {

using ::testing::HasSubstr;

std::string truth(const std::string& name) {
  std::ifstream file{std::string{DGXMM_TEST_DATA} + "/truth/" + name};
  return {std::istreambuf_iterator{file}, {}};
}

const boost::json::object& configs() {
  static const auto kConfigs = json::parse(truth("vllm_configs.json"));
  return kConfigs->get_object();
}

model::ModelDescription describe(const std::string& name) {
  const auto* text = configs().if_contains(name);
  EXPECT_NE(text, nullptr) << name;
  if (text == nullptr) return {};
  const auto config = model::parse_hf_config(name + "/config.json", boost::json::serialize(*text));
  EXPECT_TRUE(config) << (config ? "" : config.error().message);
  if (!config) return {};
  const model::SafetensorsPart part{
      .path = "model.safetensors",
      .size = 1 << 20,
      .header = {.tensors = {{.name = "x", .dtype = "BF16", .bytes = 1 << 19}}, .tensor_bytes = 1 << 19, .digest = {}}};
  auto description = model::describe_safetensors(name, name, *config, {}, {&part, 1});
  EXPECT_TRUE(description);
  return description ? *description : model::ModelDescription{};
}

using Row = std::map<std::string, std::string>;

const std::vector<Row>& rows() {
  static const auto kRows = [] {
    std::vector<Row> all;
    std::vector<std::string> names;
    std::istringstream file{truth("vllm_vectors.csv")};
    int number = 0;
    for (std::string line; std::getline(file, line);) {
      ++number;
      if (line.starts_with('#')) continue;
      std::vector<std::string> cells;
      std::istringstream stream{line};
      for (std::string cell; std::getline(stream, cell, ',');) cells.push_back(cell);
      if (names.empty()) {
        names = cells;
        continue;
      }
      Row row;
      for (std::size_t i = 0; i < names.size(); ++i) row[names[i]] = cells.at(i);
      row["line"] = std::to_string(number);
      all.push_back(row);
    }
    return all;
  }();
  return kRows;
}

std::int64_t number(const Row& row, const std::string& column) { return std::stoll(row.at(column)); }

std::string text_of(const Row& row) {
  return fmt::format("{} of {} tokens, cache {}, {} batched, {} drafted", row.at("model"), row.at("length"),
                     row.at("kv_cache_dtype"), row.at("batched_tokens"), row.at("speculative_tokens"));
}

Result<vllm::CachePlan> plan_of(const model::ModelDescription& model, std::string_view kv_cache_dtype,
                                std::int64_t batched_tokens, std::int64_t speculative_tokens = 0,
                                bool hybrid_manager = true, std::int64_t ranks = 1) {
  const auto rank = vllm::rank_of(model, ranks);
  if (!rank) return fail(rank.error());
  const auto type = vllm::resolve_kv_type(kv_cache_dtype, model);
  if (!type) return fail(type.error());
  return vllm::plan_cache(*rank, {.kv_type = *type,
                                  .max_num_batched_tokens = batched_tokens,
                                  .speculative_tokens = speculative_tokens,
                                  .mtp = speculative_tokens > 0,
                                  .hybrid_manager = hybrid_manager});
}

/// "full 10@32; window 9+9+8@16", kinds in the order of their enumeration.
std::string text_of(const vllm::CachePlan& plan) {
  static const std::vector<std::string> kWords{"full", "window", "chunked", "state", "cross"};
  std::vector<vllm::CacheGroup> groups;
  for (std::size_t kind = 0; kind < kWords.size(); ++kind) {
    std::ranges::copy_if(plan.groups, std::back_inserter(groups),
                         [kind](const auto& group) { return static_cast<std::size_t>(group.kind) == kind; });
  }
  std::string text;
  for (auto group = groups.begin(); group != groups.end();) {
    const auto end = std::find_if(group, groups.end(), [&](const auto& other) {
      return other.kind != group->kind || other.block != group->block || other.window != group->window;
    });
    if (!text.empty()) text += "; ";
    text += kWords.at(static_cast<std::size_t>(group->kind)) + " ";
    for (auto one = group; one != end; ++one) text += fmt::format("{}{}", one == group ? "" : "+", one->layers);
    if (group->kind != vllm::CacheKind::state) text += fmt::format("@{}", group->block);
    group = end;
  }
  return text.empty() ? "none" : text;
}

/// A model of which no vector is at hand, by config.json.
model::ModelDescription described(const std::string& text) {
  const auto config = model::parse_hf_config("m/config.json", text);
  EXPECT_TRUE(config) << (config ? "" : config.error().message);
  model::ModelDescription model{.format = model::Format::safetensors};
  if (config) model.layers = config->layers;
  return model;
}

// By hand from the rules: 2 MLA in each of 28 layers, 512 + 64 values of 2 bytes, 16 tokens in a block.
TEST(VllmTruth, E3_LongCatFlashKeepsTwoLatentsALayer) {
  const auto plan = plan_of(described(R"({"architectures":["LongcatFlashForCausalLM"],"num_layers":28,
      "hidden_size":6144,"ffn_hidden_size":12288,"num_attention_heads":64,"kv_lora_rank":512,"qk_rope_head_dim":64,
      "qk_nope_head_dim":128,"v_head_dim":128,"max_position_embeddings":131072,"vocab_size":131072})"),
                            "auto", 8192);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(text_of(*plan), "full 56@16");
  EXPECT_EQ(plan->bytes_per_block, Bytes{56 * 16 * (512 + 64) * 2});
  EXPECT_EQ(vllm::request_bytes(*plan, 32'768), Bytes{std::int64_t{32'768} * 56 * 1152});
}

// By hand: a state of 32 x 128 x 128 values of 2 bytes, 1,048,576, needs a block of 128 x ceil(1,048,576 / (128 x
// 1152)) = 1024 tokens, a page of 1,179,648. Two layers of latents make groups of two: eight of the 16 states. A
// request of 32,768 tokens has 32 pages of latents, and two of each group of states.
TEST(VllmTruth, E4_BailingHybridAlignsItsLatentsToItsStates) {
  const auto plan = plan_of(described(R"({"architectures":["BailingMoeV2_5ForCausalLM"],"num_hidden_layers":18,
      "layer_group_size":8,"hidden_size":4096,"num_attention_heads":32,"head_dim":128,"kv_lora_rank":512,
      "qk_rope_head_dim":64,"qk_nope_head_dim":128,"v_head_dim":128,"intermediate_size":9216,
      "max_position_embeddings":131072,"vocab_size":157184})"),
                            "auto", 8192);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(text_of(*plan), "full 2@1024; state 2+2+2+2+2+2+2+2");
  EXPECT_EQ(plan->bytes_per_block, Bytes{2 * 1'179'648});
  EXPECT_EQ(vllm::request_bytes(*plan, 32'768), Bytes{(32 + 8 * 2) * std::int64_t{2} * 1'179'648});
}

TEST(VllmTruth, E3_EveryVectorIsExactToTheByte) {
  ASSERT_GE(rows().size(), 100U);
  for (const auto& row : rows()) {
    SCOPED_TRACE(text_of(row));
    const auto model = describe(row.at("model"));
    const auto plan = plan_of(model, row.at("kv_cache_dtype"), number(row, "batched_tokens"),
                              number(row, "speculative_tokens"), row.at("hybrid_manager") == "1", number(row, "ranks"));
    ASSERT_TRUE(plan) << plan.error().message;
    const auto length = number(row, "length");
    if (!row.at("groups").empty()) EXPECT_EQ(text_of(*plan), row.at("groups"));
    EXPECT_EQ(plan->bytes_per_block, Bytes{number(row, "bytes_per_block")});
    EXPECT_EQ(vllm::request_bytes(*plan, length), Bytes{number(row, "request_bytes")});

    if (row.at("pool_bytes").empty()) continue;
    const auto blocks = number(row, "pool_bytes") / plan->bytes_per_block.count();
    if (!row.at("pool_blocks").empty()) EXPECT_EQ(blocks, number(row, "pool_blocks"));
    const auto a_request = vllm::request_blocks(*plan, length);
    if (!row.at("pool_tokens").empty()) EXPECT_EQ(blocks * length / a_request, number(row, "pool_tokens"));
    EXPECT_NEAR(static_cast<double>(blocks) / static_cast<double>(a_request), std::stod(row.at("concurrency")), 0.005);
  }
}

// The pool holds KV and states in the same pages: one quantity.
TEST(VllmTruth, EveryVectorIsInTheTableOfErrors) {
  std::vector<testing::AccuracyRow> table;
  for (const auto& row : rows()) {
    const auto model = describe(row.at("model"));
    const auto plan = plan_of(model, row.at("kv_cache_dtype"), number(row, "batched_tokens"),
                              number(row, "speculative_tokens"), row.at("hybrid_manager") == "1", number(row, "ranks"));
    ASSERT_TRUE(plan) << text_of(row);
    std::string configuration;
    for (const auto* column :
         {"length", "kv_cache_dtype", "batched_tokens", "speculative_tokens", "hybrid_manager", "ranks"}) {
      configuration += fmt::format("{}{}={}", configuration.empty() ? "" : " ", column, row.at(column));
    }
    table.push_back({.engine = "vLLM 017e9f44",
                     .model = row.at("model"),
                     .architecture = model.architecture,
                     .kind = testing::kind_of(model),
                     .configuration = configuration,
                     .quantity = "kv",
                     .measured_bytes = number(row, "request_bytes"),
                     .rounding_bytes = 0,
                     .ours_bytes = vllm::request_bytes(*plan, number(row, "length")).count(),
                     .remark = {},
                     .source = "vllm_vectors.csv:" + row.at("line")});
  }
  testing::write_accuracy_rows("vllm", table);
}

// What `dgxmm fit` says: KV and state together are the pool; one sequence is one request.
TEST(VllmTruth, E3_E4_TheEstimateOfOneSequenceIsOneRequest) {
  for (const auto& row : rows()) {
    if (row.at("hybrid_manager") != "1") continue;
    SCOPED_TRACE(text_of(row));
    auto model = describe(row.at("model"));
    model.weights.nextn_tensors = mib(1);
    const auto drafted = number(row, "speculative_tokens");
    const auto result = estimate_vllm(model,
                                      {.max_model_len = number(row, "length"),
                                       .max_num_seqs = 1,
                                       .max_num_batched_tokens = number(row, "batched_tokens"),
                                       .kv_cache_dtype = row.at("kv_cache_dtype"),
                                       .tensor_parallel_size = number(row, "ranks"),
                                       .spec_method = drafted > 0 ? "mtp" : "",
                                       .num_speculative_tokens = drafted},
                                      {});
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_EQ(result->part("kv") + result->part("state"), Bytes{number(row, "request_bytes")});
    const bool keeps_state = row.at("groups").find("state") != std::string::npos;
    EXPECT_EQ(result->part("state") > Bytes{}, keeps_state);
  }
}

// Qwen3.5-27B: 42 blocks of attention and two pages in each of three groups of states, of 51,380,224 bytes each.
TEST(VllmTruth, E4_StatesAreCountedApart) {
  const auto result = estimate_vllm(describe("Qwen3.5-27B"),
                                    {.max_model_len = 32768, .max_num_seqs = 1, .max_num_batched_tokens = 8192}, {});
  ASSERT_TRUE(result);
  EXPECT_EQ(result->part("kv"), Bytes{51'380'224} * 42);
  EXPECT_EQ(result->part("state"), Bytes{51'380'224} * 6);
}

// One more layer with a window: a window group holds 22 layers already.
TEST(VllmTruth, E3_TheLayerOfDeepSeekV4ThatDraftsKeepsAWindow) {
  const auto model = describe("DeepSeek-V4-Flash");
  const auto alone = plan_of(model, "auto", 8192);
  const auto drafting = plan_of(model, "auto", 8192, 1);
  ASSERT_TRUE(drafting) << drafting.error().message;
  EXPECT_EQ(text_of(*drafting), "full 62@256; window 22+22@64; window 42@4; window 20@8");
  EXPECT_EQ(drafting->bytes_per_block, alone->bytes_per_block);
}

// F1: what one formula for all architectures got wrong by up to eight times. Here with vLLM's tokens in flight.
TEST(VllmTruth, F1_LatentsAndWindowsAreNotFullAttention) {
  const auto bytes = [](const std::string& name, std::int64_t length) {
    const auto plan = plan_of(describe(name), "auto", 8192);
    return vllm::request_bytes(*plan, length);
  };
  EXPECT_EQ(bytes("DeepSeek-V3", 163840), Bytes{std::int64_t{61} * 576 * 2 * 163840});   // 10.72 GiB
  EXPECT_EQ(bytes("Kimi-K2.5", 262144), Bytes{std::int64_t{61} * 576 * 2 * 262144});     // 17.16 GiB
  EXPECT_EQ(bytes("Qwen3-0.6B", 40960), Bytes{std::int64_t{28} * 8 * 256 * 2 * 40960});  // 4.38 GiB
}

TEST(VllmTruth, E9_TheLongestContextThatAPoolHolds) {
  const auto longest = [](const std::string& name, Bytes pool, std::int64_t most) {
    return vllm::longest_context(*plan_of(describe(name), "auto", 8192), pool, most);
  };
  // Reports of MiniMax-M2.7 on two ranks with 22.5 GiB, and of Qwen3-Coder-30B-A3B with 3.18 GiB (F20).
  EXPECT_EQ(longest("MiniMax-M2.7", 2 * gib_from_decimal(22.5), 196608), 190256);
  EXPECT_EQ(longest("Qwen3-30B-A3B", gib_from_decimal(3.18), 262144), 34720);
  // DeepSeek-V4-Flash with 5.44 GiB: about 13,528, as the printed budget is rounded.
  EXPECT_NEAR(static_cast<double>(longest("DeepSeek-V4-Flash", gib_from_decimal(5.44), 30000)), 13528, 40);
  EXPECT_EQ(longest("Qwen3.5-27B", Bytes{51'380'224} * 6, 262144), 0) << "less than the states of one sequence";
}

TEST(VllmTruth, E9_APoolOfAHybridBelowOneRequestSaysWhatWouldWork) {
  const auto model = describe("gpt-oss-120b");
  engine::VllmConfig config{
      .max_model_len = 131072, .max_num_seqs = 1, .max_num_batched_tokens = 8192, .kv_tokens = 65536};
  const auto refused = estimate_vllm(model, config, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, "bad_configuration");
  EXPECT_THAT(refused.error().message, HasSubstr("takes 5.1 GiB"));
  EXPECT_EQ(refused.error().hint, "set kv_tokens to at least 131072, or max_model_len to at most 65536");
  config.max_model_len = 65536;
  EXPECT_TRUE(estimate_vllm(model, config, {}));
}

// F13: a model that declares 1,024,000 tokens takes 156 GiB for one of that length; what is asked for counts.
TEST(VllmTruth, F13_ADeclaredContextIsNotWhatAShorterRequestTakes) {
  auto model = describe("Mistral-Nemo-12B");
  const auto kv = [&](std::int64_t context) {
    const auto result =
        estimate_vllm(model, {.max_model_len = context, .max_num_seqs = 1, .max_num_batched_tokens = 8192}, {});
    EXPECT_TRUE(result);
    return result->part("kv");
  };
  EXPECT_EQ(kv(1'024'000), gib_from_decimal(156.25));
  EXPECT_EQ(kv(32'768), gib(5));
}

// F11: what cannot serve one request is refused before it is started, with what would work. F20: 24 GiB are needed, and
// 3.18 GiB hold 34,736 tokens.
TEST(VllmTruth, F11_F20_APoolThatIsTooSmallIsRefusedBeforeTheStart) {
  const auto model = describe("Qwen3-30B-A3B");
  const auto refused = estimate_vllm(
      model, {.max_model_len = 262144, .max_num_seqs = 1, .max_num_batched_tokens = 8192, .kv_tokens = 34736}, {});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("34736 tokens (3.2 GiB) cannot hold one request of max_model_len "
                                                 "262144, which takes 24.0 GiB"));
  EXPECT_EQ(refused.error().hint, "set kv_tokens to at least 262144, or max_model_len to at most 34736");
}

// F25: a small pool does not make a server small: what it needs beside the pool is counted too.
TEST(VllmTruth, F25_WhatIsNeededBesideThePoolIsCounted) {
  const auto result =
      estimate_vllm(describe("Qwen3-0.6B"),
                    {.max_model_len = 1024, .max_num_seqs = 1, .max_num_batched_tokens = 8192, .kv_tokens = 1024}, {});
  ASSERT_TRUE(result);
  EXPECT_LT(result->part("kv"), mib(128));
  EXPECT_GE(result->total - result->part("weights") - result->part("kv"), gib(5))
      << "3 GiB on the host, graphs, buffers";
}

// DeepSeek-V4-Flash at 32,768 tokens, printed as 1.78, 3.41 and 6.67 GiB.
TEST(VllmTruth, E3_StatesOfCompressorsScaleWithTheBatch) {
  const auto model = describe("DeepSeek-V4-Flash");
  const std::pair<std::int64_t, double> printed[] = {{2048, 1.78}, {4096, 3.41}, {8192, 6.67}};
  for (const auto& [batched, gib] : printed) {
    EXPECT_NEAR(vllm::request_bytes(*plan_of(model, "auto", batched), 32768).gib(), gib, 0.005) << batched;
  }
}

TEST(VllmTruth, E3_ACacheTypeThatTheAttentionDoesNotHaveIsRefused) {
  for (const auto* type : {"turboquant_k8v4", "turboquant_3bit_nc"}) {
    EXPECT_EQ(plan_of(describe("DeepSeek-V3"), type, 8192).error().code, "bad_configuration");
  }
  for (const auto* type : {"bfloat16", "int8_per_token_head", "nvfp4"}) {
    EXPECT_EQ(plan_of(describe("DeepSeek-V4-Flash"), type, 8192).error().code, "bad_configuration");
  }
  EXPECT_EQ(plan_of(describe("Llama-3.1-8B"), "fp8_ds_mla", 8192).error().code, "bad_configuration");
  EXPECT_TRUE(plan_of(describe("DeepSeek-V3.2"), "fp8_ds_mla", 8192));
}

TEST(VllmTruth, E8_TheCacheTypeIsNamedWithItsReason) {
  const auto detail = [](const std::string& name, const std::string& type) {
    const auto result = estimate_vllm(
        describe(name),
        {.max_model_len = 4096, .max_num_seqs = 1, .max_num_batched_tokens = 8192, .kv_cache_dtype = type}, {});
    return result ? result->parts[1].detail : result.error().message;
  };
  EXPECT_THAT(detail("Llama-3.1-8B", "auto"), HasSubstr("32 layers x 8 KV heads x 128, 16 bit (auto), pool of"));
  EXPECT_THAT(detail("Llama-3.1-8B", "fp8"), HasSubstr(", fp8, pool of"));
  EXPECT_THAT(detail("Gemma-4-31B", "auto"), HasSubstr("fp8_e4m3 (asked for by the checkpoint)"));
  EXPECT_THAT(detail("Gemma-4-31B", "bfloat16"), HasSubstr(", bfloat16, "));
  EXPECT_THAT(detail("DeepSeek-V3.2", "auto"), HasSubstr("fp8_ds_mla (auto)"));
  EXPECT_THAT(detail("DeepSeek-V4-Flash", "fp8"), HasSubstr("fp8_ds_mla (fp8)"));
  EXPECT_THAT(detail("Gemma-3-27b", "auto"),
              HasSubstr("4 x 9 window 1024 of 16 tokens, 2 x 8 window 1024 of 16 tokens, 10 full of 16 tokens"));
}

// The worked figures: DeepSeek-V3 decompresses 65,536 tokens at once.
TEST(VllmTruth, E5_LatentsAreDecompressedInLargePieces) {
  const auto result = estimate_vllm(describe("DeepSeek-V3"),
                                    {.max_model_len = 32768, .max_num_seqs = 16, .max_num_batched_tokens = 8192}, {});
  ASSERT_TRUE(result);
  const Bytes scratch{std::int64_t{65536} * 128 * 256 * 2};
  const Bytes layer{std::int64_t{8192} * 2 * (3 * 7168 + 128 * 2 * (192 + 128))};
  EXPECT_THAT(result->parts[3].detail, HasSubstr("8192 batched tokens: " + format_bytes(scratch + layer)));
}

TEST(VllmTruth, E5_SparseAttentionHoldsIndexKeysOfLongInputs) {
  const auto activations = [](const std::string& name, std::int64_t context) {
    const auto result = estimate_vllm(
        describe(name), {.max_model_len = context, .max_num_seqs = 1, .max_num_batched_tokens = 8192}, {});
    EXPECT_TRUE(result);
    return result->part("activations");
  };
  EXPECT_GT(activations("GLM-5.2", 1048576), Bytes{std::int64_t{40} * 1048576 * 132} + mib(512));
}

TEST(VllmTruth, E7_ClassDefaultsOfGemma3AreRecorded) {
  EXPECT_THAT(describe("Gemma-3-4b").missing_fields,
              ::testing::UnorderedElementsAre("vocab_size", "max_position_embeddings", "num_attention_heads",
                                              "num_key_value_heads", "head_dim"));
  EXPECT_TRUE(describe("Gemma-3-1b").missing_fields.empty());
}

}  // namespace
}  // namespace dgxmm::memory
