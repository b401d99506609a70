#include "base/secret.h"

#include <fmt/format.h>

#include <random>

namespace dgxmm {

std::string make_secret() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

}  // namespace dgxmm
