#include "adapters/modelfs/catalog_scan.h"

#include "adapters/modelfs/hub_cache.h"
#include "adapters/modelfs/model_files.h"
#include "adapters/modelfs/model_sets.h"
#include "adapters/modelfs/paths.h"
#include "base/masking.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <filesystem>
#include <malloc.h>
#include <optional>
#include <set>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>
#include <variant>

namespace dgxmm::modelfs {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxModels = 4096;
constexpr std::size_t kMaxThreads = 4;
constexpr std::size_t kHeadersPerThread = 16;  // fewer are read sooner than a thread is started

Bytes bytes_of(std::uint64_t size) {
  return Bytes{static_cast<std::int64_t>(std::min<std::uint64_t>(size, INT64_MAX))};
}

/// A repository of a Hugging Face cache during the walk.
struct Repository {
  std::string name;
  fs::path folder;
  std::string revision;
  Unfinished unfinished;
};

/// What may be a model: its headers are not read yet.
struct Candidate {
  model::CatalogEntry entry;
  fs::path path;
  std::optional<GgufSet> set;  ///< absent: a folder of safetensors
  model::Digest stamp;
  ModelFacts facts;
  bool known = false;
  bool changed_while_read = false;
};

model::Digest stamp_of(const Candidate& candidate) {
  model::Hasher hasher;
  hasher.add(std::string_view{candidate.path.native()});
  if (candidate.set) {
    for (const auto& file : candidate.set->files) add_stamp(hasher, file);
  } else {
    // Every name counts: one more file can change which ones vLLM loads.
    auto files = files_below(candidate.path);
    std::ranges::sort(files);
    for (const auto& file : files) {
      hasher.add(std::string_view{file});
      add_stamp(hasher, candidate.path / file);
    }
  }
  const auto repository = repository_folder_of(candidate.set ? candidate.path.parent_path() : candidate.path);
  if (repository) {
    const auto unfinished = unfinished_in(*repository);
    hasher.add(std::uint64_t{unfinished.files});
    hasher.add(unfinished.bytes);
  }
  return hasher.digest();
}

Result<model::ModelDescription> describe(const Candidate& candidate, const model::StopAt& stop, bool& companion) {
  if (!candidate.set) return describe_safetensors_folder(candidate.path);
  const auto reading = read_gguf_set(candidate.path, *candidate.set, model::DigestOf::nothing, stop);
  if (!reading) return fail(reading.error());
  companion = reading->companion();
  return model::describe_gguf(candidate.path.string(), candidate.set->stem, reading->parts);
}

ModelFacts read_facts(const Candidate& candidate, const model::StopAt& stop) {
  ModelFacts facts{.size = candidate.entry.size,
                   .architecture = {},
                   .quantization = {},
                   .base_model = {},
                   .group = {},
                   .problem = {}};
  const auto description = describe(candidate, stop, facts.companion);
  if (!description) {
    facts.problem = description.error().message;
    return facts;
  }
  facts.size = description->weights.files;
  facts.architecture = description->architecture;
  facts.quantization = description->quantization;
  facts.base_model = description->base_model;
  facts.group = model::group_key(*description);
  facts.training_context = description->training_context;
  return facts;
}

/// Stops at the first key that a quantization of this model would not have.
model::StopAt unless_it_is(const model::ModelDescription& model) {
  return [&model, length = model.architecture + ".embedding_length", context = model.architecture + ".context_length"](
             std::string_view key, const model::GgufValue& value) {
    const auto is = [&value](const auto& wanted) {
      const auto* found = std::get_if<std::remove_cvref_t<decltype(wanted)>>(&value);
      return found != nullptr && *found == wanted;
    };
    if (key == "general.architecture") return !is(model.architecture);
    if (key == length) return !is(model.embedding_length);
    return key == context && !is(model.training_context);
  };
}

/// Reads the headers of all candidates that are not known.
void read_all(std::vector<Candidate>& candidates, const model::StopAt& stop = {}) {
  std::vector<Candidate*> unknown;
  for (auto& candidate : candidates) {
    if (!candidate.known) unknown.push_back(&candidate);
  }
  std::atomic<std::size_t> next{0};
  std::exception_ptr failure;
  std::mutex failure_mutex;
  const auto work = [&] {
    try {
      for (auto i = next++; i < unknown.size(); i = next++) {
        unknown[i]->facts = read_facts(*unknown[i], stop);
        unknown[i]->changed_while_read = stamp_of(*unknown[i]) != unknown[i]->stamp;
      }
    } catch (...) {
      const std::lock_guard lock{failure_mutex};
      failure = std::current_exception();
    }
  };
  {
    const auto cores = std::max<std::size_t>(std::thread::hardware_concurrency(), 1);
    const auto wanted = std::min({cores, kMaxThreads, unknown.size() / kHeadersPerThread + 1});
    std::vector<std::jthread> helpers;
    for (std::size_t i = 1; i < wanted; ++i) helpers.emplace_back(work);
    work();
  }
  if (failure) std::rethrow_exception(failure);
}

/// One walk over all folders of a scan.
class Walk {
 public:
  /// One of the folders that were named: that it is missing is worth a word.
  void root(const model::SearchedFolder& named) {
    const auto path = tidied(named.path);
    if (auto problem = folder_problem(named.path)) {
      // Nobody can watch what is not there, but where it will appear.
      if (is_folder(path.parent_path())) catalog_.folders.push_back(path.parent_path().string());
      std::error_code ignored;
      if (!named.may_be_missing || fs::exists(path, ignored)) catalog_.problems.push_back(std::move(*problem));
      return;
    }
    folder(path, 0, nullptr);
  }

