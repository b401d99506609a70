#include "adapters/modelfs/model_files.h"

#include "adapters/modelfs/header_reader.h"
#include "base/masking.h"
#include "core/model/gguf_description.h"
#include "core/model/hf_config.h"
#include "core/model/hf_files.h"
#include "core/model/split_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>
#include <sys/stat.h>
#include <system_error>
#include <utility>

namespace dgxmm::modelfs {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kGguf = ".gguf";
constexpr std::string_view kSafetensors = ".safetensors";

// A scan ends somewhere, even when someone names "/". A Hugging Face cache is 4 folders deep.
constexpr int kMaxDepth = 8;
constexpr std::size_t kMaxEntries = 200'000;
constexpr std::size_t kMaxModels = 4096;
constexpr std::size_t kMaxFilesOfModel = 10'000;

constexpr std::uint64_t kMaxConfigBytes = 4 * 1024 * 1024;
constexpr std::uint64_t kMaxIndexBytes = 32 * 1024 * 1024;  // one of 138k tensors has 13 MB
constexpr std::uint64_t kMaxRefBytes = 256;

/// What a path leads to in the end: equal for all links to one file.
using Identity = std::pair<std::uint64_t, std::uint64_t>;  // device, inode

std::optional<Identity> identity_of(const fs::path& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return Identity{status.st_dev, status.st_ino};
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

/// Names in a folder, sorted; nothing of it when it cannot be read.
std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (auto it = fs::directory_iterator{folder, error};
       !error && it != fs::directory_iterator{} && names.size() < kMaxEntries; it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

/// The files of a model's folder and of the folders in it, as relative paths.
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

std::string list_some(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kShown); ++i) text += (i > 0 ? ", " : "") + printable(names[i]);
  if (names.size() > kShown) text += fmt::format(" and {} more", names.size() - kShown);
  return text;
}

std::unexpected<Error> incomplete(const fs::path& path, std::size_t all, const std::vector<std::string>& missing) {
  return fail("model_incomplete",
              fmt::format("{}: incomplete: {} of its {} files {} missing: {}", printable(path.string()), missing.size(),
                          all, missing.size() == 1 ? "is" : "are", list_some(missing)),
              "the download did not finish: start it again", path.string());
}

/// `models--ORG--NAME` folders of a Hugging Face cache hold revisions; the one that `refs/main` names is meant.
std::optional<fs::path> chosen_revision(const fs::path& folder) {
  if (!is_folder(folder / "snapshots")) return std::nullopt;
  auto revision = read_whole_file(folder / "refs" / "main", kMaxRefBytes);
  if (!revision) return std::nullopt;
  while (revision->ends_with('\n') || revision->ends_with(' ')) revision->pop_back();
  if (revision->empty() || revision->find('/') != std::string::npos || revision->starts_with('.')) return std::nullopt;
  auto snapshot = folder / "snapshots" / *revision;
  if (!is_folder(snapshot)) return std::nullopt;
  return snapshot;
}

/// A folder's name for people: that of the repository for a revision of a Hugging Face cache.
std::string folder_name(const fs::path& folder) {
  const auto parent = folder.parent_path();
  const auto repository = parent.parent_path().filename().string();
  if (parent.filename() == "snapshots" && repository.starts_with("models--")) {
    return repository.substr(repository.rfind("--") + 2);
  }
  return folder.filename().string();
}

/// A GGUF model: its file or all files of its split, in order.
struct GgufSet {
  std::vector<fs::path> files;
  std::string stem;  ///< file name without ending and split suffix

