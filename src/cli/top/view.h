#pragma once
#include "base/clock.h"
#include "cli/top/picture.h"
#include "cli/top/state.h"

namespace dgxmm::cli::top {

/// The memory as one line of that many columns, to scale: each part has as many as belong to it, together all of them.
Line memory_bar(const dto::Memory& memory, std::size_t columns);

/// The whole screen: exactly as many lines as it has, none wider. Text from outside is made printable.
Picture draw(const State& state, Size size, WallTime now);

}  // namespace dgxmm::cli::top
