// The formulas against contexts that were measured: tests/truth/llamacpp_dense.csv.
#include "core/memory/estimate.h"
#include "core/memory/llamacpp_cache.h"
#include "core/memory/llamacpp_compute.h"
#include "unit/core/memory/dense_model.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace dgxmm::memory {
namespace {

using Row = std::map<std::string, std::string>;

const std::map<std::string, DenseShape> kShapes{
    {"llama_tiny", {"llama_tiny", 4, 256, 8, 2, 32, 512, 1024, 0, 0, 0, Bytes{1557504}, Bytes{147456}, false}},
    {"llama_1b", {"llama_1b", 16, 2048, 32, 8, 64, 8192, 128256, 0, 0, 0, Bytes{695377920}, Bytes{147750912}, true}},
    {"llama_1b_q8",
     {"llama_1b_q8", 16, 2048, 32, 8, 64, 8192, 128256, 0, 0, 0, Bytes{1313251328}, Bytes{279085056}, true}},
    {"llama_1b_q4k",
     {"llama_1b_q4k", 16, 2048, 32, 8, 64, 8192, 128256, 0, 0, 0, Bytes{695377920}, Bytes{147750912}, true}},
    {"llama_8b",
     {"llama_8b", 32, 4096, 32, 8, 128, 14336, 128256, 0, 0, 0, Bytes{4517937152}, Bytes{295501824}, false}},
    {"qwen3_0_6b",
     {"qwen3_0_6b", 28, 1024, 16, 8, 128, 3072, 151936, 0, 0, 0, Bytes{423018496}, Bytes{87515136}, false}},
    {"qwen3moe_30b",
     {"qwen3moe_30b", 48, 2048, 32, 4, 128, 6144, 151936, 128, 8, 768, Bytes{17218297856}, Bytes{175030272}, false}},
};

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream stream{line};
  for (std::string cell; std::getline(stream, cell, ',');) cells.push_back(cell);
  return cells;
}

std::vector<Row> read_rows() {
  std::ifstream file{std::string{DGXMM_TEST_DATA} + "/truth/llamacpp_dense.csv"};
  std::vector<Row> rows;
  std::vector<std::string> names;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    auto cells = cells_of(line);
    if (names.empty()) {
      names = cells;
      continue;
    }
    cells.resize(names.size());
    Row row;
    for (std::size_t i = 0; i < names.size(); ++i) row[names[i]] = cells[i];
    rows.push_back(row);
  }
  return rows;
}

const std::vector<Row>& rows() {
  static const auto kRows = read_rows();
  return kRows;
}

std::int64_t number(const Row& row, const std::string& column) { return std::stoll(row.at(column)); }

engine::CacheType type_of(const std::string& name) {
  static const std::map<std::string, engine::CacheType> kTypes{
      {"f32", engine::CacheType::f32},      {"f16", engine::CacheType::f16},   {"bf16", engine::CacheType::bf16},
      {"q8_0", engine::CacheType::q8_0},    {"q5_1", engine::CacheType::q5_1}, {"q4_0", engine::CacheType::q4_0},
      {"iq4_nl", engine::CacheType::iq4_nl}};
  return kTypes.at(name);
}

engine::LlamaCppConfig config_of(const Row& row) {
  return {.ctx_size = number(row, "ctx_size"),
          .parallel = number(row, "parallel"),
          .kv_unified = row.at("kv_unified") == "1",
          .cache_type_k = type_of(row.at("type_k")),
          .cache_type_v = type_of(row.at("type_v")),
          .batch = number(row, "batch"),
          .ubatch = number(row, "ubatch"),
          .flash_attn = row.at("flash_attn") == "on" ? engine::FlashAttention::on : engine::FlashAttention::off,
          .cache_ram_mib = 0};
}

Placement placement_of(const Row& row) { return row.at("device") == "cpu" ? Placement::cpu : Placement::gpu; }

std::string text_of(const Row& row) {
  return fmt::format("{} on {}: -c {} -np {} unified {} {}/{} -b {} -ub {} -fa {}", row.at("model"), row.at("device"),
                     row.at("ctx_size"), row.at("parallel"), row.at("kv_unified"), row.at("type_k"), row.at("type_v"),
                     row.at("batch"), row.at("ubatch"), row.at("flash_attn"));
}

/// Contexts that give logits for every token of a batch, as llama-bench does and llama-server does not.
bool logits_for_every_token(const Row& row) { return number(row, "n_outputs_max") > number(row, "parallel"); }

/// Without flash attention and with few cells a slot, the formula counts Q, K and V together with the attention matrix,
/// which ggml never holds at once; at most 45 % too much there.
bool attention_matrix_is_small(const Row& row) {
  return row.at("flash_attn") == "off" && number(row, "n_ctx_seq") <= 1024 && number(row, "ubatch") == 2048;
}

