#include "adapters/modelfs/model_sets.h"

#include "adapters/modelfs/header_reader.h"
#include "adapters/modelfs/hub_cache.h"
#include "base/masking.h"
#include "core/model/hf_config.h"
#include "core/model/hf_files.h"
#include "core/model/split_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <system_error>
#include <utility>

namespace dgxmm::modelfs {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxFilesOfModel = 10'000;
// The largest models have some 200 parts. A name that claims more would have us look for all of them.
constexpr std::uint32_t kMaxFilesOfSplit = 1024;

constexpr std::uint64_t kMaxConfigBytes = 4 * 1024 * 1024;
constexpr std::uint64_t kMaxIndexBytes = 32 * 1024 * 1024;  // one of 138k tensors has 13 MB

std::string list_some(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kShown); ++i) text += (i > 0 ? ", " : "") + printable(names[i]);
  if (names.size() > kShown) text += fmt::format(" and {} more", names.size() - kShown);
  return text;
}

std::string size_text(std::uint64_t bytes) {
  constexpr std::uint64_t kMost = INT64_MAX;
  return format_bytes(Bytes{static_cast<std::int64_t>(std::min(bytes, kMost))});
}

std::string unfinished_text(const Unfinished& unfinished) {
  return fmt::format("{} of {} unfinished download{}", size_text(unfinished.bytes), unfinished.files,
                     unfinished.files == 1 ? "" : "s");
}

/// Nothing when all of the files are there.
std::optional<Error> incomplete(const fs::path& path, const std::vector<fs::path>& files) {  // H6
  std::vector<std::string> missing;
  std::uint64_t bytes = 0;
  for (const auto& file : files) {
    if (is_there(file)) {
      bytes += size_of(file);
    } else {
      missing.push_back(file.filename().string());
    }
  }
  if (missing.empty()) return std::nullopt;
  auto text = fmt::format("{}: incomplete: {} of its {} files {} missing: {}; {} are there", printable(path.string()),
                          missing.size(), files.size(), missing.size() == 1 ? "is" : "are", list_some(missing),
                          size_text(bytes));
  const auto repository = repository_folder_of(is_folder(path) ? path : path.parent_path());
  if (const auto unfinished = repository ? unfinished_in(*repository) : Unfinished{}; unfinished.files > 0) {
    text += fmt::format(", and {}", unfinished_text(unfinished));
  }
  return Error{"model_incomplete", std::move(text), "the download did not finish: start it again", path.string()};
}

/// The GGUF models in a folder itself, without projectors and other companions. A file that cannot be read stays: it is
/// reported when it is described.
std::vector<GgufSet> gguf_sets_in(const fs::path& folder, const Listing& listing) {
  std::vector<GgufSet> sets;
  std::set<fs::path> seen;
  for (const auto& name : listing.files) {
    if (!name.ends_with(kGgufEnding)) continue;
    auto set = gguf_set_of(folder / name);
    if (!seen.insert(set.files.front()).second) continue;
    if (auto part = read_gguf_file(set.files.front())) {
      if (model::companion_kind(part->header)) continue;
      set.first = std::move(*part);
    }
    sets.push_back(std::move(set));
  }
  return sets;
}

Result<model::HfConfig> read_config(const fs::path& folder, model::Hasher& hasher) {
  // Mistral's own format does without config.json.
  const bool by_mistral = !is_there(folder / kConfig) && is_there(folder / kParams);
  const auto config_path = folder / (by_mistral ? kParams : kConfig);
  const auto config_text = read_whole_file(config_path, kMaxConfigBytes);
  if (!config_text) return fail(config_text.error());
  hasher.add(std::string_view{*config_text});
  auto config = by_mistral ? model::parse_mistral_params(config_path.string(), *config_text)
                           : model::parse_hf_config(config_path.string(), *config_text);
  if (!config) return config;
  const auto preprocessor_path = folder / "preprocessor_config.json";
  if (!config->encoders.empty() && is_there(preprocessor_path)) {
    const auto text = read_whole_file(preprocessor_path, kMaxConfigBytes);
    if (!text) return fail(text.error());
    const auto read = model::read_preprocessor_config(*config, preprocessor_path.string(), *text);
    if (!read) return fail(read.error());
  }
  const auto quantization_path = folder / "hf_quant_config.json";
  if (!is_there(quantization_path)) return config;
  const auto text = read_whole_file(quantization_path, kMaxConfigBytes);
  if (!text) return fail(text.error());
  if (const auto read = model::read_hf_quant_config(*config, quantization_path.string(), *text); !read) {
    return fail(read.error());
  }
  return config;
}

struct WeightFiles {
  std::vector<fs::path> loaded;
  std::vector<std::string> unused;  ///< names in the folder
};

/// What vLLM would load.
Result<WeightFiles> weight_files(const fs::path& folder) {
  const auto files = files_below(folder);
  std::optional<std::string> index;
  if (const std::string name{model::index_file_name(files)}; std::ranges::find(files, name) != files.end()) {
    auto text = read_whole_file(folder / name, kMaxIndexBytes);
    if (!text) return fail(std::move(text.error()));
    index = std::move(*text);
  }
  const auto choice = model::choose_weight_files(folder.string(), files, index);
  if (!choice) return fail(choice.error());
  WeightFiles files_of_model{.loaded = {}, .unused = choice->unused};
  for (const auto& name : choice->files) files_of_model.loaded.push_back(folder / name);
  return files_of_model;
}

Error nothing_finished(const fs::path& repository, const Unfinished& unfinished) {
  return {
      "model_incomplete",
      fmt::format("{}: incomplete: no model yet, only {}", printable(repository.string()), unfinished_text(unfinished)),
      "wait for the download, or start it again", repository.string()};
}

}  // namespace

