// Writes the seed corpora: `fuzz_seeds DIR` makes DIR/fuzz_gguf/dense and so on.
#include "fuzz/model_seeds.h"
#include "fuzz/scenario_seeds.h"

#include <cstdio>
#include <exception>
#include <filesystem>
#include <string_view>
#include <vector>

namespace {

void write(const std::filesystem::path& folder, const std::vector<dgxmm::testing::Seed>& seeds) {
  for (const auto& seed : seeds) dgxmm::testing::write_text(folder / seed.name, seed.bytes);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::fputs("usage: fuzz_seeds DIR\n", stderr), 2;
  try {
    const std::filesystem::path folder{argv[1]};
    write(folder / "fuzz_gguf", dgxmm::testing::gguf_seeds());
    write(folder / "fuzz_safetensors", dgxmm::testing::safetensors_seeds());
    write(folder / "fuzz_hf_config", dgxmm::testing::hf_config_seeds());
    write(folder / "fuzz_scenario", dgxmm::testing::scenario_seeds());
  } catch (const std::exception& error) {
    return std::fprintf(stderr, "%s\n", error.what()), 1;
  }
  return 0;
}
