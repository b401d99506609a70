// Runs the fuzzers' checks in the normal tests: on their seeds, on the seeds cut and damaged in many places, and on the
// inputs that once failed (tests/fuzz/corpus).
#include "fuzz/model_checks.h"
#include "fuzz/model_seeds.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>

namespace dgxmm::testing {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span{text}); }

constexpr std::size_t kStride =
    3;  // prime to the 4 and 8 bytes of the fields, so that each of their bytes has its turn

using Check = std::function<void(const std::string&)>;

void replay(const std::string& fuzzer, const std::vector<Seed>& seeds, const Check& check) {
  for (const auto& seed : seeds) {
    check(seed.bytes);
    for (std::size_t i = 0; i < seed.bytes.size(); i += kStride) {
      check(seed.bytes.substr(0, i));
      auto damaged = seed.bytes;
      for (const auto byte : {'\x7f', '\xff'}) {
        damaged[i] = byte;
        check(damaged);
      }
    }
  }
  const auto corpus = std::filesystem::path{DGXMM_TEST_DATA} / "fuzz" / "corpus" / fuzzer;
  if (!std::filesystem::exists(corpus)) return;
  for (const auto& entry : std::filesystem::directory_iterator{corpus}) {
    SCOPED_TRACE(entry.path().string());
    std::ifstream in{entry.path(), std::ios::binary};
    check({std::istreambuf_iterator<char>{in}, {}});
  }
}

TEST(ModelFuzzReplay, GgufHoldsItsPromises) {
  replay("fuzz_gguf", gguf_seeds(), [](const std::string& text) { check_gguf(bytes_of(text)); });
}

TEST(ModelFuzzReplay, SafetensorsHoldsItsPromises) {
  replay("fuzz_safetensors", safetensors_seeds(), [](const std::string& text) { check_safetensors(bytes_of(text)); });
}

TEST(ModelFuzzReplay, HfConfigHoldsItsPromises) {
  replay("fuzz_hf_config", hf_config_seeds(), [](const std::string& text) { check_hf_config(text); });
}

TEST(ModelFuzzReplay, TheSeedsReachTheEndOfTheReaders) {
  const auto bytes = gguf_seeds().front().bytes;
  EXPECT_TRUE(model::parse_gguf("seed", bytes.size(), reader_of(bytes)));
  const auto tensors = safetensors_seeds().front().bytes;
  EXPECT_TRUE(model::parse_safetensors("seed", bytes_of(tensors), tensors.size()));
  for (const auto& seed : hf_config_seeds()) {
    const auto config = seed.name == "mistral" ? model::parse_mistral_params("seed", seed.bytes)
                                               : model::parse_hf_config("seed", seed.bytes);
    EXPECT_EQ(config.has_value(), seed.name != "index") << seed.name << (config ? "" : ": " + config.error().message);
  }
}

}  // namespace
}  // namespace dgxmm::testing
