#pragma once
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>

namespace dgxmm::engine {

/// Sum of the samples of one metric over all its label sets, as a count. Nothing when there is no sample, or one that
/// is not a finite number of 0 or more.
/// `label`: only of the samples with it, e.g. `engine="0"`.
std::optional<std::int64_t> sum_samples(std::string_view metrics_text, std::string_view name,
                                        std::string_view label = {});

/// The same over several metrics; of those that have no sum, nothing is added. Nothing when none has one.
std::optional<std::int64_t> sum_metrics(std::string_view metrics_text, std::initializer_list<std::string_view> names);

}  // namespace dgxmm::engine
