#pragma once
#include "tools/gguf_writer.h"

namespace dgxmm::bench {

/// The shape of SmolLM2-135M: a vocabulary of 49k.
inline testing::DenseGguf small_vocabulary() {
  return {.arch = "llama",
          .n_layer = 30,
          .n_embd = 576,
          .n_head = 9,
          .n_head_kv = 3,
          .n_ff = 1536,
          .n_vocab = 49'152,
          .n_ctx = 8192,
          .type = testing::GgmlType::q4_0,
          .file_type = 2,
          .name = "49k vocabulary",
          .tied = true};
}

/// The shape of Qwen3-8B in Q4_K: a vocabulary of 150k.
inline testing::DenseGguf large_vocabulary() {
  return {.arch = "qwen3",
          .n_layer = 36,
          .n_embd = 4096,
          .n_head = 32,
          .n_head_kv = 8,
          .n_ff = 12'288,
          .n_vocab = 151'936,
          .n_ctx = 40'960,
          .type = testing::GgmlType::q4_k,
          .file_type = 15,
          .name = "150k vocabulary"};
}

}  // namespace dgxmm::bench