  [[nodiscard]] std::vector<std::string> missing() const {
    std::vector<std::string> names;
    for (const auto& file : files) {
      if (!is_there(file)) names.push_back(file.filename().string());
    }
    return names;
  }
};

/// The set that a file belongs to: any part of a split leads to all of them.
GgufSet gguf_set_of(const fs::path& file) {
  const auto name = file.filename().string();
  const auto split = model::parse_split_name(name, kGguf);
  if (!split) return {.files = {file}, .stem = file.stem().string()};
  GgufSet set{.files = {}, .stem = split->prefix};
  for (std::uint32_t number = 1; number <= split->count; ++number) {
    set.files.push_back(file.parent_path() / model::split_file_name(*split, number));
  }
  return set;
}

Result<model::ModelDescription> describe_gguf_set(const fs::path& path, const GgufSet& set) {
  const auto missing = set.missing();
  if (!missing.empty() && missing.size() < set.files.size()) return incomplete(path, set.files.size(), missing);
  std::vector<model::GgufPart> parts;
  for (const auto& file : set.files) {
    auto part = read_gguf_file(file);
    if (!part) return fail(std::move(part.error()));
    parts.push_back(std::move(*part));
  }
  return model::describe_gguf(path.string(), set.stem, parts);
}

/// The GGUF models in a folder itself, without projectors and other companions. A file that cannot be read stays: it is
/// reported when it is described.
std::vector<GgufSet> gguf_sets_in(const fs::path& folder, const std::vector<std::string>& names) {
  std::vector<GgufSet> sets;
  std::set<std::string> seen;
  for (const auto& name : names) {
    if (!name.ends_with(kGguf) || is_folder(folder / name)) continue;
    auto set = gguf_set_of(folder / name);
    if (!seen.insert(set.files.front().string()).second) continue;
    const auto part = read_gguf_file(set.files.front());
    if (part && model::companion_kind(part->header)) continue;
    sets.push_back(std::move(set));
  }
  return sets;
}

/// Projectors in a folder, by their usual name: the headers of all other files would take too long to read.
std::vector<std::string> projectors_in(const fs::path& folder) {
  constexpr std::size_t kMost = 16;
  std::vector<std::string> found;
  for (const auto& name : names_in(folder)) {
    if (!name.ends_with(kGguf) || name.find("mmproj") == std::string::npos || found.size() == kMost) continue;
    const auto part = read_gguf_file(folder / name);
    if (part && model::describe_projector(*part)) found.push_back((folder / name).string());
  }
  return found;
}

bool holds_safetensors(const std::vector<std::string>& names) {
  return std::ranges::find(names, "config.json") != names.end() &&
         std::ranges::any_of(names, [](std::string_view name) {
           return name.ends_with(kSafetensors) || name.ends_with(".safetensors.index.json");
         });
}

Result<model::ModelDescription> describe_safetensors_folder(const fs::path& folder) {
  const auto config_path = folder / "config.json";
  const auto config_text = read_whole_file(config_path, kMaxConfigBytes);
  if (!config_text) return fail(config_text.error());
  auto config = model::parse_hf_config(config_path.string(), *config_text);
  if (!config) return fail(config.error());

  const auto files = files_below(folder);
  const auto quantization_path = folder / "hf_quant_config.json";
  if (is_there(quantization_path)) {
    const auto text = read_whole_file(quantization_path, kMaxConfigBytes);
    if (!text) return fail(text.error());
    const auto read = model::read_hf_quant_config(*config, quantization_path.string(), *text);
    if (!read) return fail(read.error());
  }
  std::optional<std::string> index;
  if (const std::string name{model::index_file_name(files)}; std::ranges::find(files, name) != files.end()) {
    auto text = read_whole_file(folder / name, kMaxIndexBytes);
    if (!text) return fail(std::move(text.error()));
    index = std::move(*text);
  }
  const auto choice = model::choose_weight_files(folder.string(), files, index);
  if (!choice) return fail(choice.error());
  std::vector<std::string> missing;
  for (const auto& name : choice->files) {
    if (!is_there(folder / name)) missing.push_back(name);
  }
  if (!missing.empty()) return incomplete(folder, choice->files.size(), missing);

  std::vector<model::SafetensorsPart> parts;
  for (const auto& name : choice->files) {
    auto part = read_safetensors_file(folder / name);
    if (!part) return fail(std::move(part.error()));
    parts.push_back(std::move(*part));
  }
  model::Hasher hasher;
  hasher.add(std::string_view{*config_text});
  return model::describe_safetensors(folder.string(), folder_name(folder), *config, hasher.digest(), parts);
}

/// Why the names in a folder cannot be read; no error when they can.
std::error_code reading_error(const fs::path& folder) {
  std::error_code error;
  const fs::directory_iterator opened{folder, error};
  return error;
}

std::string cannot_be_read(const fs::path& folder, const std::error_code& error) {
  return fmt::format("{}: cannot be read: {}", printable(folder.string()), error.message());
}

Result<model::ModelDescription> describe_folder(const fs::path& folder) {
  if (const auto error = reading_error(folder)) {
    return fail("bad_model_file", cannot_be_read(folder, error),
                error == std::errc::permission_denied ? "let the user that runs dgxmm read it" : "", folder.string());
  }
  const auto names = names_in(folder);
  if (holds_safetensors(names)) return describe_safetensors_folder(folder);
  const auto sets = gguf_sets_in(folder, names);
  if (sets.size() == 1) return describe_gguf_set(folder, sets.front());
  if (sets.size() > 1) {
    std::vector<std::string> stems;
    for (const auto& set : sets) stems.push_back(set.stem);
    return fail("model_not_found",
                fmt::format("{}: holds {} models: {}", printable(folder.string()), sets.size(), list_some(stems)),
                "name the file of one of them", folder.string());
  }
  if (std::ranges::find(names, "adapter_config.json") != names.end()) {
    return fail("model_not_supported", fmt::format("{}: this is an adapter, not a model", printable(folder.string())),
                "name the model that it adapts", folder.string());
  }
  if (std::ranges::find(names, "config.json") != names.end()) return describe_safetensors_folder(folder);
  if (const auto revision = chosen_revision(folder)) return describe_folder(*revision);
  return fail("model_not_found", fmt::format("{}: holds no model", printable(folder.string())),
              "name a GGUF file, or a folder with config.json and safetensors", folder.string());
}

/// Without "." and trailing slashes, so that the last name is the folder's.
fs::path tidied(const std::string& path) {
  auto result = fs::path{path}.lexically_normal();
  if (!result.has_filename() && result.has_parent_path() && result != result.root_path()) result = result.parent_path();
  return result;
}

/// One walk over all folders of a scan.
class Scan {
 public:
  void folder(const fs::path& path, int depth) {
    const auto identity = identity_of(path);
    if (depth > kMaxDepth || !identity || !folders_.insert(*identity).second) return;
    if (const auto error = reading_error(path)) {
      problems_.push_back(cannot_be_read(path, error));
      return;
    }
    const auto names = names_in(path);
    entries_ += names.size();
    if (entries_ > kMaxEntries) return;
    if (holds_safetensors(names)) {
      add_safetensors(path, names);
      return;
    }
    for (const auto& set : gguf_sets_in(path, names)) add_gguf(set);
    if (const auto revision = chosen_revision(path)) {
      folder(*revision, depth + 1);
      return;
    }
    for (const auto& name : names) {
      if (!name.starts_with('.') && is_folder(path / name)) folder(path / name, depth + 1);
    }
  }

