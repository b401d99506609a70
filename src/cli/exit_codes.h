#pragma once

namespace dgxmm::cli {

// For scripts: part of the interface.
inline constexpr int kExitOk = 0;
inline constexpr int kExitError = 1;
inline constexpr int kExitUsage = 2;  ///< an unknown option, a bad value, a bad setting
inline constexpr int kExitDoesNotFit = 3;

}  // namespace dgxmm::cli
