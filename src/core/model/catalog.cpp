#include "core/model/catalog.h"

#include "base/masking.h"
#include "core/model/identity.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace dgxmm::model {
namespace {

constexpr std::size_t kShownRevision = 12;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool same_text(std::string_view a, std::string_view b) { return std::ranges::equal(a, b, {}, lower, lower); }

std::string tag_of(const CatalogEntry& entry) {
  const auto tag = quantization_in_name(entry.stem);
  return std::string{tag.empty() ? std::string_view{entry.stem} : tag};
}

/// "ORG/NAME@REVISION:TAG", taken apart.
struct Reference {
  std::string_view repository;
  std::string_view revision;
  std::string_view tag;
};

Reference parse_reference(std::string_view text) {
  Reference reference;
  if (const auto colon = text.rfind(':'); colon != std::string_view::npos) {
    reference.tag = text.substr(colon + 1);
    text = text.substr(0, colon);
  }
  if (const auto at = text.rfind('@'); at != std::string_view::npos) {
    reference.revision = text.substr(at + 1);
    text = text.substr(0, at);
  }
  reference.repository = text;
  return reference;
}

bool is_of_repository(const CatalogEntry& entry, std::string_view name) {
  if (entry.repository.empty()) return false;
  if (same_text(entry.repository, name)) return true;
  return same_text(std::string_view{entry.repository}.substr(entry.repository.rfind('/') + 1), name);
}

using Found = std::vector<const CatalogEntry*>;

template <class Matches>
Found all_that(const std::vector<CatalogEntry>& entries, Matches matches) {
  Found found;
  for (const auto& entry : entries) {
    if (matches(entry)) found.push_back(&entry);
  }
  return found;
}

/// From the narrowest meaning: "Q4_K_M" must not also mean a "UD-Q4_K_M" beside it.
Found with_tag(const Found& candidates, std::string_view tag) {
  const auto that_match = [&](auto text_of) {
    Found found;
    for (const auto* entry : candidates) {
      if (same_text(text_of(*entry), tag)) found.push_back(entry);
    }
    return found;
  };
  if (auto found = that_match(tag_of); !found.empty()) return found;
  if (auto found = that_match([](const CatalogEntry& entry) { return entry.stem; }); !found.empty()) return found;
  return that_match([](const CatalogEntry& entry) { return entry.quantization; });
}

Found of_reference(const Catalog& catalog, const Reference& reference) {
  const auto matches = [&](const CatalogEntry& entry) {
    return is_of_repository(entry, reference.repository) && entry.revision.starts_with(reference.revision);
  };
  auto found = all_that(catalog.models, matches);
  if (!reference.revision.empty()) {
    const auto others = all_that(catalog.other_revisions, matches);
    found.insert(found.end(), others.begin(), others.end());
  }
  if (!reference.tag.empty()) return with_tag(found, reference.tag);
  // The repository itself is its safetensors, whatever GGUF files stand beside them.
  const auto safetensors = std::ranges::count(found, std::optional{Format::safetensors}, &CatalogEntry::format);
  if (safetensors == 1) {
    std::erase_if(found, [](const CatalogEntry* entry) { return entry->format != Format::safetensors; });
  }
  return found;
}

Found meant_by(const Catalog& catalog, std::string_view name) {
  if (auto found = all_that(catalog.models, [&](const auto& entry) { return entry.name == name; }); !found.empty()) {
    return found;
  }
  if (auto found = of_reference(catalog, parse_reference(name)); !found.empty()) return found;
  return all_that(catalog.models, [&](const auto& entry) { return entry.stem == name; });
}

std::unexpected<Error> ambiguous(std::string_view name, const Found& found, std::string_view field) {
  constexpr std::size_t kShown = 6;
  const bool named_apart = found[0]->name != found[1]->name;
  std::string list;
  for (std::size_t i = 0; i < std::min(found.size(), kShown); ++i) {
    list += (i == 0 ? "" : ", ") + printable(named_apart ? found[i]->name : found[i]->path);
  }
  if (found.size() > kShown) list += fmt::format(" and {} more", found.size() - kShown);
  return fail("model_ambiguous", fmt::format("'{}' may be any of {} models: {}", printable(name), found.size(), list),
              fmt::format("give {}", named_apart ? "one of these names" : "the path"), std::string{field});
}

}  // namespace

