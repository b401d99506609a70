#include "fuzz/model_checks.h"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  dgxmm::testing::check_safetensors({reinterpret_cast<const std::byte*>(data), size});
  return 0;
}
