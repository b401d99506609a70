#include "core/memory/vllm_ranks.h"

#include "core/memory/rounding.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

namespace dgxmm::memory::vllm {
namespace {

class Sharing {
 public:
  explicit Sharing(std::int64_t ranks) : ranks_(ranks) {}

  void share(model::Layer& layer) {
    if (layer.attention) share(*layer.attention);
    if (layer.cross_attention) share(*layer.cross_attention);
    if (layer.recurrent) share(*layer.recurrent);
    layer.feed_forward_length = ceil_div(layer.feed_forward_length, ranks_);
  }

  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  void refuse(std::string problem) {
    if (problem_.empty()) problem_ = std::move(problem);
  }

  void share(model::Attention& attention) {
    if (attention.n_head % ranks_ != 0) {
      return refuse(fmt::format("{} attention heads cannot be shared by {} ranks", attention.n_head, ranks_));
    }
    attention.n_head /= ranks_;
    if (attention.kind == model::AttentionKind::mla || attention.compress_ratio) return;
    const auto heads = attention.n_head_kv;
    if (heads % ranks_ != 0 && ranks_ % heads != 0) {
      return refuse(fmt::format("{} KV heads can neither be shared nor doubled by {} ranks", heads, ranks_));
    }
    attention.n_head_kv = std::max<std::int64_t>(heads / ranks_, 1);
  }

  void share(model::RecurrentState& state) {
    if (state.shares == 0 || state.shares % ranks_ != 0) {
      return refuse(
          fmt::format("the states of {} heads or channels cannot be shared by {} ranks", state.shares, ranks_));
    }
    // With more ranks than groups each rank has a group of its own.
    if (state.groups > 0 && state.groups % ranks_ != 0) {
      const auto more = std::max<std::int64_t>(ranks_ - state.groups, 0) * state.group_convolved;
      const auto columns = state.convolved == 0 ? 0 : state.conv_elements / state.convolved;
      state.convolved += more;
      state.conv_elements += columns * more;
    }
    state.conv_elements = ceil_div(state.conv_elements, ranks_);
    state.convolved = ceil_div(state.convolved, ranks_);
    state.state_elements = ceil_div(state.state_elements, ranks_);
    state.projected = ceil_div(state.projected, ranks_);
    state.inner = ceil_div(state.inner, ranks_);
  }

  std::int64_t ranks_;
  std::string problem_;
};

}  // namespace

Result<model::ModelDescription> rank_of(const model::ModelDescription& model, std::int64_t ranks) {
  auto rank = model;
  if (ranks == 1) return rank;
  Sharing sharing{ranks};
  for (auto& layer : rank.layers) sharing.share(layer);
  for (auto& layer : rank.nextn_layers) sharing.share(layer);
  if (!sharing.problem().empty()) {
    return fail("bad_configuration", fmt::format("tensor_parallel_size: {}", sharing.problem()),
                "choose a size that divides them, usually a power of two", "tensor_parallel_size");
  }
  if (rank.experts) {
    auto& experts = *rank.experts;
    experts.feed_forward_length = ceil_div(experts.feed_forward_length, ranks);
    experts.shared_feed_forward_length = ceil_div(experts.shared_feed_forward_length, ranks);
  }
  return rank;
}

}  // namespace dgxmm::memory::vllm
