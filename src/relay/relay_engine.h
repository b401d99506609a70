#pragma once
#include <string_view>

namespace dgxmm::relay {

/// The first argument that makes the dgxmm binary a relay.
inline constexpr std::string_view kRelayCommand = "relay-engine";

/// What a relay ends with when another program has its port.
inline constexpr int kPortTaken = 3;

/// What `dgxmm relay-engine --port PORT --socket PATH` does: passes requests from a port of loopback on to an engine's
/// socket, except those that are for dgxmm alone, until the engine has ended. Internal. Returns the exit code.
int relay_engine(int argc, char** argv);

}  // namespace dgxmm::relay
