// What the parts of an answer cost, without processes and files around them.
#include "bench/models.h"
#include "core/engine/config.h"
#include "core/memory/budget.h"
#include "core/memory/estimate.h"
#include "core/model/catalog.h"
#include "core/model/gguf.h"
#include "core/model/gguf_description.h"
#include "core/planner/plans.h"
#include "core/planner/sets.h"

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace dgxmm::bench {
namespace {

using engine::EngineConfig;
using engine::LlamaCppConfig;
using memory::Placement;

template <class T>
T checked(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(*result);
}

/// A file's header, and how long the file would be.
struct Header {
  std::string bytes;
  std::uint64_t file_size = 0;

  explicit Header(const testing::DenseGguf& shape) {
    const auto writer = testing::dense_gguf(shape);
    bytes = writer.header();
    file_size = writer.file_size();
  }
  [[nodiscard]] Result<model::GgufHeader> parse() const {
    const auto read = [this](std::uint64_t offset, std::span<std::byte> into) -> Result<std::size_t> {
      const auto piece = std::as_bytes(std::span{bytes}).subspan(offset);
      std::memcpy(into.data(), piece.data(), std::min(into.size(), piece.size()));
      return std::min(into.size(), piece.size());
    };
    return model::parse_gguf("model.gguf", file_size, read);
  }
};

model::ModelDescription describe(const testing::DenseGguf& shape) {
  const Header header{shape};
  const std::vector parts{
      model::GgufPart{.path = "model.gguf", .size = header.file_size, .header = checked(header.parse())}};
  return checked(model::describe_gguf("model.gguf", "model", parts));
}

const model::ModelDescription& model_8b() {
  static const auto kModel = describe(large_vocabulary());
  return kModel;
}

Result<memory::Estimate> estimate(const EngineConfig& config) {
  return memory::estimate(model_8b(), config, {}, Placement::gpu);
}

void parse_header(benchmark::State& state, const testing::DenseGguf& shape) {
  const Header header{shape};
  for (auto _ : state) benchmark::DoNotOptimize(checked(header.parse()));
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(header.bytes.size()));
}
BENCHMARK_CAPTURE(parse_header, 49k_vocabulary, small_vocabulary())->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(parse_header, 150k_vocabulary, large_vocabulary())->Unit(benchmark::kMicrosecond);

void describe_parsed_header(benchmark::State& state) {
  const Header header{large_vocabulary()};
  const std::vector parts{
      model::GgufPart{.path = "model.gguf", .size = header.file_size, .header = checked(header.parse())}};
  for (auto _ : state) benchmark::DoNotOptimize(checked(model::describe_gguf("model.gguf", "model", parts)));
}
BENCHMARK(describe_parsed_header)->Unit(benchmark::kMicrosecond);

void estimate_described_model(benchmark::State& state) {
  const EngineConfig config = LlamaCppConfig{.ctx_size = 32'768};
  for (auto _ : state) benchmark::DoNotOptimize(checked(estimate(config)));
}
BENCHMARK(estimate_described_model)->Unit(benchmark::kMicrosecond);

/// What a search over configurations costs: contexts times slots times cache types.
void estimate_500_configurations(benchmark::State& state) {
  std::vector<EngineConfig> configurations;
  for (std::int64_t context = 1; context <= 25; ++context) {
    for (std::int64_t parallel = 1; parallel <= 10; ++parallel) {
      for (const auto type : {engine::CacheType::f16, engine::CacheType::q8_0}) {
        configurations.emplace_back(LlamaCppConfig{
            .ctx_size = context * 1024 * parallel, .parallel = parallel, .cache_type_k = type, .cache_type_v = type});
      }
    }
  }
  if (configurations.size() != 500) throw std::logic_error("not 500 configurations");
  for (auto _ : state) {
    Bytes smallest = gib(1'000'000);
    for (const auto& config : configurations) smallest = std::min(smallest, checked(estimate(config)).total);
    benchmark::DoNotOptimize(smallest);
  }
}
BENCHMARK(estimate_500_configurations)->Unit(benchmark::kMillisecond);

/// 48 layers, every fourth with attention and the others with a gated delta net: groups, aligned blocks, state pages.
model::ModelDescription hybrid_model() {
  model::ModelDescription model{.format = model::Format::safetensors, .path = "/models/hybrid", .name = "hybrid"};
  model.architecture = "Qwen3NextForCausalLM";
  const model::Attention attention{.n_head = 16, .n_head_kv = 2, .key_length = 256, .value_length = 256};
  const model::RecurrentState state{.kind = model::RecurrentKind::gated_delta_net,
                                    .conv_elements = 3 * 8192,
                                    .state_elements = 32 * 128 * 128,
                                    .projected = 12288,
                                    .convolved = 8192,
                                    .inner = 4096};
  for (int layer = 0; layer < 48; ++layer) {
    model::Layer made{.attention = {}, .recurrent = {}, .feed_forward_length = 5120};
    if (layer % 4 == 3) {
      made.attention = attention;
    } else {
      made.recurrent = state;
    }
    model.layers.push_back(std::move(made));
  }
  model.embedding_length = 2048;
  model.vocabulary = 151'936;
  model.training_context = 262'144;
  model.weight_dtype = "bfloat16";
  model.files = {{.path = "/models/hybrid/model.safetensors", .size = gib(40)}};
  model.weights = {.files = gib(40), .tensors = gib(40)};
  return model;
}

void estimate_500_configurations_of_vllm(benchmark::State& state) {
  const auto model = hybrid_model();
  std::vector<EngineConfig> configurations;
  for (std::int64_t context = 1; context <= 25; ++context) {
    for (std::int64_t sequences = 1; sequences <= 10; ++sequences) {
      for (const auto* type : {"auto", "fp8"}) {
        configurations.emplace_back(engine::VllmConfig{.max_model_len = context * 8192,
                                                       .max_num_seqs = sequences * 8,
                                                       .max_num_batched_tokens = 8192,
                                                       .kv_cache_dtype = type});
      }
    }
  }
  if (configurations.size() != 500) throw std::logic_error("not 500 configurations");
  for (auto _ : state) {
    Bytes smallest = gib(1'000'000);
    for (const auto& config : configurations) {
      const auto estimate = checked(memory::estimate(model, config, {}, memory::Placement::gpu));
      smallest = std::min(smallest, estimate.total);
    }
    benchmark::DoNotOptimize(smallest);
  }
}
BENCHMARK(estimate_500_configurations_of_vllm)->Unit(benchmark::kMillisecond);

/// A full host: every deployment is ready and idle, and the request needs several of them stopped.
planner::PlanInput crowded_host(std::int64_t deployments) {
  planner::PlanInput input{.mem_total = gib(128)};
  const Bytes size = scale_up(gib(116), 1, deployments);  // 128 less margin and reserve, shared by all
  for (std::int64_t i = 1; i <= deployments; ++i) {
    input.deployments.push_back(
        {.memory = {.id = {i},
                    .state = deployment::State::ready,
                    .reserved = size,
                    .measured = memory::Measured{.anon = size, .kernel = Bytes{}, .shmem = Bytes{}, .gpu = Bytes{}}},
         .name = fmt::format("model-{}", i),
         .priority = i % 3,
         .pinned = i % 7 == 0,
         .busy = i % 5 == 0,
         .idle_since = std::chrono::minutes{i}});
  }
  input.mem_available = gib(12);
  input.config = LlamaCppConfig{.ctx_size = 131'072};
  input.priority = 2;
  return input;
}

/// The same, with 200 models on the disk of which 16 are other quantizations of the requested one, half of the
/// deployments able to sleep, and no single change that is enough: every search goes to its end.
planner::PlanInput crowded_host_with_catalog() {
  auto input = crowded_host(50);
  for (auto& candidate : input.deployments) {
    if (candidate.memory.id.value % 2 != 0) continue;
    const auto size = candidate.memory.reserved;
    candidate.sleep_levels = {{.level = 1, .size_asleep = scale_up(size, 3, 4), .wake_peak = size},
                              {.level = 2, .size_asleep = scale_up(size, 1, 10), .wake_peak = size}};
  }
  std::vector<model::CatalogEntry> catalog;
  for (std::int64_t i = 0; i < 200; ++i) {
    catalog.push_back({.name = fmt::format("m{}", i),
                       .path = fmt::format("/models/m{}.gguf", i),
                       .format = model::Format::gguf,
                       .size = gib(1 + i % 40),
                       .architecture = "llama",
                       .quantization = "Q4_K_M",
                       .base_model = i % 12 == 0 ? "asked" : "other",
                       .problem = {}});
  }
  input.config = LlamaCppConfig{.ctx_size = 131'072, .parallel = 64, .kv_unified = false};
  for (const auto* entry : model::other_quantizations(catalog, {.path = "/asked.gguf", .base_model = "asked"})) {
    input.quantizations.push_back({.name = entry->name,
                                   .path = entry->path,
                                   .quantization = entry->quantization,
                                   .file_bytes = entry->size,
                                   .config = input.config,
                                   .estimator = estimate});
  }
  return input;
}

void make_plans_with_catalog(benchmark::State& state) {
  if (checked(planner::make_plans(crowded_host_with_catalog(), estimate)).fits_now) {
    throw std::logic_error("the request fits without plans");
  }
  for (auto _ : state) {
    const auto input = crowded_host_with_catalog();
    benchmark::DoNotOptimize(checked(planner::make_plans(input, estimate)));
  }
}
BENCHMARK(make_plans_with_catalog)->Name("make_plans/50_deployments_200_models")->Unit(benchmark::kMicrosecond);

void make_plans(benchmark::State& state) {
  const auto input = crowded_host(state.range(0));
  if (checked(planner::make_plans(input, estimate)).fits_now) throw std::logic_error("the request fits without plans");
  for (auto _ : state) benchmark::DoNotOptimize(checked(planner::make_plans(input, estimate)));
}
BENCHMARK(make_plans)->ArgName("deployments")->Arg(1)->Arg(50)->Unit(benchmark::kMicrosecond);

/// How many sets the search asks for at most: sizes that differ, every amount that may be needed, everyone busy or not.
void find_sets_of_eight(benchmark::State& state) {
  std::size_t most = 0, searches = 0;
  for (auto _ : state) {
    searches = 0;
    for (std::size_t busy = 0; busy < 256; ++busy) {
      std::vector<bool> is_busy;
      for (std::size_t i = 0; i < 8; ++i) is_busy.push_back((busy >> i) % 2 == 1);
      for (std::size_t needed = 1; needed <= 73; ++needed, ++searches) {
        std::size_t asked = 0;
        benchmark::DoNotOptimize(planner::find_sets(is_busy, 4, [&](std::span<const std::size_t> members) {
          ++asked;
          std::size_t frees = 0;
          for (const auto member : members) frees += 7 + member % 5;
          return frees >= needed;
        }));
        most = std::max(most, asked);
      }
    }
  }
  state.counters["sets"] = static_cast<double>(most);
  state.counters["searches"] = static_cast<double>(searches);
}
BENCHMARK(find_sets_of_eight)->Name("find_sets/8_candidates")->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace dgxmm::bench