  void read(FactsMemory& memory) {
    const auto known = memory.copy();
    for (auto& candidate : candidates_) {
      candidate.stamp = stamp_of(candidate);
      const auto found = known.find(candidate.stamp);
      if (found == known.end()) continue;
      candidate.facts = found->second;
      candidate.known = true;
    }
    read_all(candidates_);
    FactsMemory::Map facts;
    for (const auto& candidate : candidates_) {
      if (!candidate.changed_while_read) facts.emplace(candidate.stamp, candidate.facts);
    }
    memory.replace(std::move(facts));
  }

  /// Only what may be a quantization of this model.
  void read_like(const model::ModelDescription& model) {
    std::erase_if(candidates_, [&](const Candidate& candidate) {
      if (candidate.entry.format != model.format) return true;
      // The identity of a folder has its name; that of a GGUF file rather what the file says.
      return !candidate.set && model::name_without_quantization(folder_name(candidate.path)) !=
                                   model::words_of_identity(model.base_model);
    });
    read_all(candidates_, unless_it_is(model));
  }

  model::Catalog take() {
    for (auto& candidate : candidates_) {
      if (candidate.facts.companion) continue;
      auto& entry = candidate.entry;
      entry.size = candidate.facts.size;
      entry.architecture = std::move(candidate.facts.architecture);
      entry.quantization = std::move(candidate.facts.quantization);
      entry.base_model = std::move(candidate.facts.base_model);
      entry.group = std::move(candidate.facts.group);
      entry.training_context = candidate.facts.training_context;
      entry.problem = std::move(candidate.facts.problem);
      catalog_.models.push_back(std::move(entry));
    }
    for (const auto& repository : repositories_) add_unfinished(repository);
    model::name_entries(catalog_);
    std::ranges::sort(catalog_.folders);
    const auto same = std::ranges::unique(catalog_.folders);
    catalog_.folders.erase(same.begin(), same.end());
    return std::move(catalog_);
  }

 private:
  /// `repository`: whose snapshot it is, or null.
  void folder(const fs::path& path, int depth, const Repository* repository) {
    const auto identity = identity_of(path);
    if (depth > kMaxDepth || !identity || !folders_.insert(*identity).second) return;
    if (repository == nullptr && is_other_repository(path.filename().native())) return;
    if (names_ >= kMaxNames) return;
    const auto listing = list_folder(path, kMaxNames - names_);
    if (listing.error) {
      catalog_.problems.push_back(cannot_be_read(path, listing.error));
      return;
    }
    catalog_.folders.push_back(path.string());
    names_ += listing.names;
    if (names_ >= kMaxNames) {
      catalog_.problems.push_back(fmt::format("{}: more than {} names below the model folders: the rest is left out",
                                              printable(path.string()), kMaxNames));
    }
    // A pipeline that makes pictures: the folders in it are no models of their own.
    if (listing.has("model_index.json")) return;
    const bool is_model = holds_safetensors(listing);
    if (is_model) add_safetensors(path, listing, repository);
    add_gguf_files(path, listing, repository);
    if (repository == nullptr && add_repository(path, depth, listing)) return;
    // The folders of a model are parts of it, but for those of a repository that holds many.
    if (is_model) return;
    for (const auto& name : listing.folders) {
      if (!name.starts_with('.')) folder(path / name, depth + 1, repository);
    }
  }

