#pragma once
#include <string>

namespace dgxmm {

/// 32 hexadecimal digits that nobody can guess, from the kernel's source of randomness.
std::string make_secret();

}  // namespace dgxmm
