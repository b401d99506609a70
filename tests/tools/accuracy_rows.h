#pragma once
// What the truth tests compare, written down for the table of errors (tools/dev/accuracy.py): rows of CSV in the folder
// that DGXMM_ACCURACY_DIR names, a file for each test, as ctest runs each in a process of its own.
#include "base/bytes.h"
#include "core/model/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace dgxmm::testing {

/// One quantity of one configuration. No text of it has a comma.
struct AccuracyRow {
  std::string engine;
  std::string model;
  std::string architecture;
  std::string kind;           ///< kind_of
  std::string configuration;  ///< "name=value name=value"
  std::string quantity;       ///< weights, kv, state, compute_device, compute_host, output
  std::int64_t measured_bytes = 0;
  std::int64_t rounding_bytes = 0;         ///< of the measure: 0 when it is exact
  std::optional<std::int64_t> ours_bytes;  ///< nothing: not estimated, and `remark` says why
  std::string remark;                      ///< also why the estimate may be loose
  std::string source;                      ///< where the measure is from: file:line of the truth table, or a log
};

/// The kind of model that a row counts for: by what its layers keep of a sequence, the most particular first.
inline std::string kind_of(const model::ModelDescription& model) {
  const auto has_recurrent = [&](auto... kinds) {
    return std::ranges::any_of(model.layers, [&](const model::Layer& layer) {
      return layer.recurrent && ((layer.recurrent->kind == kinds) || ...);
    });
  };
  const auto has_attention = [&](auto... kinds) {
    return std::ranges::any_of(model.layers, [&](const model::Layer& layer) {
      return layer.attention && ((layer.attention->kind == kinds) || ...);
    });
  };
  using model::AttentionKind;
  using model::RecurrentKind;
  const bool attends = std::ranges::any_of(model.layers, [](const auto& layer) { return layer.attention.has_value(); });
  const bool crosses =
      std::ranges::any_of(model.layers, [](const auto& layer) { return layer.cross_attention.has_value(); });
  if (crosses || has_attention(AttentionKind::bidirectional)) return "encoder";
  if (!attends) return "recurrent";
  if (has_recurrent(RecurrentKind::gated_delta_net, RecurrentKind::kda, RecurrentKind::lightning)) return "GDN hybrid";
  if (has_recurrent(RecurrentKind::mamba, RecurrentKind::mamba2)) return "Mamba hybrid";
  if (has_recurrent(RecurrentKind::short_conv)) return "short-conv hybrid";
  if (has_attention(AttentionKind::mla)) return "MLA";
  if (has_attention(AttentionKind::sliding_window, AttentionKind::chunked)) return "sliding window";
  return model.experts ? "GQA MoE" : "GQA";
}

/// Writes `FOLDER/name.csv`, FOLDER being what DGXMM_ACCURACY_DIR names; nothing when it names none.
inline void write_accuracy_rows(std::string_view name, const std::vector<AccuracyRow>& rows) {
  const char* folder = std::getenv("DGXMM_ACCURACY_DIR");
  if (folder == nullptr || *folder == '\0') return;
  std::filesystem::create_directories(folder);
  std::ofstream file{std::filesystem::path{folder} / (std::string{name} + ".csv")};
  file << "engine,model,architecture,kind,configuration,quantity,measured_bytes,rounding_bytes,ours_bytes,remark,"
          "source\n";
  for (const auto& row : rows) {
    file << fmt::format("{},{},{},{},{},{},{},{},{},{},{}\n", row.engine, row.model, row.architecture, row.kind,
                        row.configuration, row.quantity, row.measured_bytes, row.rounding_bytes,
                        row.ours_bytes ? std::to_string(*row.ours_bytes) : "", row.remark, row.source);
  }
  if (!file.flush()) throw std::runtime_error("cannot write the accuracy rows of " + std::string{name});
}

}  // namespace dgxmm::testing
