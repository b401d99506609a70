#pragma once
#include "base/result.h"
#include "core/model/gguf.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dgxmm::model {

// Larger values are signs of a damaged file, not of a model.
inline constexpr std::int64_t kMaxGgufLayers = 512;  // LLAMA_MAX_LAYERS
inline constexpr std::int64_t kMaxGgufExperts = 1024;
inline constexpr std::int64_t kMaxGgufHeads = 65'536;
inline constexpr std::int64_t kMaxGgufLength = 1 << 20;
inline constexpr std::int64_t kMaxGgufKernel = 4096;
inline constexpr std::int64_t kMaxGgufWindow = std::int64_t{1} << 31;
inline constexpr std::int64_t kMaxGgufVocabulary = 1 << 24;

/// One number a layer, of the trunk and then of the multi-token-prediction layers.
using PerLayer = std::vector<std::int64_t>;

/// Reads the keys of one architecture. The first failure sticks, later reads give zeros.
class HyperParameters {
 public:
  HyperParameters(std::string file, std::string architecture, const GgufHeader& header);

  [[nodiscard]] const std::optional<Error>& error() const { return error_; }
  [[nodiscard]] const std::string& architecture() const { return architecture_; }
  [[nodiscard]] std::string key(std::string_view suffix) const;
  [[nodiscard]] bool has(std::string_view suffix) const;
  [[nodiscard]] bool is_array(std::string_view suffix) const;

  void refuse(std::string code, const std::string& what, std::string hint = {});

  std::optional<std::int64_t> optional(std::string_view suffix, std::int64_t most);
  std::int64_t required(std::string_view suffix, std::int64_t most);

  /// One number for every layer, or an array with one number a layer; nothing when the key is absent. An array may
  /// leave out the last `nextn` layers, which then have zeros.
  std::optional<PerLayer> per_layer(std::string_view suffix, std::int64_t layers, std::int64_t nextn,
                                    std::int64_t most);

 private:
  std::string file_;
  std::string architecture_;
  const GgufHeader& header_;
  std::optional<Error> error_;
};

}  // namespace dgxmm::model
