// What a model sees or hears with: encoders of config.json.
#include "base/json_codec.h"
#include "base/masking.h"
#include "core/model/hf_layers.h"

#include <boost/json.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>

namespace dgxmm::model {
namespace {

namespace bj = boost::json;

constexpr std::int64_t kMostPatches = std::int64_t{1} << 24;

const bj::object* member(const bj::object& object, std::string_view key) {
  const auto* value = object.if_contains(key);
  return value == nullptr ? nullptr : value->if_object();
}

/// A whole number above 0, or the first of a list such as `[14, 14]`. Encoders are described in many ways: one that is
/// not understood is an absent figure, not an error.
std::optional<std::int64_t> count(const bj::object& object, std::initializer_list<std::string_view> names,
                                  std::int64_t most = kMaxHfLength) {
  for (const auto name : names) {
    const auto* value = object.if_contains(name);
    if (value == nullptr) continue;
    const auto* list = value->if_array();
    if (list != nullptr && !list->empty()) value = &list->front();
    const auto* number = value->if_int64();
    if (number != nullptr && *number > 0 && *number <= most) return *number;
  }
  return std::nullopt;
}

/// A ratio such as 0.5 of the side of a picture: 2.
std::optional<std::int64_t> inverse(const bj::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  if (value == nullptr || !value->is_number()) return std::nullopt;
  const auto ratio = value->to_number<double>();
  constexpr double kLeast = 1.0 / 64;
  if (!(ratio >= kLeast) || ratio > 1) return std::nullopt;
  return std::lround(1 / ratio);
}

/// How many patches of a side become one token of the language model.
std::int64_t merged_side(const bj::object& whole, const bj::object& vision) {
  constexpr std::int64_t kMost = 64;
  if (const auto side = count(vision, {"spatial_merge_size", "merge_kernel_size"}, kMost)) return *side;
  if (const auto side = count(whole, {"spatial_merge_size", "scale_factor", "downsample_factor"}, kMost)) return *side;
  if (const auto side = inverse(vision, "pixel_shuffle_ratio")) return *side;
  if (const auto side = inverse(whole, "downsample_ratio")) return *side;
  // Qwen2-VL leaves its class's default out.
  return vision.contains("temporal_patch_size") || vision.contains("spatial_patch_size") ? 2 : 1;
}

/// Pieces of the size of the encoder's input that a large picture is cut into, and the whole of it once more.
std::int64_t tiles(const bj::object& whole, const bj::object& vision) {
  constexpr std::int64_t kMost = 256;
  if (const auto most = count(whole, {"max_dynamic_patch", "max_tiles"}, kMost)) return *most + 1;
  const auto* type = vision.if_contains("model_type");
  const auto* name = type == nullptr ? nullptr : type->if_string();
  constexpr std::int64_t kLlama4 = 16;  // its processor's max_patches
  if (name != nullptr && *name == "llama4_vision_model") return kLlama4 + 1;
  std::int64_t most = 0;
  const auto side = count(vision, {"image_size"}).value_or(0);
  const auto* points = whole.if_contains("image_grid_pinpoints");
  const auto* list = points == nullptr ? nullptr : points->if_array();
  for (std::size_t i = 0; list != nullptr && side > 0 && i < list->size(); ++i) {
    const auto* point = (*list)[i].if_array();
    if (point == nullptr || point->size() != 2 || !(*point)[0].is_int64() || !(*point)[1].is_int64()) continue;
    const auto cut = [&](std::size_t at) {
      return std::clamp<std::int64_t>((*point)[at].get_int64(), 0, kMaxHfLength) / side;
    };
    most = std::max(most, std::min(cut(0) * cut(1), kMost));
  }
  return most + 1;
}

std::optional<Encoder> vision_encoder(const bj::object& whole, const bj::object& vision,
                                      std::vector<std::string>& missing) {
  const auto width = count(vision, {"embed_dim", "hidden_size", "vt_hidden_size", "width", "d_model"});
  if (!width) {
    missing.emplace_back("vision_config.hidden_size");
    return std::nullopt;
  }
  const auto side = merged_side(whole, vision);
  Encoder encoder{.input = "pictures", .width = *width};
  const auto patch = count(vision, {"patch_size", "spatial_patch_size"});
  const auto picture = count(vision, {"max_image_size", "image_size"});
  // Encoders of one size of picture take larger ones in tiles; those that also take films take any size.
  if (patch && picture && !vision.contains("temporal_patch_size")) {
    const auto row = std::max<std::int64_t>(*picture / *patch, 1);
    const auto pieces = tiles(whole, vision);
    encoder.item_patches = std::min(row * row * pieces, kMostPatches);
    const auto tokens = count(whole, {"mm_tokens_per_image", "vision_soft_tokens_per_image"});
    encoder.item_tokens = tokens ? *tokens : std::max<std::int64_t>(encoder.item_patches / (side * side), 1);
    return encoder;
  }
  // The most that the processors of Qwen2-VL to Qwen3-VL make of one picture by default.
  constexpr std::int64_t kMostTokens = 16'384;
  encoder.item_tokens = kMostTokens;
  encoder.item_patches = kMostTokens * side * side;
  encoder.token_pixels = patch.value_or(0) * patch.value_or(0) * side * side;
  return encoder;
}

/// Sound comes in pieces of 30 s: 1500 positions in every encoder built on Whisper's, of which up to four become one.
std::optional<Encoder> sound_encoder(const bj::object& sound, bool merges, std::string_view name,
                                     std::vector<std::string>& missing) {
  constexpr std::int64_t kPositions = 1500;
  constexpr std::int64_t kMerged = 4;
  const auto width = count(sound, {"d_model", "hidden_size"});
  if (!width) {
    missing.push_back(std::string{name} + ".d_model");
    return std::nullopt;
  }
  const auto positions = count(sound, {"max_source_positions"}).value_or(kPositions);
  return Encoder{.input = "sound",
                 .width = *width,
                 .item_patches = positions,
                 .item_tokens = merges ? std::max<std::int64_t>(positions / kMerged, 1) : positions};
}

}  // namespace

std::vector<Encoder> read_hf_encoders(const HfReader& read, HfFamily family, std::vector<std::string>& missing) {
  const auto& document = read.document();
  if (family == HfFamily::whisper) {
    const auto encoder = sound_encoder(document, false, "config", missing);
    return encoder ? std::vector{*encoder} : std::vector<Encoder>{};
  }
  std::vector<Encoder> encoders;
  const auto* thinker = member(document, "thinker_config");
  const auto& whole = thinker == nullptr ? document : *thinker;
  const auto* vision = member(whole, "vision_config");
  if (vision != nullptr && !vision->empty()) {
    if (const auto encoder = vision_encoder(whole, *vision, missing)) encoders.push_back(*encoder);
  }
  const auto* sound = member(whole, "audio_config");
  if (sound != nullptr && !sound->empty()) {
    if (const auto encoder = sound_encoder(*sound, true, "audio_config", missing)) encoders.push_back(*encoder);
  }
  return encoders;
}

Result<void> read_preprocessor_config(HfConfig& config, std::string_view file, std::string_view text) {
  const auto document = json::parse(without_infinities(text));
  const auto* object = document ? document->if_object() : nullptr;
  if (object == nullptr) {
    return fail("bad_model_file",
                fmt::format("{}: {}", printable(file), document ? "expected an object" : document.error().message),
                "download it again", std::string{file});
  }
  constexpr std::int64_t kMostPixels = std::int64_t{1} << 32;
  auto pixels = count(*object, {"max_pixels"}, kMostPixels);
  const auto* size = member(*object, "size");
  if (!pixels && size != nullptr) pixels = count(*size, {"max_pixels", "longest_edge"}, kMostPixels);
  for (auto& encoder : config.encoders) {
    if (encoder.token_pixels == 0 || pixels.value_or(0) < encoder.token_pixels) continue;
    const auto patches_of_token = encoder.item_patches / encoder.item_tokens;
    encoder.item_tokens = std::min(*pixels / encoder.token_pixels, kMostPatches / patches_of_token);
    encoder.item_patches = encoder.item_tokens * patches_of_token;
  }
  return {};
}

}  // namespace dgxmm::model
