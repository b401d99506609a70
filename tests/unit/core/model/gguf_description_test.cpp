#include "core/model/gguf_description.h"

#include "tools/byte_reader.h"
#include "tools/gguf_writer.h"

#include <gtest/gtest.h>

#include <functional>

namespace dgxmm::model {
namespace {

using testing::DenseGguf;
using testing::GgmlType;
using testing::GgufWriter;

GgufPart part_of(const GgufWriter& w, std::string path = "dir/test.gguf") {
  const auto header = w.header();
  auto parsed = parse_gguf(path, w.file_size(), testing::reader_of(header));
  EXPECT_TRUE(parsed) << parsed.error().message;
  return {.path = std::move(path), .size = w.file_size(), .header = std::move(*parsed)};
}

Result<ModelDescription> describe(const GgufWriter& w) {
  const auto part = part_of(w);
  return describe_gguf("dir/test.gguf", "test", {&part, 1});
}
std::string code(const Result<ModelDescription>& result) { return result ? "ok" : result.error().code; }
std::string message(const Result<ModelDescription>& result) { return result ? "ok" : result.error().message; }

/// A small llama whose keys a test writes itself.
GgufWriter small(const std::function<void(GgufWriter&)>& keys) {
  GgufWriter w;
  w.key_text("general.architecture", "llama").key_texts("tokenizer.ggml.tokens", std::vector<std::string>(100, "t"));
  keys(w);
  w.tensor("token_embd.weight", GgmlType::f16, {64, 100});
  return w;
}
void shape_keys(GgufWriter& w, std::string_view without = {}) {
  const std::pair<std::string_view, std::uint32_t> keys[] = {
      {"llama.block_count", 3},           {"llama.context_length", 2048},    {"llama.embedding_length", 64},
      {"llama.feed_forward_length", 128}, {"llama.attention.head_count", 8}, {"llama.attention.head_count_kv", 2}};
  for (const auto& [key, value] : keys) {
    if (key != without) w.key_u32(key, value);
  }
}

TEST(GgufDescription, ADenseModelIsDescribedLayerByLayer) {
  const DenseGguf shape{.n_layer = 32,
                        .n_embd = 4096,
                        .n_head = 32,
                        .n_head_kv = 8,
                        .n_ff = 14336,
                        .n_vocab = 32000,
                        .n_ctx = 131072,
                        .name = "Big Llama"};
  const auto w = testing::dense_gguf(shape);
  const auto model = describe(w);
  ASSERT_TRUE(model) << message(model);
  EXPECT_EQ(model->format, Format::gguf);
  EXPECT_EQ(model->name, "test");
  EXPECT_EQ(model->architecture, "llama");
  EXPECT_EQ(model->quantization, "Q4_0");
  EXPECT_EQ(model->weight_dtype, "Q4_0");
  EXPECT_EQ(model->embedding_length, 4096);
  EXPECT_EQ(model->vocabulary, 32000);
  EXPECT_EQ(model->training_context, 131072);
  EXPECT_FALSE(model->experts);
  EXPECT_TRUE(model->missing_fields.empty());
  const Layer layer{.attention = Attention{.n_head = 32, .n_head_kv = 8, .key_length = 128, .value_length = 128},
                    .feed_forward_length = 14336};
  EXPECT_EQ(model->layers, std::vector<Layer>(32, layer));
}

TEST(GgufDescription, WeightsAreCountedByTheirPlace) {
  const auto w = testing::dense_gguf();
  const auto model = describe(w);
  ASSERT_TRUE(model);
  const Bytes embedding{256 * 1024 / 32 * 18};
  const Bytes per_layer{(2 * 256 * 256 + 2 * 256 * 64 + 3 * 256 * 512) / 32 * 18 + 2 * 256 * 4};
  EXPECT_EQ(model->weights.tensors, embedding * 2 + per_layer * 4 + Bytes{256 * 4});
  EXPECT_EQ(model->weights.input_tensors, embedding);
  EXPECT_EQ(model->weights.token_embedding, embedding);
  EXPECT_FALSE(model->weights.tied_embeddings);
  EXPECT_EQ(model->weights.files, Bytes{static_cast<std::int64_t>(w.file_size())});
  ASSERT_EQ(model->files.size(), 1U);
  EXPECT_EQ(model->files[0].path, "dir/test.gguf");

  const auto tied = describe(testing::dense_gguf({.tied = true}));
  ASSERT_TRUE(tied);
  EXPECT_TRUE(tied->weights.tied_embeddings);
}

TEST(GgufDescription, HeadSizesDefaultToTheEnginesOwnRuleWithoutLoweringConfidence) {
  const auto model = describe(small([](auto& w) { shape_keys(w, "llama.attention.head_count_kv"); }));
  ASSERT_TRUE(model) << message(model);
  EXPECT_EQ(model->layers[0].attention->n_head_kv, 8);
  EXPECT_EQ(model->layers[0].attention->key_length, 8);
  EXPECT_TRUE(model->missing_fields.empty());
}

TEST(GgufDescription, HeadSizesOfTheFileWinOverTheQuotient) {
  const auto model = describe(small([](auto& w) {
    shape_keys(w);
    w.key_u32("llama.attention.key_length", 128).key_u32("llama.attention.value_length", 96);
  }));
  ASSERT_TRUE(model);
  EXPECT_EQ(model->layers[2].attention->key_length, 128);
  EXPECT_EQ(model->layers[2].attention->value_length, 96);
}

TEST(GgufDescription, I12_KvHeadsMayDifferFromLayerToLayer) {
  const auto model = describe(small([](auto& w) {
    shape_keys(w, "llama.attention.head_count_kv");
    w.key_u32s("llama.attention.head_count_kv", {8, 4, 2});
  }));
  ASSERT_TRUE(model) << message(model);
  EXPECT_EQ(model->layers[0].attention->n_head_kv, 8);
  EXPECT_EQ(model->layers[1].attention->n_head_kv, 4);
  EXPECT_EQ(model->layers[2].attention->n_head_kv, 2);
}

TEST(GgufDescription, ALayerWithoutKvHeadsIsNotPlainAttention) {
  const auto model = describe(small([](auto& w) {
    shape_keys(w, "llama.attention.head_count_kv");
    w.key_u32s("llama.attention.head_count_kv", {8, 0, 2});
  }));
  EXPECT_EQ(code(model), "model_not_supported");
  EXPECT_NE(message(model).find("layer 1"), std::string::npos) << message(model);
}

TEST(GgufDescription, AnArrayOfAnotherLengthThanTheLayersNamesBoth) {
  const auto model = describe(small([](auto& w) {
    shape_keys(w, "llama.attention.head_count_kv");
    w.key_u32s("llama.attention.head_count_kv", {8, 8});
  }));
  EXPECT_EQ(code(model), "bad_model_file");
  EXPECT_NE(message(model).find("llama.attention.head_count_kv has 2 elements, but llama.block_count is 3"),
            std::string::npos)
      << message(model);
}

TEST(GgufDescription, AKeyThatTheEngineNeedsIsNamedWhenItIsMissing) {
  for (const auto* key : {"llama.block_count", "llama.context_length", "llama.embedding_length",
                          "llama.feed_forward_length", "llama.attention.head_count"}) {
    const auto model = describe(small([key](auto& w) { shape_keys(w, key); }));
    EXPECT_EQ(code(model), "bad_model_file") << key;
    EXPECT_NE(message(model).find(key), std::string::npos) << message(model);
    EXPECT_NE(message(model).find("dir/test.gguf"), std::string::npos);
  }
}

TEST(GgufDescription, ValuesThatCannotBeSizesAreRefused) {
  const std::vector<std::function<void(GgufWriter&)>> writes{
      [](auto& w) { shape_keys(w, "llama.block_count"), w.key_u32("llama.block_count", 0); },
      [](auto& w) { shape_keys(w, "llama.block_count"), w.key_u32("llama.block_count", 513); },
      [](auto& w) { shape_keys(w, "llama.block_count"), w.key_text("llama.block_count", "3"); },
      [](auto& w) { shape_keys(w, "llama.block_count"), w.key_f32("llama.block_count", 3.0F); },
      [](auto& w) { shape_keys(w, "llama.block_count"), w.key_i32("llama.block_count", -3); },
      [](auto& w) { shape_keys(w, "llama.block_count"), w.key_u64("llama.block_count", UINT64_MAX); },
      [](auto& w) {
        shape_keys(w, "llama.context_length"), w.key_u64("llama.context_length", std::uint64_t{kMostContext} + 1);
      },
      [](auto& w) { shape_keys(w, "llama.embedding_length"), w.key_u32("llama.embedding_length", (1U << 20) + 1); },
      [](auto& w) { shape_keys(w, "llama.embedding_length"), w.key_u32("llama.embedding_length", 4); },
      [](auto& w) { shape_keys(w, "llama.attention.head_count"), w.key_u32("llama.attention.head_count", 65'537); },
      [](auto& w) { shape_keys(w, "llama.attention.head_count_kv"), w.key_u32("llama.attention.head_count_kv", 3); },
      [](auto& w) { shape_keys(w), w.key_u32("llama.attention.key_length", 0); },
      [](auto& w) { shape_keys(w), w.key_u32("llama.expert_count", 1025); },
      [](auto& w) { shape_keys(w), w.key_u32("llama.expert_count", 8); },
      [](auto& w) { shape_keys(w), w.key_u32("llama.expert_count", 8).key_u32("llama.expert_used_count", 9); },
      [](auto& w) {
        shape_keys(w, "llama.attention.head_count_kv"), w.key_i32s("llama.attention.head_count_kv", {2, -2, 2});
      },
      [](auto& w) {
        shape_keys(w, "llama.attention.head_count_kv"),
            w.key_texts("llama.attention.head_count_kv", std::vector<std::string>(3, "2"));
      },
  };
  for (std::size_t i = 0; i < writes.size(); ++i) EXPECT_EQ(code(describe(small(writes[i]))), "bad_model_file") << i;
}

TEST(GgufDescription, ExpertsAreDescribedWithTheEnginesDefaults) {
  const auto mixtral = describe(small([](auto& w) {
    shape_keys(w);
    w.key_u32("llama.expert_count", 8).key_u32("llama.expert_used_count", 2);
  }));
  ASSERT_TRUE(mixtral) << message(mixtral);
  EXPECT_EQ(mixtral->experts, (Experts{.count = 8, .used_count = 2, .feed_forward_length = 128}));

  const auto shared = describe(small([](auto& w) {
    shape_keys(w, "llama.feed_forward_length");
    w.key_u32("llama.expert_count", 64).key_u32("llama.expert_used_count", 6).key_u32("llama.expert_shared_count", 2);
    w.key_u32("llama.expert_feed_forward_length", 32);
  }));
  ASSERT_TRUE(shared) << message(shared);
  EXPECT_EQ(shared->experts,
            (Experts{.count = 64, .used_count = 6, .feed_forward_length = 32, .shared_feed_forward_length = 64}));
  EXPECT_EQ(shared->layers[0].feed_forward_length, 0);
}

TEST(GgufDescription, TheTokenizerWinsOverVocabSizeAndOneOfThemIsNeeded) {
  const auto both = describe(small([](auto& w) {
    shape_keys(w);
    w.key_u32("llama.vocab_size", 128);
  }));
  EXPECT_EQ(both->vocabulary, 100);

  GgufWriter only_size;
  only_size.key_text("general.architecture", "llama").key_u32("llama.vocab_size", 128);
  shape_keys(only_size);
  only_size.tensor("token_embd.weight", GgmlType::f16, {64, 128});
  EXPECT_EQ(describe(only_size)->vocabulary, 128);

  GgufWriter neither;
  neither.key_text("general.architecture", "llama");
  shape_keys(neither);
  neither.tensor("token_embd.weight", GgmlType::f16, {64, 128});
  EXPECT_EQ(code(describe(neither)), "bad_model_file");
  EXPECT_NE(message(describe(neither)).find("llama.vocab_size"), std::string::npos);
}

TEST(GgufDescription, E9_WhatIsKnownNotToBeCoveredIsRefusedAndNeverDescribedAsDense) {
  for (const auto* arch : {"t5", "t5encoder"}) {
    const auto model = describe(testing::dense_gguf({.arch = arch}));
    EXPECT_EQ(code(model), "model_not_supported") << arch;
    EXPECT_NE(message(model).find(std::string{"architecture '"} + arch + "' is not supported yet"), std::string::npos);
    EXPECT_FALSE(model.error().hint.empty());
  }
}

TEST(GgufDescription, E9_AKnownArchitectureWithoutTheKeysOfItsLayersIsNotDescribedAsDense) {
  for (const auto* arch : {"mamba", "mamba2", "jamba", "falcon-h1", "rwkv7", "qwen3next", "deepseek4", "deepseek32",
                           "kimi-linear", "minimax-m3"}) {
    const auto model = describe(testing::dense_gguf({.arch = arch}));
    // Jamba, Kimi and LFM2 say by missing KV heads which layers are recurrent: without, there are none.
    const bool by_heads = std::string_view{arch} == "jamba" || std::string_view{arch} == "kimi-linear";
    EXPECT_EQ(code(model), by_heads ? "ok" : "bad_model_file") << arch << message(model);
  }
}

TEST(GgufDescription, E8_AnUnknownArchitectureThatLooksPlainIsDescribedAndSaysSo) {
  const auto model = describe(testing::dense_gguf({.arch = "some-new-one"}));
  ASSERT_TRUE(model) << message(model);
  ASSERT_EQ(model->missing_fields.size(), 1U);
  EXPECT_EQ(model->missing_fields.front(), "what layers 'some-new-one' has");
  EXPECT_EQ(model->layers[0].attention->kind, AttentionKind::full);
}

TEST(GgufDescription, E9_AnUnknownArchitectureWithAKeyThatHintsAtOtherLayersIsRefused) {
  for (const auto* key : {"attention.sliding_window", "attention.kv_lora_rank", "ssm.state_size", "wkv.head_size",
                          "nextn_predict_layers", "attention.causal", "attention.indexer.key_length"}) {
    auto w = testing::dense_gguf({.arch = "some-new-one"});
    w.key_u32(std::string{"some-new-one."} + key, 8);
    EXPECT_EQ(code(describe(w)), "model_not_supported") << key;
    EXPECT_NE(message(describe(w)).find(key), std::string::npos) << message(describe(w));
  }
}

TEST(GgufDescription, PlainArchitecturesAreDescribed) {
  for (const auto* arch : {"llama",  "mistral3", "qwen2",     "qwen2moe",   "qwen3",      "qwen3moe",     "phi2",
                           "phi3",   "phimoe",   "granite",   "granitemoe", "starcoder2", "gpt2",         "gptneox",
                           "falcon", "stablelm", "internlm2", "olmo",       "olmoe",      "command-r",    "glm4",
                           "exaone", "smollm3",  "nemotron",  "seed_oss",   "ernie4_5",   "hunyuan-dense"}) {
    const auto model = describe(testing::dense_gguf({.arch = arch}));
    EXPECT_TRUE(model) << message(model);
  }
}

TEST(GgufDescription, APlainArchitectureWithKeysOfAnotherLayoutIsNotSupported) {
  for (const auto* key : {"llama.attention.kv_lora_rank", "llama.attention.key_length_mla", "llama.ssm.state_size",
                          "llama.attention.shared_kv_layers", "llama.full_attention_interval"}) {
    const auto model = describe(small([key](auto& w) {
      shape_keys(w);
      w.key_u32(key, 1);
    }));
    EXPECT_EQ(code(model), "model_not_supported") << key;
  }
}

TEST(GgufDescription, AWindowThatLlamaCppIgnoresChangesNothing) {
  const auto model = describe(small([](auto& w) {
    shape_keys(w);
    w.key_u32("llama.attention.sliding_window", 512);
  }));
  ASSERT_TRUE(model);
  EXPECT_EQ(model->layers[0].attention->kind, AttentionKind::full);
}

TEST(GgufDescription, CompanionsOfAModelAreNamedForWhatTheyAre) {
  const std::pair<const char*, const char*> kinds[] = {
      {"mmproj", "projector"}, {"adapter", "adapter"}, {"imatrix", "importance matrix"}};
  for (const auto& [type, kind] : kinds) {
    GgufWriter w;
    w.key_text("general.type", type).tensor("a", GgmlType::f32, {8});
    EXPECT_EQ(code(describe(w)), "model_not_supported");
    EXPECT_NE(message(describe(w)).find(kind), std::string::npos) << message(describe(w));
  }
  GgufWriter clip;
  clip.key_text("general.architecture", "clip").tensor("a", GgmlType::f32, {8});
  EXPECT_NE(message(describe(clip)).find("projector"), std::string::npos);
  EXPECT_EQ(companion_kind(part_of(testing::dense_gguf()).header), std::nullopt);
}

TEST(GgufDescription, AVocabularyWithoutTensorsIsNoModel) {
  GgufWriter w;
  testing::add_dense_keys(w, {});
  testing::add_tokenizer(w, 300);
  EXPECT_EQ(code(describe(w)), "bad_model_file");
  EXPECT_NE(message(describe(w)).find("only a vocabulary"), std::string::npos);
}

TEST(GgufDescription, WithoutAnArchitectureNothingIsGuessed) {
  GgufWriter w;
  w.key_u32("llama.block_count", 2).tensor("a", GgmlType::f32, {8});
  EXPECT_EQ(code(describe(w)), "bad_model_file");
  EXPECT_NE(message(describe(w)).find("general.architecture"), std::string::npos);
}

TEST(GgufDescription, TheLabelComesFromTheFileTypeAndElseFromMostBytes) {
  EXPECT_EQ(file_type_label(15), "Q4_K_M");
  EXPECT_EQ(file_type_label(32), "BF16");
  EXPECT_EQ(file_type_label(38), "MXFP4");
  EXPECT_EQ(file_type_label(41), "Q2_0");
  EXPECT_EQ(file_type_label(1024 + 7), "Q8_0") << "a guessed one";
  for (const std::int64_t none : {4, 5, 6, 33, 34, 35, 42, -1, 1023, 5000})
    EXPECT_EQ(file_type_label(none), std::nullopt) << none;
  const auto model = describe(testing::dense_gguf({.type = GgmlType::q8_0, .file_type = 999}));
  ASSERT_TRUE(model);
  EXPECT_EQ(model->quantization, "Q8_0");
}

TEST(GgufDescription, QuantizationsOfOneModelShareTheirBaseModelAndNotTheirFingerprint) {
  const auto q4 = describe(testing::dense_gguf({.name = "Test Model Q4_0"}));
  const auto q8 = describe(testing::dense_gguf({.type = GgmlType::q8_0, .file_type = 7, .name = "Test Model"}));
  ASSERT_TRUE(q4 && q8);
  EXPECT_EQ(q4->base_model, q8->base_model);
  EXPECT_FALSE(q4->base_model.empty());
  EXPECT_NE(q4->fingerprint, q8->fingerprint);
  EXPECT_NE(describe(testing::dense_gguf({.name = "Test Model Instruct"}))->base_model, q4->base_model);
  EXPECT_NE(describe(testing::dense_gguf({.n_ff = 1024, .name = "Test Model"}))->base_model, q4->base_model);
}

TEST(GgufDescription, TheFinetuneOfTheMetadataSetsModelsApart) {
  const auto with = [](std::string_view finetune) {
    return describe(small([&](auto& w) {
      shape_keys(w);
      w.key_text("general.name", "whatever").key_text("general.basename", "Base").key_text("general.size_label", "8B");
      w.key_text("general.finetune", finetune);
    }));
  };
  EXPECT_NE(with("Instruct")->base_model, with("Coder")->base_model);
  EXPECT_NE(with("Instruct")->base_model.find("base-8b-instruct"), std::string::npos);
}

/// A model in parts: the keys are in the first.
std::vector<GgufPart> split(std::uint64_t claimed_tensors = 3, std::uint16_t second_number = 1) {
  GgufWriter first;
  first.key_text("general.architecture", "llama")
      .key_texts("tokenizer.ggml.tokens", std::vector<std::string>(100, "t"));
  shape_keys(first);
  first.key_u16("split.no", 0)
      .key_u16("split.count", 2)
      .key_i32("split.tensors.count", static_cast<std::int32_t>(claimed_tensors));
  first.tensor("token_embd.weight", GgmlType::f16, {64, 100});
  GgufWriter second;
  second.key_u16("split.no", second_number).key_u16("split.count", 2);
  second.tensor("x.weight", GgmlType::f16, {64, 64}).tensor("output.weight", GgmlType::f16, {64, 100});
  return {part_of(first, "m-00001-of-00002.gguf"), part_of(second, "m-00002-of-00002.gguf")};
}

TEST(GgufDescription, G9_AllPartsOfASplitAreCounted) {
  const auto parts = split();
  const auto model = describe_gguf("m-00002-of-00002.gguf", "m", parts);
  ASSERT_TRUE(model) << message(model);
  EXPECT_EQ(model->weights.files, Bytes{static_cast<std::int64_t>(parts[0].size + parts[1].size)});
  EXPECT_EQ(model->weights.tensors, Bytes{2 * (64 * 100 * 2) + 64 * 64 * 2});
  EXPECT_FALSE(model->weights.tied_embeddings) << "output.weight is in the second part";
  EXPECT_EQ(model->name, "m");
  ASSERT_EQ(model->files.size(), 2U);
  EXPECT_EQ(model->files[0].path, "m-00001-of-00002.gguf");
}

TEST(GgufDescription, G12_PartsThatDoNotBelongTogetherAreRefused) {
  EXPECT_EQ(code(describe_gguf("m", "m", split(4))), "model_incomplete");
  EXPECT_EQ(code(describe_gguf("m", "m", split(3, 2))), "bad_model_file");
  const auto parts = split();
  const auto alone = describe_gguf("m", "m", std::span{parts}.first(1));
  EXPECT_EQ(code(alone), "model_incomplete");
  EXPECT_NE(message(alone).find("one of 2 files"), std::string::npos) << message(alone);
}

TEST(GgufDescription, E9_KeysThatSayAnotherThingThanTheTensorsAreRefused) {
  const auto told = [](const std::vector<std::string>& layers, std::uint64_t rows) {
    GgufWriter w;
    w.key_text("general.architecture", "llama").key_texts("tokenizer.ggml.tokens", std::vector<std::string>(100, "t"));
    shape_keys(w);  // of 3 layers
    w.tensor("token_embd.weight", GgmlType::f16, {64, rows});
    for (const auto& layer : layers) w.tensor("blk." + layer + ".attn_q.weight", GgmlType::f16, {64, 64});
    const auto part = part_of(w, "m.gguf");
    return message(describe_gguf("m.gguf", "m", {&part, 1}));
  };
  EXPECT_EQ(told({"0", "1", "2"}, 100), "ok");
  EXPECT_EQ(told({"0", "1"}, 100), "m.gguf: block_count says 3 layers, but there are no tensors for layer 2");
  EXPECT_EQ(told({"0", "1", "2", "3"}, 100), "m.gguf: block_count says 3 layers, but there are tensors for layer 3");
  EXPECT_EQ(told({"0", "1", "2"}, 96), "m.gguf: token_embd.weight has 96 rows, but the vocabulary has 100 tokens");
}

TEST(GgufDescription, E9_KvHeadsThatTheProjectionsDoNotMakeAreReported) {
  const auto told = [](std::uint64_t key_rows, std::uint64_t value_rows) {
    return describe(small([=](auto& w) {
      shape_keys(w);  // 3 layers of 2 KV heads of 8
      for (const std::string layer : {"blk.0", "blk.1", "blk.2"}) {
        w.tensor(layer + ".attn_k.weight", GgmlType::f16, {64, key_rows});
        w.tensor(layer + ".attn_v.weight", GgmlType::f16, {64, value_rows});
        w.tensor(layer + ".indexer.attn_k.weight", GgmlType::f16, {64, 128});
      }
    }));
  };
  EXPECT_TRUE(told(16, 16)->contradictions.empty());
  EXPECT_EQ(told(32, 16)->contradictions,
            std::vector<std::string>{"blk.0.attn_k.weight has 32 rows, but the keys say 2 KV heads of 8"});
  EXPECT_EQ(told(16, 8)->contradictions,
            std::vector<std::string>{"blk.0.attn_v.weight has 8 rows, but the keys say 2 KV heads of 8"});
}

TEST(GgufDescription, ATypeThatLlamaCppDoesNotKnowIsNamed) {
  auto w = small([](auto& keys) { shape_keys(keys); });
  EXPECT_TRUE(describe(w)->notes.empty());
  constexpr std::uint32_t kLater = 99;
  w.tensor_raw("new.weight", kLater, {64, 64}, 12'800, 4096);
  const auto model = describe(w);
  ASSERT_TRUE(model) << message(model);
  EXPECT_EQ(model->notes, std::vector<std::string>{"new.weight has the type 99, which llama.cpp b10587 does not know: "
                                                   "a newer one is needed"});
}

TEST(GgufDescription, E9_EveryRefusalHasAWayOut) {
  for (const auto* key : {"llama.block_count", "llama.attention.head_count", "llama.embedding_length"}) {
    const auto absent = describe(small([key](auto& w) { shape_keys(w, key); }));
    ASSERT_FALSE(absent) << key;
    EXPECT_FALSE(absent.error().hint.empty()) << key;
    const auto text = describe(small([key](auto& w) { shape_keys(w, key), w.key_text(key, "3"); }));
    ASSERT_FALSE(text) << key;
    EXPECT_FALSE(text.error().hint.empty()) << key;
  }
}

TEST(GgufDescription, G12_AForeignPartIsNamed) {
  const auto with_second = [](const std::function<void(GgufWriter&)>& write) {
    auto parts = split();
    GgufWriter second;
    second.key_u16("split.no", 1);
    write(second);
    parts[1] = part_of(second, "m-00002-of-00002.gguf");
    return message(describe_gguf("m", "m", parts));
  };
  const auto add_tensors = [](GgufWriter& w) {
    w.tensor("x.weight", GgmlType::f16, {64, 64}).tensor("output.weight", GgmlType::f16, {64, 100});
  };
  EXPECT_EQ(with_second(add_tensors), "ok") << "only split.no is needed";
  EXPECT_EQ(with_second([&](auto& w) {
              w.key_u16("split.count", 5);
              add_tensors(w);
            }),
            "m-00002-of-00002.gguf: its name says part 2 of 2, its split.count says 5");
  EXPECT_EQ(with_second([&](auto& w) {
              w.key_text("general.architecture", "qwen3");
              add_tensors(w);
            }),
            "m-00002-of-00002.gguf: its architecture is 'qwen3', and that of m-00001-of-00002.gguf is 'llama'");
  EXPECT_EQ(with_second([](auto& w) {
              w.tensor("token_embd.weight", GgmlType::f16, {64, 64}).tensor("output.weight", GgmlType::f16, {64, 100});
            }),
            "m-00002-of-00002.gguf: the tensor token_embd.weight is in an earlier part too");
}

TEST(Projector, IsDescribedByItsTensorsAndToldFromAModel) {
  GgufWriter writer;
  writer.key_text("general.architecture", "clip").tensor("v.patch_embd.weight", GgmlType::f32, {64, 64});
  const auto projector = describe_projector(part_of(writer, "mmproj.gguf"));
  ASSERT_TRUE(projector) << projector.error().message;
  EXPECT_EQ(projector->path, "mmproj.gguf");
  EXPECT_EQ(projector->tensors, Bytes{64 * 64 * 4});
  EXPECT_GT(projector->file, projector->tensors);
  EXPECT_FALSE(projector->fingerprint.digest.empty());

  GgufWriter model;
  model.key_text("general.architecture", "llama").tensor("a", GgmlType::f32, {8});
  const auto refused = describe_projector(part_of(model, "llama.gguf"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, "bad_model_file");
  EXPECT_EQ(refused.error().message, "llama.gguf: this is no projector: its general.architecture is llama, not clip");
  GgufWriter bare;
  bare.tensor("a", GgmlType::f32, {8});
  EXPECT_FALSE(describe_projector(part_of(bare, "bare.gguf")));
}

TEST(Companions, C7_TheFingerprintTellsWhatIsLoadedBesideTheModel) {
  const ModelDescription model{.fingerprint = {.digest = "m"}};
  const ModelDescription draft{.fingerprint = {.digest = "d"}};
  const Projector projector{.fingerprint = {.digest = "d"}};
  EXPECT_EQ(fingerprint_of(model, {}), model.fingerprint);
  const auto with_draft = fingerprint_of(model, {.draft = draft, .projector = {}});
  const auto with_projector = fingerprint_of(model, {.draft = {}, .projector = projector});
  EXPECT_NE(with_draft, model.fingerprint);
  EXPECT_NE(with_draft, with_projector);
  EXPECT_NE(with_draft, fingerprint_of(draft, {.draft = model, .projector = {}}));
  EXPECT_EQ(with_draft, fingerprint_of(model, {.draft = draft, .projector = {}}));
}

}  // namespace
}  // namespace dgxmm::model
