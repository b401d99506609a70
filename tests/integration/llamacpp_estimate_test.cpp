// Estimates against what a real llama-server says in its log: models of every kind of layers, with random weights.
#include "core/engine/engine.h"
#include "core/engine/request.h"
#include "core/memory/estimate.h"
#include "core/model/gguf_description.h"
#include "e2e/support/environment.h"
#include "e2e/support/subprocess.h"
#include "tools/accuracy_rows.h"
#include "tools/byte_reader.h"
#include "tools/tiny_subjects.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace dgxmm {
namespace {

namespace fs = std::filesystem;
using engine::CacheType;
using memory::Placement;

const fs::path& llama_server() { return e2e::environment().llama_server; }

const std::set<std::string, std::less<>>& flags() {
  static const auto kFlags = engine::parse_help_flags(e2e::run_program({llama_server(), "--help"}, {}).all());
  return kFlags;
}

/// The log of a start, up to the moment when it serves or has ended.
struct Start {
  std::string log;
  bool serves = false;
};

Start start(const fs::path& model, const engine::LlamaCppConfig& config) {
  const auto command = engine::make_command({.executable = llama_server(),
                                             .model_path = model,
                                             .served_name = "test",
                                             .port = 0,  // any
                                             .config = config,
                                             .supported_flags = flags()});
  e2e::Subprocess server{command.arguments, {}};
  const auto log = [&] { return server.out() + server.err(); };
  bool serves = false;
  e2e::eventually([&] {
    serves = log().find("listening on http") != std::string::npos;
    return serves || server.wait(std::chrono::milliseconds{0});
  });
  return {.log = log(), .serves = serves};
}

std::string log_of_start(const fs::path& model, const engine::LlamaCppConfig& config) {
  auto started = start(model, config);
  EXPECT_TRUE(started.serves) << started.log;
  return std::move(started.log);
}

std::string log_until_it_ends(const fs::path& model, const engine::LlamaCppConfig& config) {
  auto started = start(model, config);
  EXPECT_FALSE(started.serves) << started.log;
  return std::move(started.log);
}

engine::EngineAccounting accounting_of(const std::string& log) {
  const auto reader = engine::make_log_reader(engine::EngineKind::llamacpp);
  std::istringstream lines{log};
  for (std::string line; std::getline(lines, line);) reader->read_line(line);
  if (const auto failure = reader->failure()) ADD_FAILURE() << failure->message << "\n" << log;
  return reader->accounting().value_or(engine::EngineAccounting{});
}

struct DescribedFile {
  model::ModelDescription description;
  Bytes header;  ///< what of the file is not tensors
};

DescribedFile describe(const fs::path& path) {
  const auto text = e2e::read_file(path);
  auto header = model::parse_gguf(path.string(), text.size(), testing::reader_of(text));
  EXPECT_TRUE(header) << header.error().message;
  const model::GgufPart part{.path = path, .size = text.size(), .header = std::move(*header)};
  auto described = model::describe_gguf(path.string(), path.stem().string(), {&part, 1});
  EXPECT_TRUE(described) << described.error().message;
  Bytes tensors;
  for (const auto& tensor : part.header.tensors)
    tensors += Bytes{static_cast<std::int64_t>((tensor.bytes + 31) / 32 * 32)};
  return {.description = std::move(*described), .header = Bytes{static_cast<std::int64_t>(part.size)} - tensors};
}

/// Log lines are rounded to a hundredth of a MiB, and a part may have several of them.
constexpr double kLogRoundingMiB = 0.03;

/// As the table of errors names it, without a comma: "llama-server 0.7.0 (build 11669".
const std::string& engine_name() {
  static const auto kName = [] {
    const auto text = e2e::run_program({llama_server(), "--version"}, {}).all();
    const std::string before = "version: ";
    const auto at = text.find(before);
    if (at == std::string::npos) return std::string{"llama-server"};
    const auto start = at + before.size();
    auto version = text.substr(start, text.find_first_of(",\n", start) - start);
    if (version.contains('(') && !version.ends_with(')')) version += ')';
    return "llama-server " + version;
  }();
  return kName;
}

/// A part of the estimate beside the engine's log, for the table of errors.
testing::AccuracyRow accuracy_row(const DescribedFile& file, const std::string& subject,
                                  const engine::LlamaCppConfig& config, const char* quantity, Bytes estimated,
                                  Bytes logged) {
  const auto type = config.cache_type_k == CacheType::f16 ? "f16" : "q8_0";
  return {.engine = engine_name(),
          .model = subject,
          .architecture = file.description.architecture,
          .kind = testing::kind_of(file.description),
          .configuration = fmt::format("device=cpu ctx_size={} parallel={} kv_unified={} type_k={} type_v={}",
                                       config.ctx_size, config.parallel, config.kv_unified ? 1 : 0, type, type),
          .quantity = quantity,
          .measured_bytes = logged.count(),
          .rounding_bytes = static_cast<std::int64_t>(kLogRoundingMiB * 1024.0 * 1024.0),
          .ours_bytes = estimated.count(),
          .remark = {},
          .source = "log"};
}

void expect_equal(const char* part, Bytes estimated, Bytes logged) {
  constexpr double kMiB = 1024.0 * 1024.0;
  EXPECT_NEAR(static_cast<double>(estimated.count()) / kMiB, static_cast<double>(logged.count()) / kMiB,
              kLogRoundingMiB)
      << part;
}

engine::EngineAccounting expect_log_says(const memory::Estimate& estimate, Bytes headers, const std::string& log) {
  auto logged = accounting_of(log);
  EXPECT_TRUE(logged.weights && logged.compute && logged.output) << log;
  if (!logged.weights || !logged.compute || !logged.output) return logged;
  expect_equal("weights", estimate.part("weights") - headers, *logged.weights);
  expect_equal("kv", estimate.part("kv"), logged.kv.value_or(Bytes{}));
  expect_equal("state", estimate.part("state"), logged.state.value_or(Bytes{}));
  const auto buffers = *logged.compute + *logged.output;
  EXPECT_GE(estimate.part("activations") + kib(32), buffers);  // four rounded lines
  EXPECT_LE(estimate.part("activations"), buffers + mib(128));
  return logged;
}

class LlamaCppLive : public ::testing::TestWithParam<testing::TinySubject> {};

TEST_P(LlamaCppLive, E2_E3_E4_E5_TheLogSaysWhatWasEstimated) {
  ASSERT_TRUE(fs::exists(llama_server())) << "DGXMM_LLAMA_SERVER does not name a llama-server: run ./dev test";
  const e2e::TempDir folder;
  const auto path = folder.path() / (GetParam().name + ".gguf");
  GetParam().make().write(path);
  const auto file = describe(path);
  ASSERT_FALSE(file.description.layers.empty());
  EXPECT_TRUE(file.description.missing_fields.empty());

  std::vector<testing::AccuracyRow> table;
  for (const std::int64_t ctx_size : {3000, 8192}) {
    for (const std::int64_t parallel : {1, 4}) {
      for (const auto type : {CacheType::f16, CacheType::q8_0}) {
        const engine::LlamaCppConfig config{.ctx_size = ctx_size,
                                            .parallel = parallel,
                                            .kv_unified = ctx_size > 4000,
                                            .cache_type_k = type,
                                            .cache_type_v = type,
                                            .flash_attn = engine::FlashAttention::on,
                                            .cache_ram_mib = 0};
        SCOPED_TRACE(fmt::format("-c {} -np {} {}", ctx_size, parallel, type == CacheType::f16 ? "f16" : "q8_0"));
        const auto estimate = memory::estimate_llamacpp(file.description, config, {}, Placement::cpu);
        ASSERT_TRUE(estimate) << estimate.error().message;
        const auto logged = expect_log_says(*estimate, file.header, log_of_start(path, config));
        const auto buffers = logged.compute.value_or(Bytes{}) + logged.output.value_or(Bytes{});
        const auto add = [&](const char* quantity, Bytes estimated, Bytes in_log) {
          table.push_back(accuracy_row(file, GetParam().name, config, quantity, estimated, in_log));
        };
        add("weights", estimate->part("weights") - file.header, logged.weights.value_or(Bytes{}));
        add("kv", estimate->part("kv"), logged.kv.value_or(Bytes{}));
        add("state", estimate->part("state"), logged.state.value_or(Bytes{}));
        add("compute_and_output", estimate->part("activations"), buffers);
      }
    }
  }
  testing::write_accuracy_rows("llama-server-" + GetParam().name, table);
}

/// Settings under which speculation is tried: slots with caches of their own and with one pool, and two cache types.
std::vector<engine::LlamaCppConfig> speculating_configs(engine::SpecType type) {
  std::vector<engine::LlamaCppConfig> configs;
  for (const std::int64_t parallel : {1, 3}) {
    for (const auto cache_type : {CacheType::f16, CacheType::q8_0}) {
      const bool other = cache_type == CacheType::q8_0;
      configs.push_back({.ctx_size = 5000,
                         .parallel = parallel,
                         .kv_unified = other,
                         .flash_attn = engine::FlashAttention::on,
                         .cache_ram_mib = 0,
                         .spec_type = type,
                         .spec_draft_n_max = other ? 1 : 3,
                         .cache_type_k_draft = cache_type,
                         .cache_type_v_draft = cache_type});
    }
  }
  return configs;
}

TEST(LlamaCppLiveSpeculation, E2_E3_E4_E5_TheLogOfADraftModelSaysWhatWasEstimated) {
  ASSERT_TRUE(fs::exists(llama_server())) << "DGXMM_LLAMA_SERVER does not name a llama-server: run ./dev test";
  const e2e::TempDir folder;
  const auto small_path = folder.path() / "small.gguf";
  testing::tiny_llama(600).write(small_path);  // within the 128 tokens that vocabularies may differ by
  const auto small = describe(small_path);
  const std::vector<testing::TinySubject> targets{{"qwen35", [] { return testing::tiny_qwen35(); }},
                                                  {"gemma3", testing::tiny_gemma3}};
  for (const auto& target : targets) {
    const auto path = folder.path() / (target.name + ".gguf");
    target.make().write(path);
    const auto file = describe(path);
    for (auto config : speculating_configs(engine::SpecType::draft_simple)) {
      SCOPED_TRACE(fmt::format("{}: {}", target.name, engine::configuration_key(config)));
      config.draft_model = small_path;
      const auto estimate = memory::estimate_llamacpp(file.description, config, {}, Placement::cpu,
                                                      {.draft = small.description, .projector = {}});
      ASSERT_TRUE(estimate) << estimate.error().message;
      const auto log = log_of_start(path, config);
      EXPECT_NE(log.find("adding speculative implementation 'draft-simple'"), std::string::npos) << log;
      expect_log_says(*estimate, file.header + small.header, log);
    }
  }
}

class LlamaCppLiveMtp : public ::testing::TestWithParam<testing::TinySubject> {};

TEST_P(LlamaCppLiveMtp, E2_E3_E4_E5_TheLogOfDraftMtpSaysWhatWasEstimated) {
  ASSERT_TRUE(fs::exists(llama_server())) << "DGXMM_LLAMA_SERVER does not name a llama-server: run ./dev test";
  const e2e::TempDir folder;
  const auto path = folder.path() / "mtp.gguf";
  GetParam().make().write(path);
  const auto file = describe(path);
  for (const auto& config : speculating_configs(engine::SpecType::draft_mtp)) {
    SCOPED_TRACE(engine::configuration_key(config));
    const auto estimate = memory::estimate_llamacpp(file.description, config, {}, Placement::cpu);
    ASSERT_TRUE(estimate) << estimate.error().message;
    const auto log = log_of_start(path, config);
    EXPECT_NE(log.find("adding speculative implementation 'draft-mtp'"), std::string::npos) << log;
    expect_log_says(*estimate, file.header, log);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, LlamaCppLiveMtp,
    ::testing::Values(testing::TinySubject{"qwen35", [] { return testing::tiny_qwen35(1); }},
                      testing::TinySubject{"qwen35moe", [] { return testing::tiny_qwen35(1, true); }},
                      testing::TinySubject{"deepseek32", [] { return testing::tiny_deepseek2(true, 1); }}),
    [](const auto& info) { return info.param.name; });

TEST(LlamaCppLiveProjector, E2_E5_TheLogSaysItsWeightsAndNoMoreThanItsBuffers) {
  ASSERT_TRUE(fs::exists(llama_server())) << "DGXMM_LLAMA_SERVER does not name a llama-server: run ./dev test";
  const e2e::TempDir folder;
  const auto path = folder.path() / "gemma3.gguf";
  testing::tiny_gemma3().write(path);
  const auto projector_path = folder.path() / "mmproj.gguf";
  testing::tiny_projector().write(projector_path);
  const auto text = e2e::read_file(projector_path);
  auto header = model::parse_gguf(projector_path.string(), text.size(), testing::reader_of(text));
  ASSERT_TRUE(header) << header.error().message;
  const auto projector =
      model::describe_projector({.path = projector_path, .size = text.size(), .header = std::move(*header)});
  ASSERT_TRUE(projector) << projector.error().message;

  const auto file = describe(path);
  engine::LlamaCppConfig config{.ctx_size = 4096, .parallel = 2, .cache_ram_mib = 0};
  const auto without = accounting_of(log_of_start(path, config));
  config.mmproj = projector_path;
  const auto estimate =
      memory::estimate_llamacpp(file.description, config, {}, Placement::cpu, {.draft = {}, .projector = *projector});
  ASSERT_TRUE(estimate) << estimate.error().message;
  const auto log = log_of_start(path, config);
  EXPECT_NE(log.find("loaded multimodal model"), std::string::npos) << log;
  const auto logged = accounting_of(log);
  ASSERT_TRUE(logged.weights && logged.compute && logged.output && without.compute) << log;
  expect_equal("weights", estimate->part("weights") - file.header - (projector->file - projector->tensors),
               *logged.weights);
  EXPECT_EQ(logged.kv, without.kv);
  EXPECT_GT(*logged.compute, *without.compute) << "the projector's buffer comes on top";
  EXPECT_GE(estimate->part("activations"), *logged.compute + *logged.output);

  config.mmproj = path;  // not a projector
  EXPECT_NE(log_until_it_ends(path, config).find("Failed to load CLIP model"), std::string::npos);
}

TEST(LlamaCppLiveSpeculation, WhatIsRefusedIsRefusedByTheServerToo) {
  ASSERT_TRUE(fs::exists(llama_server())) << "DGXMM_LLAMA_SERVER does not name a llama-server: run ./dev test";
  const e2e::TempDir folder;
  const auto path = folder.path() / "without.gguf";
  testing::tiny_qwen35().write(path);
  const auto large_path = folder.path() / "large.gguf";
  testing::tiny_llama(512 + 129).write(large_path);
  const engine::LlamaCppConfig mtp{.ctx_size = 1024, .parallel = 1, .spec_type = engine::SpecType::draft_mtp};
  EXPECT_FALSE(memory::estimate_llamacpp(describe(path).description, mtp, {}, Placement::cpu));
  EXPECT_NE(log_until_it_ends(path, mtp).find("failed to create MTP context"), std::string::npos);

  engine::LlamaCppConfig draft{.ctx_size = 1024, .parallel = 1, .spec_type = engine::SpecType::draft_simple};
  draft.draft_model = large_path;
  EXPECT_FALSE(memory::estimate_llamacpp(describe(path).description, draft, {}, Placement::cpu,
                                         {.draft = describe(large_path).description, .projector = {}}));
  const auto log = log_of_start(path, draft);  // it serves without drafting
  EXPECT_NE(log.find("the target and draft vocabs are not compatible"), std::string::npos) << log;
}

INSTANTIATE_TEST_SUITE_P(Models, LlamaCppLive, ::testing::ValuesIn(testing::tiny_subjects()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace dgxmm
