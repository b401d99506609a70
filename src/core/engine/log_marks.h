#pragma once
#include "core/engine/engine.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

// How the logs of both engines are read: by texts that mark a line.
namespace dgxmm::engine {

/// A text, and what a line that holds it means.
template <class Meaning>
struct LogMark {
  std::string_view text;
  Meaning meaning;
};

/// The first of the marks that is in the line; null when none is.
template <class Meaning, std::size_t N>
const LogMark<Meaning>* find_mark(std::string_view line, const std::array<LogMark<Meaning>, N>& marks) {
  const auto* found =
      std::ranges::find_if(marks, [line](const auto& mark) { return line.find(mark.text) != std::string_view::npos; });
  return found == marks.end() ? nullptr : found;
}

/// How far a start has come with this line: never back, since engines print some lines again later.
template <class Phase, std::size_t N>
Phase phase_after(Phase phase, std::string_view line, const std::array<LogMark<Phase>, N>& marks) {
  for (const auto& mark : marks) {
    if (line.find(mark.text) != std::string_view::npos) phase = std::max(phase, mark.meaning);
  }
  return phase;
}

/// The engine's own words around a mark: the line from behind the last `separator` before it, safe to show.
std::string quoted_from(std::string_view line, std::string_view mark, std::string_view separator);

/// Why a start failed. The first line that says so is the cause, and the ones after it its consequences.
class RootCause {
 public:
  enum class Weight {
    ended,    ///< says only that it is over: never in place of another reason
    vague,    ///< a later line says it better
    certain,  ///< stays
  };

  void take(FailureReason reason, Weight weight) {
    if (certain_ || (reason_ && weight == Weight::ended)) return;
    reason_ = std::move(reason);
    certain_ = weight == Weight::certain;
  }
  [[nodiscard]] bool is_certain() const { return certain_; }
  [[nodiscard]] const std::optional<FailureReason>& reason() const { return reason_; }

 private:
  std::optional<FailureReason> reason_;
  bool certain_ = false;
};

}  // namespace dgxmm::engine
