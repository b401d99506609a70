#pragma once
// The small models, one of each kind of layers, by name.
#include "tools/tiny_models.h"

#include <functional>
#include <ostream>
#include <string>
#include <vector>

namespace dgxmm::testing {

/// A kind of model, and how to make one.
struct TinySubject {
  std::string name;
  std::function<TinyModel()> make;

  friend std::ostream& operator<<(std::ostream& out, const TinySubject& subject) { return out << subject.name; }
};

inline const std::vector<TinySubject>& tiny_subjects() {
  static const std::vector<TinySubject> kSubjects{
      {"llama", [] { return tiny_llama(); }},
      {"llama_150k_tokens", [] { return tiny_llama(151'936); }},
      {"gemma3", tiny_gemma3},
      {"gemma4", tiny_gemma4},
      {"gpt_oss", tiny_gpt_oss},
      {"deepseek2", [] { return tiny_deepseek2(); }},
      {"deepseek32", [] { return tiny_deepseek2(true); }},
      {"qwen35", [] { return tiny_qwen35(); }},
      {"qwen35_nextn", [] { return tiny_qwen35(1); }},
      {"qwen35moe", [] { return tiny_qwen35(0, true); }},
      {"kimi_linear", tiny_kimi_linear},
      {"nemotron_h", tiny_nemotron_h},
      {"granitehybrid", tiny_granite_hybrid},
      {"falcon_h1", tiny_falcon_h1},
      {"lfm2", tiny_lfm2},
      {"mamba2", tiny_mamba2},
  };
  return kSubjects;
}

}  // namespace dgxmm::testing
