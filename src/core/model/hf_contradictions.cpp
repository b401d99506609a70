// config.json beside the tensors that it describes.
#include "core/model/hf_contradictions.h"

#include "base/counted.h"
#include "base/masking.h"
#include "core/model/hf_tensor_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

namespace dgxmm::model {
namespace {

using Tensors = std::vector<const SafetensorsTensor*>;

/// Those of the language model, without what drafts tokens for it.
Tensors language_tensors(std::span<const SafetensorsPart> parts) {
  Tensors tensors;
  for (const auto& part : parts) {
    for (const auto& tensor : part.header.tensors) {
      const bool other =
          is_encoder_tensor(tensor.name) || is_speaking_tensor(tensor.name) || is_named_nextn(tensor.name);
      if (!other) tensors.push_back(&tensor);
    }
  }
  return tensors;
}

/// One element a value: nothing is packed.
bool is_plain(const SafetensorsTensor& tensor) {
  static constexpr auto kPlain = std::to_array<std::string_view>({"BF16", "F16", "F32", "F8_E4M3", "F8_E5M2"});
  return tensor.shape.size() == 2 && std::ranges::find(kPlain, tensor.dtype) != kPlain.end();
}

bool knows(const HfConfig& config, std::string_view field) {
  return std::ranges::find(config.missing_fields, field) == config.missing_fields.end();
}

class Contradictions {
 public:
  Contradictions(std::string_view path, const HfConfig& config, std::span<const SafetensorsPart> parts)
      : path_(path),
        config_(config),
        tensors_(language_tensors(parts)) {}

  Result<std::vector<std::string>> find() {
    compare_layers();
    compare_embedding();
    for (const auto projection : {'q', 'k', 'v'}) compare_heads(projection);
    if (error_) return fail(std::move(*error_));
    return std::move(found_);
  }

 private:
  void refuse(const std::string& what) {
    if (error_) return;
    error_ = Error{"bad_model_file", fmt::format("{}: {}", printable(path_), what),
                   "config.json and the weights are not of the same model: download both again", std::string{path_}};
  }

  void compare_layers() {
    std::set<std::int64_t> held;
    for (const auto* tensor : tensors_) {
      if (const auto number = language_layer(tensor->name)) held.insert(*number);
    }
    const auto per_layer = config_.attentions_per_layer;
    const auto layers = static_cast<std::int64_t>(config_.layers.size()) / per_layer;
    if (held.empty()) {  // named in another way, or not there
      if (std::ssize(tensors_) < layers) {
        found_.push_back(fmt::format("config.json says {}, its files hold {}", counted(layers, "layer"),
                                     counted(std::ssize(tensors_), "tensor")));
      }
      return;
    }
    for (std::int64_t i = 0; i < layers; ++i) {
      const auto& layer = config_.layers[static_cast<std::size_t>(i * per_layer)];
      if ((!layer.attention && !layer.recurrent) || held.contains(i)) continue;
      const auto there = std::ranges::count_if(held, [layers](std::int64_t number) { return number < layers; });
      return refuse(fmt::format("config.json says {}, but its files hold tensors for {} of them: layer {} has none",
                                counted(layers, "layer"), there, i));
    }
    const auto most = *held.rbegin() + 1;
    if (most <= layers + static_cast<std::int64_t>(config_.nextn_layers.size())) return;
    found_.push_back(fmt::format("config.json says {}, its files hold tensors for {}", counted(layers, "layer"), most));
  }

  void compare_embedding() {
    const auto tensor = std::ranges::find_if(tensors_, [&](const auto* candidate) {
      const auto number = language_layer(candidate->name);
      return is_plain(*candidate) && is_token_embedding(candidate->name) && !number;
    });
    if (tensor == tensors_.end()) return;
    const auto rows = static_cast<std::int64_t>((*tensor)->shape[0]);
    const auto width = static_cast<std::int64_t>((*tensor)->shape[1]);
    const auto name = printable((*tensor)->name);
    // Some embeddings are narrower than the layers (embedding_size and the like): those files have a projection.
    if (width != config_.hidden_size) {
      const auto what = fmt::format("{} is {} wide, but hidden_size is {}", name, width, config_.hidden_size);
      width > config_.hidden_size&& is_known() ? refuse(what) : found_.push_back(what);
    }
    if (rows == config_.vocabulary) return;
    const auto what = fmt::format("{} has {} rows, but vocab_size is {}", name, rows, config_.vocabulary);
    const bool certain = knows(config_, "vocab_size") && is_known();
    certain ? refuse(what) : found_.push_back(what);
  }

  /// Layers that differ from the others are an architecture's own affair; that none is as config.json says is not.
  void compare_heads(char projection) {
    std::int64_t compared = 0;
    std::int64_t wrong = 0;
    std::string first;
    for (const auto* tensor : tensors_) {
      if (!is_plain(*tensor) || attention_projection(tensor->name) != projection) continue;
      const auto number = language_layer(tensor->name);
      const auto at = number.value_or(0) * config_.attentions_per_layer;
      if (!number || at >= static_cast<std::int64_t>(config_.layers.size())) continue;
      const auto& layer = config_.layers[static_cast<std::size_t>(at)];
      // Only one of two things that go by the same names, and only heads that are projected one by one.
      if (!layer.attention || layer.recurrent || layer.attention->kind == AttentionKind::mla) continue;
      const auto& attention = *layer.attention;
      const auto heads = projection == 'q' ? attention.n_head : attention.n_head_kv;
      const auto size = projection == 'v' ? attention.value_length : attention.key_length;
      const auto rows = static_cast<std::int64_t>(tensor->shape[0]);
      ++compared;
      // A gate of its size may come with the query.
      if (rows == heads * size || (projection == 'q' && rows == 2 * heads * size)) continue;
      ++wrong;
      if (first.empty()) {
        first = fmt::format("{} has {} rows, but config.json says {} heads of {}", printable(tensor->name), rows, heads,
                            size);
      }
    }
    if (wrong == 0) return;
    wrong == compared&& is_known() ? refuse(first) : found_.push_back(first);
  }

  /// Of an architecture that is not known it is not certain what its fields mean, and heads that draft for another
  /// model take some of its sizes.
  [[nodiscard]] bool is_known() const {
    if (config_.architecture.find("Eagle") != std::string::npos) return false;
    return std::ranges::none_of(config_.missing_fields,
                                [](std::string_view field) { return field.starts_with("architectures"); });
  }

  std::string_view path_;
  const HfConfig& config_;
  Tensors tensors_;
  std::vector<std::string> found_;
  std::optional<Error> error_;
};

}  // namespace

Result<std::vector<std::string>> find_contradictions(std::string_view path, const HfConfig& config,
                                                     std::span<const SafetensorsPart> parts) {
  return Contradictions{path, config, parts}.find();
}

}  // namespace dgxmm::model
