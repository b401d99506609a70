// Estimates against what a real llama-server says in its log: models of every kind of layers, with random weights.
#include "core/engine/engine.h"
#include "core/memory/estimate.h"
#include "core/model/gguf_description.h"
#include "e2e/support/environment.h"
#include "e2e/support/subprocess.h"
#include "tools/byte_reader.h"
#include "tools/tiny_models.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <ostream>
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

/// A kind of model, and how to make one.
struct Subject {
  std::string name;
  std::function<testing::TinyModel()> make;

  friend std::ostream& operator<<(std::ostream& out, const Subject& subject) { return out << subject.name; }
};

const std::vector<Subject>& subjects() {
  static const std::vector<Subject> kSubjects{
      {"llama", [] { return testing::tiny_llama(); }},
      {"llama_150k_tokens", [] { return testing::tiny_llama(151'936); }},
      {"gemma3", testing::tiny_gemma3},
      {"gemma4", testing::tiny_gemma4},
      {"gpt_oss", testing::tiny_gpt_oss},
      {"deepseek2", [] { return testing::tiny_deepseek2(); }},
      {"deepseek32", [] { return testing::tiny_deepseek2(true); }},
      {"qwen35", [] { return testing::tiny_qwen35(); }},
      {"qwen35_nextn", [] { return testing::tiny_qwen35(1); }},
      {"qwen35moe", [] { return testing::tiny_qwen35(0, true); }},
      {"kimi_linear", testing::tiny_kimi_linear},
      {"nemotron_h", testing::tiny_nemotron_h},
      {"granitehybrid", testing::tiny_granite_hybrid},
      {"falcon_h1", testing::tiny_falcon_h1},
      {"lfm2", testing::tiny_lfm2},
      {"mamba2", testing::tiny_mamba2},
  };
  return kSubjects;
}

const fs::path& llama_server() { return e2e::environment().llama_server; }

const std::set<std::string, std::less<>>& flags() {
  static const auto kFlags = engine::parse_help_flags(e2e::run_program({llama_server(), "--help"}, {}).all());
  return kFlags;
}

/// The log of a start, up to the moment when it serves.
std::string log_of_start(const fs::path& model, const engine::LlamaCppConfig& config) {
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
  EXPECT_TRUE(serves) << log();
  return log();
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
void expect_equal(const char* part, Bytes estimated, Bytes logged) {
  constexpr double kMiB = 1024.0 * 1024.0;
  EXPECT_NEAR(static_cast<double>(estimated.count()) / kMiB, static_cast<double>(logged.count()) / kMiB, 0.03) << part;
}

class LlamaCppLive : public ::testing::TestWithParam<Subject> {};

TEST_P(LlamaCppLive, E2_E3_E4_E5_TheLogSaysWhatWasEstimated) {
  ASSERT_TRUE(fs::exists(llama_server())) << "DGXMM_LLAMA_SERVER does not name a llama-server: run ./dev test";
  const e2e::TempDir folder;
  const auto path = folder.path() / (GetParam().name + ".gguf");
  GetParam().make().write(path);
  const auto file = describe(path);
  ASSERT_FALSE(file.description.layers.empty());
  EXPECT_TRUE(file.description.missing_fields.empty());

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
        const auto logged = accounting_of(log_of_start(path, config));
        ASSERT_TRUE(logged.weights && logged.compute && logged.output);
        expect_equal("weights", estimate->part("weights") - file.header, *logged.weights);
        expect_equal("kv", estimate->part("kv"), logged.kv.value_or(Bytes{}));
        expect_equal("state", estimate->part("state"), logged.state.value_or(Bytes{}));
        const auto buffers = *logged.compute + *logged.output;
        EXPECT_GE(estimate->part("activations") + kib(16), buffers);  // two rounded lines
        EXPECT_LE(estimate->part("activations"), buffers + mib(128));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, LlamaCppLive, ::testing::ValuesIn(subjects()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace dgxmm