  /// Whether the folder is a repository of a Hugging Face cache.
  bool add_repository(const fs::path& path, int depth, const Listing& listing) {
    const auto name = repository_of(path.filename().native());
    const auto holds = [&](std::string_view part) { return std::ranges::binary_search(listing.folders, part); };
    if (!name || (!holds("snapshots") && !holds("blobs"))) return false;
    for (const auto* part : {"snapshots", "refs", "blobs"}) {
      if (holds(part)) catalog_.folders.push_back((path / part).string());
    }
    Repository repository{.name = *name, .folder = path, .revision = {}, .unfinished = unfinished_in(path)};
    const auto revisions = revisions_in(path);
    for (const auto& revision : revisions) {
      repository.revision = revision;
      const auto snapshot = path / "snapshots" / revision;
      if (revision == revisions.front()) {
        folder(snapshot, depth + 1, &repository);
      } else {
        add_other_revision(snapshot, repository);
      }
    }
    repository.revision = revisions.empty() ? std::string{} : revisions.front();
    if (repository.unfinished.files > 0) repositories_.push_back(std::move(repository));
    return true;
  }

  static model::CatalogEntry entry_of(const fs::path& path, std::string stem, model::Format format,
                                      const Repository* repository) {
    model::CatalogEntry entry{.name = {},
                              .path = path.string(),
                              .format = format,
                              .size = {},
                              .architecture = {},
                              .quantization = {},
                              .base_model = {},
                              .problem = {},
                              .stem = std::move(stem)};
    if (repository != nullptr) {
      entry.repository = repository->name;
      entry.revision = repository->revision;
    }
    return entry;
  }

  void add_gguf_files(const fs::path& folder, const Listing& listing, const Repository* repository) {
    std::set<fs::path> seen;
    for (const auto& name : listing.files) {
      if (!name.ends_with(kGgufEnding)) {
        if (name.find(kGgufEnding) != std::string::npos) add_half_downloaded(folder / name);
        continue;
      }
      auto set = gguf_set_of(folder / name);
      if (!seen.insert(set.files.front()).second) continue;
      // The first part that is there stands for the set.
      const auto present = std::ranges::find_if(set.files, is_there);
      const auto path = present == set.files.end() ? set.files.front() : *present;
      Candidate candidate{.entry = entry_of(path, set.stem, model::Format::gguf, repository), .path = path};
      for (const auto& file : set.files) candidate.entry.size += bytes_of(size_of(file));
      candidate.set = std::move(set);
      add(std::move(candidate), path);
    }
  }

  void add_safetensors(const fs::path& folder, const Listing& listing, const Repository* repository) {
    Candidate candidate{.entry = entry_of(folder, folder_name(folder), model::Format::safetensors, repository),
                        .path = folder};
    fs::path first = folder / kConfig;
    for (const auto& name : listing.files) {
      if (!name.ends_with(kSafetensorsEnding)) continue;
      if (candidate.entry.size == Bytes{} && is_there(folder / name)) first = folder / name;
      candidate.entry.size += bytes_of(size_of(folder / name));
    }
    add(std::move(candidate), first);
  }

  void add(Candidate candidate, const fs::path& identifying_file) {
    if (candidates_.size() >= kMaxModels) {
      if (std::exchange(full_, true)) return;
      catalog_.problems.push_back(fmt::format("{}: more than {} models: the rest is left out",
                                              printable(identifying_file.parent_path().string()), kMaxModels));
      return;
    }
    const auto identity = identity_of(identifying_file);
    if (identity && !files_.insert(*identity).second) return;
    candidates_.push_back(std::move(candidate));
  }

