#pragma once
#include "core/engine/config.h"

#include <cstdint>

// A request with one of its settings changed, for plans and for what would still fit.
namespace dgxmm::planner {

/// Tokens of the whole context: llama.cpp's ctx_size, which its slots divide or share; vLLM's max_model_len.
std::int64_t context_of(const engine::EngineConfig& config);
/// Tokens that one sequence can have.
std::int64_t context_per_sequence_of(const engine::EngineConfig& config);
/// Slots of llama.cpp, max_num_seqs of vLLM.
std::int64_t sequences_of(const engine::EngineConfig& config);

/// P2: a whole context of `context` tokens. A pool of a given size shrinks or grows with it.
engine::EngineConfig with_context(engine::EngineConfig config, std::int64_t context);
/// A context of `tokens` for each sequence (a unified pool: for one of them), as many sequences as before.
engine::EngineConfig with_context_per_sequence(engine::EngineConfig config, std::int64_t tokens);
/// P3: `sequences` at a time, each with the context it had. A unified pool stays as large as it is.
engine::EngineConfig with_sequences(engine::EngineConfig config, std::int64_t sequences);
/// `sequences` at a time, with room for all of them to fill the context that one has now.
engine::EngineConfig with_full_sequences(engine::EngineConfig config, std::int64_t sequences);

}  // namespace dgxmm::planner
