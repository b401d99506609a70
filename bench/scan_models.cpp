// What a scan of many models costs: `scan_models MODELS RUNS FOLDER` writes them below FOLDER, then prints as JSON how
// long each scan took, cold (nothing remembered, files in the page cache) and again, and what parsing one header of
// 150k tokens allocated.
#include "adapters/modelfs/header_reader.h"
#include "adapters/modelfs/model_files.h"
#include "bench/models.h"
#include "tools/hf_writer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <filesystem>
#include <malloc.h>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

std::atomic<std::size_t> in_use{0};
std::atomic<std::size_t> peak{0};

void* counted(void* memory) {
  if (memory == nullptr) throw std::bad_alloc{};
  const auto now = in_use += ::malloc_usable_size(memory);
  auto highest = peak.load();
  while (now > highest && !peak.compare_exchange_weak(highest, now)) {
  }
  return memory;
}

void release(void* memory) {
  if (memory != nullptr) in_use -= ::malloc_usable_size(memory);
  std::free(memory);
}

}  // namespace

// Every allocation of this program, counted.
void* operator new(std::size_t size) { return counted(std::malloc(size)); }
void operator delete(void* memory) noexcept { release(memory); }
void operator delete(void* memory, std::size_t) noexcept { release(memory); }

namespace dgxmm::bench {
namespace {

namespace fs = std::filesystem;

/// A file whose tensors are a hole: not copied, for a copy would fill it.
struct Sparse {
  std::string header;
  std::uint64_t size = 0;

  explicit Sparse(const testing::GgufWriter& writer) : header(writer.header()), size(writer.file_size()) {}
  void write(const fs::path& path) const {
    testing::write_text(path, header);
    fs::resize_file(path, size);
  }
};

/// Of ten, one has a vocabulary of 150k and six one of 32k, one is a split in two, and two are folders of safetensors.
void write_models(const fs::path& folder, int models) {
  auto shape = small_vocabulary();
  shape.n_vocab = 32'000;
  const Sparse large{testing::dense_gguf(large_vocabulary())};
  const Sparse middle{testing::dense_gguf(shape)};
  testing::GgufWriter keys;
  testing::add_dense_keys(keys, shape);
  testing::add_tokenizer(keys, shape.n_vocab);
  keys.key_u16("split.no", 0).key_u16("split.count", 2);
  testing::GgufWriter tensors;
  tensors.key_u16("split.no", 1).key_u16("split.count", 2);
  testing::add_dense_tensors(tensors, shape);
  const Sparse first{keys};
  const Sparse second{tensors};
  const testing::DenseHf hf{
      .layers = 36, .hidden = 4096, .heads = 32, .kv_heads = 8, .intermediate = 12'288, .vocabulary = 151'936};
  const auto shards = testing::dense_safetensors(hf, 2);
  for (int i = 0; i < models; ++i) {
    const auto place = folder / fmt::format("org-{}", i / 50) / fmt::format("model-{}", i);
    if (i % 10 == 0) {
      large.write(place / fmt::format("model-{}-Q4_K_M.gguf", i));
    } else if (i % 10 < 3) {
      testing::write_text(place / "config.json", testing::dense_config(hf));
      shards[0].write(place / "model-00001-of-00002.safetensors");
      shards[1].write(place / "model-00002-of-00002.safetensors");
    } else if (i % 10 == 3) {
      first.write(place / fmt::format("model-{}-00001-of-00002.gguf", i));
      second.write(place / fmt::format("model-{}-00002-of-00002.gguf", i));
    } else {
      middle.write(place / fmt::format("model-{}-Q4_0.gguf", i));
    }
  }
}

struct Cost {
  double wall_ms = 0;
  double processor_ms = 0;  ///< of all threads
};

Cost cost_of_scan(modelfs::FileSystemModels& files, const fs::path& folder, std::size_t expected) {
  const auto begin = std::chrono::steady_clock::now();
  const auto processor = std::clock();
  const auto catalog = files.scan({{folder.string()}});
  const Cost cost{
      .wall_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count(),
      .processor_ms = 1000.0 * static_cast<double>(std::clock() - processor) / CLOCKS_PER_SEC};
  const auto usable = std::ranges::count(catalog.models, std::string{}, &ports::CatalogEntry::problem);
  if (static_cast<std::size_t>(usable) != expected) {
    throw std::runtime_error(fmt::format("{} usable models instead of {}", usable, expected));
  }
  return cost;
}

int run(int models, int runs, const fs::path& folder) {
  if (fs::is_empty(folder)) write_models(folder, models);
  std::vector<double> cold;
  std::vector<double> cold_processor;
  std::vector<double> again;
  for (int i = 0; i <= runs; ++i) {
    modelfs::FileSystemModels files;
    const auto first = cost_of_scan(files, folder, static_cast<std::size_t>(models));
    const auto second = cost_of_scan(files, folder, static_cast<std::size_t>(models));
    if (i == 0) continue;  // filled the page cache
    cold.push_back(first.wall_ms);
    cold_processor.push_back(first.processor_ms);
    again.push_back(second.wall_ms);
  }
  const auto file = folder / "org-0" / "model-0" / "model-0-Q4_K_M.gguf";
  const auto header_bytes = testing::dense_gguf(large_vocabulary()).header().size();
  const auto before = in_use.load();
  peak = before;
  const auto part = modelfs::read_gguf_file(file);
  if (!part) throw std::runtime_error(part.error().message);
  const auto parse_peak = peak.load() - before;
  fmt::print(
      R"({{"models":{},"cold_ms":[{}],"cold_processor_ms":[{}],"again_ms":[{}],"header_bytes":{},"parse_peak_bytes":{}}})"
      "\n",
      models, fmt::join(cold, ","), fmt::join(cold_processor, ","), fmt::join(again, ","), header_bytes, parse_peak);
  return 0;
}

}  // namespace
}  // namespace dgxmm::bench

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fputs("usage: scan_models MODELS RUNS FOLDER\n", stderr);
    return 2;
  }
  try {
    return dgxmm::bench::run(std::atoi(argv[1]), std::atoi(argv[2]), argv[3]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "scan_models: %s\n", error.what());
    return 1;
  }
}
