#pragma once
// The models of tests/truth/llamacpp.csv as GGUF files: their keys, and few tensors that sum up to their own sizes.
#include "tools/gguf_writer.h"

#include <boost/json.hpp>
#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace dgxmm::testing {

/// `folder`: tests/truth.
inline boost::json::array read_truth_models(const std::filesystem::path& folder) {
  std::ifstream file{folder / "llamacpp_models.json"};
  const std::string text{std::istreambuf_iterator<char>{file}, {}};
  return boost::json::parse(text).as_object().at("models").as_array();
}

inline void add_truth_key(GgufWriter& w, const std::string& key, const boost::json::value& value) {
  if (const auto* list = value.if_array()) {
    std::vector<std::int32_t> numbers;
    for (const auto& number : *list) numbers.push_back(static_cast<std::int32_t>(number.as_int64()));
    w.key_i32s(key, numbers);
  } else if (value.is_string()) {
    w.key_text(key, std::string{value.as_string()});
  } else if (value.is_bool()) {
    w.key_bool(key, value.as_bool());
  } else if (value.is_double()) {
    w.key_f32(key, static_cast<float>(value.as_double()));
  } else {
    w.key_u32(key, static_cast<std::uint32_t>(value.as_int64()));
  }
}

struct TruthFile {
  GgufWriter writer;
  std::uint64_t tensor_bytes = 0;
};

inline TruthFile truth_file(const boost::json::value& model) {
  constexpr std::uint32_t kI8 = 24;
  const auto number = [&](const char* key) { return static_cast<std::uint64_t>(model.at(key).as_int64()); };
  const std::string architecture{model.at("architecture").as_string()};
  TruthFile file;
  auto& w = file.writer;
  w.key_text("general.architecture", architecture);
  for (const auto& [key, value] : model.at("metadata").as_object()) add_truth_key(w, std::string{key}, value);
  w.key_texts("tokenizer.ggml.tokens", std::vector<std::string>(number("vocabulary")));
  const auto add = [&](const std::string& tensor, std::uint64_t bytes) {
    w.tensor_raw(tensor, kI8, {bytes}, file.tensor_bytes, bytes);
    file.tensor_bytes += bytes;
  };
  add("token_embd.weight", number("token_embd_bytes"));
  if (!model.at("tied").as_bool()) add("output.weight", 64);
  if (const auto nextn = number("nextn_bytes"); nextn > 0) {
    const auto blocks = model.at("metadata").at(architecture + ".block_count").as_int64();
    add(fmt::format("blk.{}.rest.weight", blocks - 1), nextn);
  }
  add("rest.weight", number("weight_bytes") - file.tensor_bytes);
  return file;
}

}  // namespace dgxmm::testing