GgufSet gguf_set_of(const fs::path& file) {
  const auto split = model::parse_split_name(file.filename().string(), kGgufEnding);
  if (!split || split->count > kMaxFilesOfSplit) return {.files = {file}, .stem = file.stem().string(), .first = {}};
  GgufSet set{.files = {}, .stem = split->prefix, .first = {}};
  for (std::uint32_t number = 1; number <= split->count; ++number) {
    set.files.push_back(file.parent_path() / model::split_file_name(*split, number));
  }
  return set;
}

Result<GgufReading> read_gguf_set(const fs::path& path, GgufSet set, model::DigestOf digest_of,
                                  const model::StopAt& stop) {
  if (std::ranges::any_of(set.files, is_there)) {
    if (auto error = incomplete(path, set.files); error && set.files.size() > 1) return fail(std::move(*error));
  }
  GgufReading reading;
  if (set.first) reading.parts.push_back(std::move(*set.first));
  for (auto i = reading.parts.size(); i < set.files.size(); ++i) {
    auto part = read_gguf_file(set.files[i], digest_of, stop);
    if (!part) return fail(std::move(part.error()));
    reading.parts.push_back(std::move(*part));
  }
  return reading;
}

Result<model::ModelDescription> describe_gguf_set(const fs::path& path, GgufSet set) {
  const auto stem = set.stem;
  const auto reading = read_gguf_set(path, std::move(set));
  if (!reading) return fail(reading.error());
  return model::describe_gguf(path.string(), stem, reading->parts);
}

bool holds_safetensors(const Listing& listing) {
  const bool described = listing.has(kConfig);
  const bool by_mistral = listing.has(kParams);
  return std::ranges::any_of(listing.files, [=](std::string_view name) {
    const bool weights = name.ends_with(kSafetensorsEnding) || name.ends_with(".safetensors.index.json");
    return weights && (described || (by_mistral && name.starts_with("consolidated")));
  });
}

std::string folder_name(const fs::path& folder) {
  const auto repository = repository_folder_of(folder);
  if (!repository) return folder.filename().string();
  const auto name = repository_of(repository->filename().string()).value_or("");
  return name.substr(name.rfind('/') + 1);
}

std::vector<std::string> files_below(const fs::path& folder) {
  std::vector<std::string> files;
  std::error_code error;
  constexpr auto kSkip = fs::directory_options::skip_permission_denied;
  for (auto it = fs::recursive_directory_iterator{folder, kSkip, error};
       !error && it != fs::recursive_directory_iterator{} && files.size() < kMaxFilesOfModel; it.increment(error)) {
    std::error_code ignored;
    if (it.depth() >= kMaxDepth) it.disable_recursion_pending();
    if (!it->is_directory(ignored)) files.push_back(it->path().lexically_relative(folder).string());
  }
  return files;
}

Result<model::ModelDescription> describe_safetensors_folder(const fs::path& folder) {
  model::Hasher hasher;
  const auto config = read_config(folder, hasher);
  if (!config) return fail(config.error());
  const auto files = weight_files(folder);
  if (!files) return fail(files.error());
  if (auto error = incomplete(folder, files->loaded)) return fail(std::move(*error));
  std::vector<model::SafetensorsPart> parts;
  for (const auto& file : files->loaded) {
    auto part = read_safetensors_file(file);
    if (!part) return fail(std::move(part.error()));
    parts.push_back(std::move(*part));
  }
  auto model = model::describe_safetensors(folder.string(), folder_name(folder), *config, hasher.digest(), parts);
  if (model && !files->unused.empty()) {
    model->notes.push_back(fmt::format("vLLM does not load {}", list_some(files->unused)));
  }
  return model;
}

Result<model::ModelDescription> describe_folder(const fs::path& folder) {
  const auto listing = list_folder(folder);
  if (listing.error) {
    return fail("bad_model_file", cannot_be_read(folder, listing.error),
                listing.error == std::errc::permission_denied ? "let the user that runs dgxmm read it" : "",
                folder.string());
  }
  if (holds_safetensors(listing)) return describe_safetensors_folder(folder);
  auto sets = gguf_sets_in(folder, listing);
  if (sets.size() == 1) return describe_gguf_set(folder, std::move(sets.front()));
  if (sets.size() > 1) {
    std::vector<std::string> stems;
    for (const auto& set : sets) stems.push_back(set.stem);
    return fail("model_not_found",
                fmt::format("{}: holds {} models: {}", printable(folder.string()), sets.size(), list_some(stems)),
                "name the file of one of them", folder.string());
  }
  const auto repository = repository_folder_of(folder).value_or(folder);
  if (const auto unfinished = unfinished_in(repository); unfinished.files > 0 && sets.empty()) {
    const auto snapshot = repository == folder ? chosen_snapshot(folder) : std::nullopt;
    return snapshot ? describe_folder(*snapshot) : fail(nothing_finished(repository, unfinished));
  }
  if (listing.has("adapter_config.json")) {
    return fail("model_not_supported", fmt::format("{}: this is an adapter, not a model", printable(folder.string())),
                "name the model that it adapts", folder.string());
  }
  if (listing.has(kConfig)) return describe_safetensors_folder(folder);
  if (const auto snapshot = chosen_snapshot(folder)) return describe_folder(*snapshot);
  return fail("model_not_found", fmt::format("{}: holds no model", printable(folder.string())),
              "name a GGUF file, or a folder with config.json and safetensors", folder.string());
}

}  // namespace dgxmm::modelfs