  /// One of the folders that were named: that it is missing is worth a word.
  void root(const std::string& named) {
    if (auto problem = folder_problem(named)) {
      problems_.push_back(std::move(*problem));
    } else {
      folder(tidied(named), 0);
    }
  }

  ports::Catalog take() {
    std::ranges::sort(found_, {}, [](const auto& entry) { return std::pair{entry.name, entry.path}; });
    return {.models = std::move(found_), .problems = std::move(problems_)};
  }

 private:
  void add_gguf(const GgufSet& set) {
    Bytes size;
    for (const auto& file : set.files) size += size_of(file);
    // The first part that is there stands for the set.
    const auto present = std::ranges::find_if(set.files, is_there);
    const auto& path = present == set.files.end() ? set.files.front() : *present;
    add({.name = printable(set.stem), .path = path.string(), .format = model::Format::gguf, .size = size}, path,
        [&] { return describe_gguf_set(path, set); });
  }

  void add_safetensors(const fs::path& folder, const std::vector<std::string>& names) {
    Bytes size;
    fs::path first = folder / "config.json";
    for (const auto& name : names) {
      if (!name.ends_with(kSafetensors)) continue;
      if (size == Bytes{} && is_there(folder / name)) first = folder / name;
      size += size_of(folder / name);
    }
    add({.name = printable(folder_name(folder)),
         .path = folder.string(),
         .format = model::Format::safetensors,
         .size = size},
        first, [&] { return describe_safetensors_folder(folder); });
  }

  template <class Describe>
  void add(ports::CatalogEntry entry, const fs::path& identifying_file, Describe describe) {
    if (found_.size() >= kMaxModels) return;
    const auto identity = identity_of(identifying_file);
    if (identity && !files_.insert(*identity).second) return;
    if (const auto description = describe()) {
      entry.size = description->weights.files;
      entry.architecture = description->architecture;
      entry.quantization = description->quantization;
      entry.base_model = description->base_model;
      entry.training_context = description->training_context;
    } else {
      entry.problem = description.error().message;
    }
    found_.push_back(std::move(entry));
  }

  static Bytes size_of(const fs::path& file) {
    std::error_code error;
    const auto size = fs::file_size(file, error);
    return error ? Bytes{} : Bytes{static_cast<std::int64_t>(size)};
  }

  std::set<Identity> folders_;
  std::set<Identity> files_;
  std::size_t entries_ = 0;
  std::vector<ports::CatalogEntry> found_;
  std::vector<std::string> problems_;
};

}  // namespace

Result<model::ModelDescription> FileSystemModels::describe(const std::string& path) {
  const auto tidy = tidied(path);
  auto description = is_folder(tidy) ? describe_folder(tidy) : describe_gguf_set(tidy, gguf_set_of(tidy));
  if (!description) return description;
  description->path = path;
  if (description->format == model::Format::gguf) {
    const auto folder = is_folder(tidy) ? tidy : tidy.parent_path();
    description->projectors = projectors_in(folder.empty() ? "." : folder);
  }
  return description;
}

Result<model::Projector> FileSystemModels::describe_projector(const std::string& path) {
  const auto part = read_gguf_file(tidied(path));
  if (!part) return fail(part.error());
  auto projector = model::describe_projector(*part);
  if (projector) projector->path = path;
  return projector;
}

ports::Catalog FileSystemModels::scan(const std::vector<std::string>& folders) {
  Scan scan;
  for (const auto& folder : folders) scan.root(folder);
  return scan.take();
}

std::optional<std::string> folder_problem(const std::string& folder) {
  const auto error = reading_error(folder);
  if (!error) return std::nullopt;
  if (error == std::errc::no_such_file_or_directory) return printable(folder) + ": does not exist";
  if (error == std::errc::not_a_directory) return printable(folder) + ": is not a folder";
  return cannot_be_read(folder, error);
}

}  // namespace dgxmm::modelfs
