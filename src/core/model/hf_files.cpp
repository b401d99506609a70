#include "core/model/hf_files.h"

#include "base/json_codec.h"
#include "base/masking.h"
#include "core/model/split_name.h"

#include <boost/json.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

namespace dgxmm::model {
namespace {

constexpr std::string_view kEnding = ".safetensors";

std::string_view base_name(std::string_view path) {
  const auto slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

bool is_top_level(std::string_view path) { return path.find('/') == std::string_view::npos; }

bool is_consolidated(std::string_view path) {
  return base_name(path).starts_with("consolidated") && path.ends_with(kEnding);
}

// The listing that flips the format walks sub-folders, although only top-level files are loaded afterwards.
bool is_mistral_format(std::span<const std::string> file_names) {
  return std::ranges::any_of(file_names, is_consolidated);
}

Result<std::set<std::string>> files_of_index(std::string_view file, std::string_view text) {
  const auto bad = [file](std::string_view what) {
    return fail("bad_model_file", fmt::format("{}: {}", printable(file), what), "download it again", std::string{file});
  };
  const auto document = json::parse(text);
  if (!document) return bad(document.error().message);
  const auto* object = document->if_object();
  const auto* map = object == nullptr ? nullptr : object->if_contains("weight_map");
  const auto* entries = map == nullptr ? nullptr : map->if_object();
  if (entries == nullptr) return bad("weight_map: expected an object");
  std::set<std::string> files;
  for (const auto& [tensor, value] : *entries) {
    const auto* name = value.if_string();
    if (name == nullptr) return bad(fmt::format("weight_map.{}: expected text", printable(tensor)));
    const std::string_view view{*name};
    // A name that leaves the folder would have us read a file that nobody named.
    if (view.empty() || !is_top_level(view) || view.find('\0') != std::string_view::npos || view == "." ||
        view == "..") {
      return bad(fmt::format("weight_map.{}: '{}' is not a file of this folder", printable(tensor), printable(view)));
    }
    files.emplace(view);
  }
  if (files.empty()) return bad("weight_map: is empty");
  return files;
}

}  // namespace

std::string_view index_file_name(std::span<const std::string> file_names) {
  return is_mistral_format(file_names) ? "consolidated.safetensors.index.json" : "model.safetensors.index.json";
}

Result<WeightFileChoice> choose_weight_files(std::string_view folder, std::span<const std::string> file_names,
                                             std::optional<std::string_view> index) {
  const bool mistral = is_mistral_format(file_names);
  std::set<std::string> chosen;
  for (const auto& name : file_names) {
    if (is_top_level(name) && name.ends_with(kEnding) && (!mistral || is_consolidated(name))) chosen.insert(name);
  }
  // With an index only its files are loaded; one that is not there is for the caller to find missing.
  if (index) {
    auto named = files_of_index(fmt::format("{}/{}", folder, index_file_name(file_names)), *index);
    if (!named) return fail(std::move(named.error()));
    chosen = std::move(*named);
  }
  // Shards without an index: vLLM would load those that are there, and fail late.
  std::set<std::string> expected;
  for (const auto& name : chosen) {
    const auto split = parse_split_name(name, kEnding);
    if (index || !split || expected.contains(name)) continue;
    for (std::uint32_t number = 1; number <= split->count; ++number) expected.insert(split_file_name(*split, number));
  }
  chosen.merge(expected);
  if (chosen.empty() && mistral) {
    return fail(
        "model_not_supported",
        fmt::format("{}: a consolidated*.safetensors below it makes vLLM load files of that name only, and there "
                    "is none in its top level",
                    printable(folder)),
        "move the consolidated files elsewhere", std::string{folder});
  }
  if (chosen.empty()) {
    const bool pickled = std::ranges::any_of(file_names, [](std::string_view name) {
      return is_top_level(name) && (name.ends_with(".bin") || name.ends_with(".pt"));
    });
    return fail("model_not_supported",
                fmt::format("{}: has no *.safetensors file{}", printable(folder),
                            pickled ? ", only PyTorch ones, which are not supported" : " in its top level"),
                "download or convert the model as safetensors", std::string{folder});
  }
  WeightFileChoice choice;
  for (const auto& name : file_names) {
    if (is_top_level(name) && name.ends_with(kEnding) && !chosen.contains(name)) choice.unused.push_back(name);
  }
  std::ranges::sort(choice.unused);
  choice.files.assign(chosen.begin(), chosen.end());
  return choice;
}

}  // namespace dgxmm::model
