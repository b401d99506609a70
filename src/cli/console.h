#pragma once
#include <cstddef>
#include <ostream>
#include <string>
#include <string_view>

namespace dgxmm::cli {

enum class Colour { bold, dim, green, yellow, red };

/// Where a command writes, and what is there to read it. Answers go to `out`; progress, notes and errors to `err`, so
/// that `out` can be piped.
struct Console {
  std::ostream& out;
  std::ostream& err;
  std::size_t width = 0;      ///< columns of `out`; 0: not a terminal, lines may be as long as they need
  std::size_t err_width = 0;  ///< the same of `err`
  bool colour = false;        ///< on `out`
  bool err_colour = false;    ///< on `err`
};

/// stdout and stderr. Colours on terminals only, and not when NO_COLOR is set (https://no-color.org) or TERM is "dumb".
Console standard_console();

/// The text in a colour when `enabled`, else as it is.
std::string paint(bool enabled, Colour colour, std::string_view text);

/// A dim line on `err`.
void note(Console& console, std::string_view text);

/// "warning: …" on `err`.
void warn(Console& console, std::string_view text);

/// What is going on, while it goes on: one line on a terminal that is written over, else a line for each change.
class Progress {
 public:
  explicit Progress(Console& console) : console_(console) {}
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `ticking` is shown on a terminal only: it changes too often for a log.
  void show(const std::string& text, const std::string& ticking = {});
  /// Removes the line, before something else is written.
  void clear();

 private:
  Console& console_;
  std::string shown_;
  bool on_line_ = false;
};

}  // namespace dgxmm::cli
