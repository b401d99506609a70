#include "core/model/split_name.h"

#include <fmt/format.h>

namespace dgxmm::model {
namespace {

constexpr std::size_t kDigits = 5;
constexpr std::string_view kOf = "-of-";
constexpr std::size_t kSuffix = 1 + kDigits + kOf.size() + kDigits;  // "-00001-of-00003"

/// Of five digits at most; 0 when it is not a number.
std::uint32_t parse_number(std::string_view digits) {
  std::uint32_t value = 0;
  for (const char c : digits) {
    if (c < '0' || c > '9') return 0;
    value = value * 10 + static_cast<std::uint32_t>(c - '0');
  }
  return value;
}

}  // namespace

std::optional<SplitName> parse_split_name(std::string_view file_name, std::string_view ending) {
  if (!file_name.ends_with(ending)) return std::nullopt;
  file_name.remove_suffix(ending.size());
  if (file_name.size() <= kSuffix) return std::nullopt;
  const auto suffix = file_name.substr(file_name.size() - kSuffix);
  if (suffix.front() != '-' || suffix.substr(1 + kDigits, kOf.size()) != kOf) return std::nullopt;
  SplitName split{.prefix = std::string{file_name.substr(0, file_name.size() - kSuffix)},
                  .number = parse_number(suffix.substr(1, kDigits)),
                  .count = parse_number(suffix.substr(kSuffix - kDigits)),
                  .ending = std::string{ending}};
  if (split.number == 0 || split.number > split.count) return std::nullopt;
  return split;
}

std::string split_file_name(const SplitName& split, std::uint32_t number) {
  return fmt::format("{}-{:05}-of-{:05}{}", split.prefix, number, split.count, split.ending);
}

}  // namespace dgxmm::model
