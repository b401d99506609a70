#include "core/model/hf_reader.h"

#include "base/masking.h"

#include <boost/json.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace dgxmm::model {
namespace {

namespace bj = boost::json;

// Where files of models that also see or hear keep the language model, and its speaking half after that
// (get_hf_text_config, vllm/transformers_utils/config.py at 017e9f44).
constexpr auto kParts = std::to_array<std::string_view>(
    {"vlm_config", "thinker_config", "text_config", "llm_config", "language_config", "language_model_config", "llm"});

const bj::object* member(const bj::object& object, std::string_view key) {
  const auto* value = object.if_contains(key);
  return value == nullptr ? nullptr : value->if_object();
}

const bj::value* known(const bj::object& object, std::string_view key) {
  const auto* value = object.if_contains(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

}  // namespace

HfReader::HfReader(std::string_view file, const bj::object& document)
    : file_(file),
      document_(&document),
      part_(&document) {
  for (const auto key : kParts) {
    if (const auto* inner = member(*part_, key); inner != nullptr && !inner->empty()) {
      part_ = inner;
      prefix_ += std::string{key} + ".";
    }
  }
}

void HfReader::refuse(std::string code, std::string_view what, std::string hint) {
  if (error_) return;
  if (hint.empty()) {
    hint = code == "model_not_supported" ? "it can be used once dgxmm knows its layers"
                                         : "compare the file with the one that its authors publish";
  }
  error_ = Error{std::move(code), fmt::format("{}: {}", printable(file_), what), std::move(hint), file_};
}

std::string HfReader::name_of(std::string_view key) const { return prefix_ + std::string{key}; }

void HfReader::malformed(std::string_view key, std::string_view expected) {
  refuse("bad_model_file", fmt::format("{}: expected {}", name_of(key), expected));
}

const bj::value* HfReader::find(std::string_view key) const { return known(*part_, key); }

const bj::value* HfReader::find_anywhere(std::string_view key) const {
  const auto* value = find(key);
  return value == nullptr ? known(*document_, key) : value;
}

bool HfReader::is_set(std::string_view key) const {
  const auto* value = find(key);
  if (value == nullptr) return false;
  if (const auto* number = value->if_int64()) return *number != 0;
  if (const auto* flag = value->if_bool()) return *flag;
  if (const auto* list = value->if_array()) return !list->empty();
  if (const auto* object = value->if_object()) return !object->empty();
  return true;
}

std::optional<std::int64_t> HfReader::number(std::initializer_list<std::string_view> names, std::int64_t most) {
  for (const auto name : names) {
    const auto* value = find(name);
    if (value == nullptr) continue;
    const auto* number = value->if_int64();
    if (number == nullptr || *number < 0 || *number > most) {
      malformed(name, fmt::format("a whole number up to {}", most));
      return std::nullopt;
    }
    return *number;
  }
  return std::nullopt;
}

std::optional<std::int64_t> HfReader::largest(std::initializer_list<std::string_view> names, std::int64_t most) {
  for (const auto name : names) {
    const auto* value = find(name);
    if (value == nullptr) continue;
    if (!value->is_array()) return number({name}, most);
    const auto list = numbers(name, most);
    if (!list) return std::nullopt;
    if (!list->empty()) return std::ranges::max(*list);
  }
  return std::nullopt;
}

std::int64_t HfReader::dimension(std::initializer_list<std::string_view> names, std::int64_t most) {
  const auto value = number(names, most);
  if (!value) {
    refuse("bad_model_file", fmt::format("cannot estimate this model: {} is missing", name_of(*names.begin())),
           "vLLM cannot load the model without it either: compare the file with the one that its authors publish");
  } else if (*value == 0) {
    malformed(*names.begin(), "more than 0");
  }
  return value.value_or(0);
}

std::optional<bool> HfReader::boolean(std::string_view key) {
  const auto* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* flag = value->if_bool()) return *flag;
  malformed(key, "true or false");
  return std::nullopt;
}

std::optional<std::string> HfReader::text(std::string_view key) {
  const auto* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* string = value->if_string()) return std::string{*string};
  malformed(key, "text");
  return std::nullopt;
}

std::optional<std::string> HfReader::text_anywhere(std::string_view key) {
  if (find(key) != nullptr) return text(key);
  const auto* value = known(*document_, key);
  if (value == nullptr) return std::nullopt;
  if (const auto* string = value->if_string()) return std::string{*string};
  refuse("bad_model_file", fmt::format("{}: expected text", key));
  return std::nullopt;
}

std::optional<std::vector<std::int64_t>> HfReader::numbers(std::string_view key, std::int64_t most) {
  const auto* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto* list = value->if_array();
  if (list == nullptr) {
    malformed(key, "a list");
    return std::nullopt;
  }
  std::vector<std::int64_t> numbers;
  for (const auto& entry : *list) {
    const auto* number = entry.if_int64();
    if (number == nullptr || *number < 0 || *number > most) {
      malformed(fmt::format("{}[{}]", key, numbers.size()), fmt::format("a whole number up to {}", most));
      return std::nullopt;
    }
    numbers.push_back(*number);
  }
  return numbers;
}

std::optional<std::vector<std::string>> HfReader::texts(std::string_view key) {
  const auto* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto* list = value->if_array();
  if (list == nullptr) {
    malformed(key, "a list");
    return std::nullopt;
  }
  std::vector<std::string> texts;
  for (const auto& entry : *list) {
    const auto* text = entry.if_string();
    if (text == nullptr) {
      malformed(fmt::format("{}[{}]", key, texts.size()), "text");
      return std::nullopt;
    }
    texts.emplace_back(*text);
  }
  return texts;
}

const bj::object* HfReader::object(std::string_view key) {
  const auto* value = find(key);
  if (value == nullptr) return nullptr;
  const auto* object = value->if_object();
  if (object == nullptr) malformed(key, "an object");
  return object;
}

HfReader HfReader::inside(std::string_view key, const bj::object& member) const {
  HfReader reader{*this};
  reader.part_ = &member;
  reader.prefix_ += std::string{key} + ".";
  return reader;
}

void HfReader::adopt(const HfReader& other) {
  if (!error_) error_ = other.error_;
}

std::string without_infinities(std::string_view text) {
  static constexpr auto kWords = std::to_array<std::string_view>({"-Infinity", "Infinity", "NaN"});
  std::string clean{text};
  bool in_string = false;
  for (std::size_t i = 0; i < clean.size(); ++i) {
    if (in_string && clean[i] == '\\') {
      ++i;
    } else if (clean[i] == '"') {
      in_string = !in_string;
    } else if (!in_string) {
      for (const auto word : kWords) {
        if (std::string_view{clean}.substr(i).starts_with(word)) {
          // "NaN" is shorter than "null"; 0 says as little.
          clean.replace(i, word.size(), word.size() < 4 ? "0  " : "null" + std::string(word.size() - 4, ' '));
          break;
        }
      }
    }
  }
  return clean;
}

}  // namespace dgxmm::model
