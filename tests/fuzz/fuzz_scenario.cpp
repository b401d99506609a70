#include "fuzz/scenario_checks.h"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  dgxmm::testing::check_scenario({reinterpret_cast<const char*>(data), size});
  return 0;
}