void expect_close_from_above(Bytes estimated, Bytes real, const Row& row) {
  EXPECT_GE(estimated, real);
  const double most = attention_matrix_is_small(row) ? 1.45 : 1.25;
  const bool close = static_cast<double>(estimated.count()) <= most * static_cast<double>(real.count()) ||
                     estimated - real <= mib(128);
  EXPECT_TRUE(close) << format_bytes(estimated) << " for " << format_bytes(real);
}

class LlamaCppTruth : public testing::TestWithParam<std::string> {
 protected:
  /// Calls `check(row, model, config, context, caches)` for every row of this model.
  template <class Check>
  void for_each_row(const std::string& source, Check check) {
    std::size_t checked = 0;
    const auto model = dense_model(kShapes.at(GetParam()));
    for (const auto& row : rows()) {
      if (row.at("model") != GetParam() || row.at("source") != source) continue;
      SCOPED_TRACE(text_of(row));
      const auto config = config_of(row);
      const auto context = llamacpp::resolve_context(model, config, placement_of(row));
      ASSERT_TRUE(context) << context.error().message;
      const auto caches = llamacpp::kv_caches(model, config, *context);
      ASSERT_TRUE(caches) << caches.error().message;
      check(row, model, config, *context, *caches);
      ++checked;
    }
    if (source == "probe") EXPECT_EQ(checked, 100u);
  }
};

TEST_P(LlamaCppTruth, E3_KvCacheIsExactToTheByte) {
  for_each_row("probe", [](const Row& row, const auto&, const auto&, const auto& context, const auto& caches) {
    EXPECT_EQ(context.cells, number(row, "n_ctx_seq"));
    EXPECT_EQ(context.cells * context.streams,
              row.at("kv_unified") == "1" ? number(row, "n_ctx_seq") : number(row, "n_ctx"));
    ASSERT_EQ(caches.size(), 1u);
    EXPECT_EQ(caches.front().size, Bytes{number(row, "kv_bytes")});
  });
}

TEST_P(LlamaCppTruth, E5_ComputeBuffersAreNeverBelowAndAtMostAQuarterAbove) {
  for_each_row("probe", [](const Row& row, const auto& model, const auto& config, const auto& context,
                           const auto& caches) {
    if (logits_for_every_token(row)) return;
    const auto buffers = llamacpp::compute_buffers(model, config, context, caches, placement_of(row));
    if (placement_of(row) == Placement::cpu) {
      EXPECT_EQ(buffers.host, Bytes{});
      EXPECT_EQ(buffers.scratch, Bytes{});
      expect_close_from_above(buffers.device, Bytes{number(row, "compute_host_bytes")}, row);
    } else {
      expect_close_from_above(buffers.device, Bytes{number(row, "compute_device_bytes")}, row);
      expect_close_from_above(buffers.host, Bytes{number(row, "compute_host_bytes")}, row);
    }
    EXPECT_NEAR(static_cast<double>(buffers.output.count()) / (1024.0 * 1024.0), std::stod(row.at("output_mib")), 0.01);
  });
}

TEST_P(LlamaCppTruth, E2_WeightsAreTheFileAndOnAGpuATiedEmbeddingTwice) {
  for_each_row("probe", [](const Row& row, const auto& model, const auto& config, const auto&, const auto&) {
    const auto result = estimate_llamacpp(model, config, {}, placement_of(row));
    ASSERT_TRUE(result);
    EXPECT_EQ(result->part("weights"), Bytes{number(row, "weights_device_bytes") + number(row, "weights_host_bytes")});
  });
}

TEST_P(LlamaCppTruth, E3_E5_RealServerStartsAgree) {
  for_each_row(
      "server", [](const Row& row, const auto& model, const auto& config, const auto& context, const auto& caches) {
        constexpr double kMiB = 1024.0 * 1024.0;
        EXPECT_NEAR(static_cast<double>(caches.front().size.count()) / kMiB, std::stod(row.at("kv_mib")), 0.01);
        const auto buffers = llamacpp::compute_buffers(model, config, context, caches, placement_of(row));
        const Bytes real{static_cast<std::int64_t>(std::stod(row.at("compute_mib")) * kMiB)};
        expect_close_from_above(buffers.device, real, row);
      });
}

INSTANTIATE_TEST_SUITE_P(Models, LlamaCppTruth,
                         testing::Values("llama_tiny", "llama_1b", "llama_1b_q8", "llama_1b_q4k", "llama_8b",
                                         "qwen3_0_6b", "qwen3moe_30b"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace dgxmm::memory
