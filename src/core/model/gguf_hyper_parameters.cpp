#include "core/model/gguf_hyper_parameters.h"

#include "base/masking.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace dgxmm::model {

HyperParameters::HyperParameters(std::string file, std::string architecture, const GgufHeader& header)
    : file_(std::move(file)),
      architecture_(std::move(architecture)),
      header_(header) {}

std::string HyperParameters::key(std::string_view suffix) const { return fmt::format("{}.{}", architecture_, suffix); }

bool HyperParameters::has(std::string_view suffix) const { return header_.values.contains(key(suffix)); }

bool HyperParameters::is_array(std::string_view suffix) const { return header_.array(key(suffix)) != nullptr; }

void HyperParameters::refuse(std::string code, const std::string& what, std::string hint) {
  if (error_) return;
  if (hint.empty()) {
    hint = code == "model_not_supported" ? "a newer dgxmm may know it"
                                         : "the file was changed or converted wrongly: get another one";
  }
  error_ = Error{std::move(code), fmt::format("{}: {}", printable(file_), what), std::move(hint), file_};
}

std::optional<std::int64_t> HyperParameters::optional(std::string_view suffix, std::int64_t most) {
  const auto name = key(suffix);
  if (!header_.values.contains(name)) return std::nullopt;
  const auto value = header_.integer(name);
  if (!value || *value < 0 || *value > most) {
    refuse("bad_model_file", fmt::format("{} is not a whole number up to {}", printable(name), most));
    return 0;
  }
  return value;
}

std::int64_t HyperParameters::required(std::string_view suffix, std::int64_t most) {
  const auto value = optional(suffix, most);
  if (!value) {
    refuse("bad_model_file",
           fmt::format("the key {} is missing, without which llama.cpp does not load a model", printable(key(suffix))));
  } else if (*value == 0) {
    refuse("bad_model_file", fmt::format("{} is 0", printable(key(suffix))));
  }
  return value.value_or(0);
}

std::optional<PerLayer> HyperParameters::per_layer(std::string_view suffix, std::int64_t layers, std::int64_t nextn,
                                                   std::int64_t most) {
  const auto name = key(suffix);
  const auto all = static_cast<std::size_t>(layers);
  const auto* array = header_.array(name);
  if (array == nullptr) {
    const auto value = optional(suffix, most);
    if (!value) return std::nullopt;
    return PerLayer(all, *value);
  }
  if (array->count != all && array->count != static_cast<std::uint64_t>(layers - nextn)) {
    refuse("bad_model_file", fmt::format("{} has {} elements, but {} is {}", printable(name), array->count,
                                         printable(key("block_count")), layers));
  } else if (!array->integers || std::ranges::any_of(*array->integers, [most](auto v) { return v < 0 || v > most; })) {
    refuse("bad_model_file", fmt::format("{} is not a list of whole numbers up to {}", printable(name), most));
  } else {
    auto values = *array->integers;
    values.resize(all, 0);
    return values;
  }
  return PerLayer(all, 0);
}

}  // namespace dgxmm::model