std::string group_key(const ModelDescription& model) {
  // The words of the name are the last part of the text, and hold no colon.
  const auto words = model.base_model.substr(model.base_model.rfind(':') + 1);
  if (words.empty()) return {};
  return fmt::format("{}/{}x{}", words, model.layers.size(), model.embedding_length);
}

std::string_view group_title(std::string_view key) { return key.substr(0, key.rfind('/')); }

void name_entries(Catalog& catalog) {
  for (auto* entries : {&catalog.models, &catalog.other_revisions}) {
    struct Share {
      std::size_t models = 0, safetensors = 0;
      std::map<std::string, std::size_t> tags;
    };
    std::map<std::pair<std::string, std::string>, Share> shares;
    for (const auto& entry : *entries) {
      auto& share = shares[{entry.repository, entry.revision}];
      ++share.models;
      if (entry.format == Format::safetensors) ++share.safetensors;
      ++share.tags[tag_of(entry)];
    }
    for (auto& entry : *entries) {
      if (entry.repository.empty()) {
        entry.name = printable(entry.stem);
        continue;
      }
      const auto& share = shares[{entry.repository, entry.revision}];
      entry.name = printable(entry.repository);
      if (entries == &catalog.other_revisions) entry.name += "@" + printable(entry.revision.substr(0, kShownRevision));
      const bool whole = share.models == 1 || (entry.format == Format::safetensors && share.safetensors == 1);
      if (whole) continue;
      const auto tag = tag_of(entry);
      entry.name += ":" + printable(share.tags.at(tag) == 1 ? tag : entry.stem);
    }
    std::ranges::sort(*entries, {}, [](const auto& entry) { return std::tie(entry.name, entry.path); });
  }
}

bool is_repository_name(std::string_view text) {
  const auto repository = parse_reference(text).repository;
  const auto slash = repository.find('/');
  return slash != std::string_view::npos && slash > 0 && slash + 1 < repository.size() &&
         repository.find('/', slash + 1) == std::string_view::npos && !repository.starts_with('.') &&
         !repository.starts_with('~') && !text.ends_with(".gguf");
}

Result<std::string> find_model(const Catalog& catalog, std::string_view name, std::string_view field) {
  const auto found = meant_by(catalog, name);
  if (found.size() == 1) return found.front()->path;
  if (found.size() > 1) return ambiguous(name, found, field);
  return fail(
      "model_not_found",
      fmt::format("there is no model named '{}' in the model folders and the Hugging Face cache", printable(name)),
      "`dgxmm models` lists them; a path works too", std::string{field});
}

std::vector<const CatalogEntry*> other_quantizations(std::span<const CatalogEntry> models,
                                                     const ModelDescription& model) {  // P4
  Found found;
  if (model.base_model.empty()) return found;
  for (const auto& entry : models) {
    const bool same = entry.base_model == model.base_model && entry.format == model.format;
    if (same && entry.problem.empty() && entry.path != model.path) found.push_back(&entry);
  }
  std::ranges::sort(found, [](const auto* a, const auto* b) {
    return std::tie(b->size, a->name, a->path) < std::tie(a->size, b->name, b->path);
  });
  const auto same = std::ranges::unique(found, {}, &CatalogEntry::size);
  found.erase(same.begin(), same.end());
  return found;
}

std::vector<const CatalogEntry*> worth_reading(std::vector<const CatalogEntry*> smaller, std::optional<Bytes> room,
                                               std::size_t most) {
  if (smaller.empty()) return smaller;
  const auto* smallest = smaller.back();
  if (room) std::erase_if(smaller, [&](const auto* entry) { return entry->size > *room && entry != smallest; });
  if (smaller.size() > most) {
    smaller.resize(most);
    smaller.back() = smallest;
  }
  return smaller;
}

}  // namespace dgxmm::model
