#pragma once
#include "base/bytes.h"
#include "core/engine/config.h"
#include "core/planner/plans.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dgxmm::planner {

/// The end of one setting: the largest value with which a model still fits.
struct Limit {
  std::int64_t value = 0;
  Bytes needed;  ///< the whole model with it
  engine::EngineConfig config;
};

/// A model with one setting changed.
struct Variant {
  std::string name;  ///< "KV cache q8_0", "no prompt cache"
  bool as_asked = false;
  Bytes needed;
  bool fits = false;
  std::optional<Limit> longest_context;  ///< tokens of one sequence; absent: none fits
  engine::EngineConfig config;
};

/// What the free memory holds of one model, whether or not it fits as asked.
struct Reach {
  std::optional<Limit> longest_context;  ///< tokens of one sequence; absent: none fits
  bool whole_context = false;            ///< that is all the model was trained for, or all that was asked
  std::optional<Limit> most_sequences;   ///< that can fill their context at the same time; absent: not even one
  std::vector<Variant> settings;         ///< other cache types, no prompt cache
};

/// Tokens for one sequence: up to what the model was trained for (or what was asked, if that is more). Every answer is
/// one that the estimator gave, not a scaled one. Pure.
std::optional<Limit> longest_context(const engine::EngineConfig& config, std::int64_t training_context, Bytes free,
                                     const Estimator& estimator);

/// All of them. Pure.
Reach reach(const engine::EngineConfig& config, std::int64_t training_context, Bytes free, const Estimator& estimator);

}  // namespace dgxmm::planner