  void add_half_downloaded(const fs::path& file) {
    const auto whole = file.stem();  // without the ending of the downloader
    auto entry = entry_of(file, whole.stem().string(), model::Format::gguf, nullptr);
    entry.size = bytes_of(size_of(file));
    entry.problem = fmt::format("{}: incomplete: a download that has not finished; {} are there",
                                printable(file.string()), format_bytes(entry.size));
    if (catalog_.models.size() < kMaxModels) catalog_.models.push_back(std::move(entry));
  }

  /// Another commit than the chosen one: to be found by its name, and read when it is asked for.
  void add_other_revision(const fs::path& snapshot, const Repository& repository) {
    const auto listing = list_folder(snapshot);
    names_ += listing.names;
    const auto add_entry = [&](const fs::path& path, std::string stem, model::Format format) {
      if (catalog_.other_revisions.size() >= kMaxModels) return;
      catalog_.other_revisions.push_back(entry_of(path, std::move(stem), format, &repository));
    };
    if (holds_safetensors(listing)) add_entry(snapshot, folder_name(snapshot), model::Format::safetensors);
    std::set<fs::path> seen;
    for (const auto& name : listing.files) {
      if (!name.ends_with(kGgufEnding) || name.starts_with("mmproj")) continue;
      auto set = gguf_set_of(snapshot / name);
      if (seen.insert(set.files.front()).second) add_entry(snapshot / name, set.stem, model::Format::gguf);
    }
  }

  /// A repository none of whose models is there yet is listed with what is; of one that has models, more is on its way.
  void add_unfinished(const Repository& repository) {
    std::size_t models = 0;
    bool is_told = false;
    for (const auto& entry : catalog_.models) {
      if (entry.repository != repository.name || entry.revision != repository.revision) continue;
      ++models;
      is_told = is_told || !entry.problem.empty();
    }
    if (models == 0) {
      const auto description = describe_folder(repository.folder);
      auto entry = entry_of(repository.folder, repository.name.substr(repository.name.rfind('/') + 1),
                            model::Format::safetensors, &repository);
      entry.format.reset();
      entry.size = bytes_of(repository.unfinished.bytes);
      entry.problem = description ? "incomplete" : description.error().message;
      catalog_.models.push_back(std::move(entry));
    } else if (!is_told) {
      catalog_.problems.push_back(
          fmt::format("{}: a download has not finished: {} of {} more file{} are there", printable(repository.name),
                      format_bytes(bytes_of(repository.unfinished.bytes)), repository.unfinished.files,
                      repository.unfinished.files == 1 ? "" : "s"));
    }
  }

  std::set<Identity> folders_;
  std::set<Identity> files_;
  std::size_t names_ = 0;
  bool full_ = false;
  std::vector<Candidate> candidates_;
  std::vector<Repository> repositories_;  ///< with unfinished downloads
  model::Catalog catalog_;
};

}  // namespace

FactsMemory::Map FactsMemory::copy() {
  const std::lock_guard lock{mutex_};
  return facts_;
}

void FactsMemory::replace(Map facts) {
  const std::lock_guard lock{mutex_};
  facts_ = std::move(facts);
}

model::Catalog scan_folders(const std::vector<model::SearchedFolder>& folders, FactsMemory& memory) {
  Walk walk;
  for (const auto& folder : folders) walk.root(folder);
  walk.read(memory);
  auto catalog = walk.take();
  // What reading headers took on several threads would stay with each of them.
  ::malloc_trim(0);
  return catalog;
}

std::vector<model::CatalogEntry> find_quantizations(const std::vector<model::SearchedFolder>& folders,
                                                    const model::ModelDescription& model) {
  std::vector<model::CatalogEntry> found;
  if (model.base_model.empty()) return found;
  Walk walk;
  for (const auto& folder : folders) walk.root(folder);
  walk.read_like(model);
  const auto catalog = walk.take();
  for (const auto* entry : model::other_quantizations(catalog.models, model)) found.push_back(*entry);
  return found;
}

}  // namespace dgxmm::modelfs
