#pragma once
#include <string>
#include <string_view>

namespace dgxmm::host {

/// Something about the memory of this host that a person should know, and what to do about it.
struct Warning {
  /// `note`: worth knowing; `warning`: something will go wrong, or a figure is not what it seems.
  enum class Severity { note, warning };

  std::string code;  ///< stable, for programs: "fragmentation"
  std::string message;
  std::string hint;  ///< the next step; empty when the message has it, or there is none
  Severity severity = Severity::warning;

  friend bool operator==(const Warning&, const Warning&) = default;
};

inline std::string_view name_of(Warning::Severity severity) {
  return severity == Warning::Severity::note ? "note" : "warning";
}

/// For a line of text.
inline std::string sentence(const Warning& warning) {
  return warning.hint.empty() ? warning.message : warning.message + "; " + warning.hint;
}

}  // namespace dgxmm::host
