#include "cli/console.h"

#include "base/masking.h"
#include "cli/table.h"

#include <cstdlib>
#include <iostream>
#include <sys/ioctl.h>
#include <unistd.h>

namespace dgxmm::cli {
namespace {

constexpr std::size_t kUsualWidth = 80;

std::size_t width_of(int descriptor) {
  if (::isatty(descriptor) == 0) return 0;
  winsize size{};
  // A terminal that does not know its size says 0.
  if (::ioctl(descriptor, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kUsualWidth;
  return size.ws_col;
}

bool colours_wanted() {
  const char* no_color = std::getenv("NO_COLOR");
  if (no_color != nullptr && *no_color != '\0') return false;
  const char* term = std::getenv("TERM");
  return term == nullptr || std::string_view{term} != "dumb";
}

std::string_view code_of(Colour colour) {
  switch (colour) {
    case Colour::bold: return "\x1b[1m";
    case Colour::dim: return "\x1b[2m";
    case Colour::green: return "\x1b[32m";
    case Colour::yellow: return "\x1b[33m";
    case Colour::red: return "\x1b[31m";
  }
  return {};
}

}  // namespace

Console standard_console() {
  Console console{.out = std::cout, .err = std::cerr};
  console.width = width_of(STDOUT_FILENO);
  console.err_width = width_of(STDERR_FILENO);
  const bool colours = colours_wanted();
  console.colour = colours && console.width > 0;
  console.err_colour = colours && console.err_width > 0;
  return console;
}

std::string paint(bool enabled, Colour colour, std::string_view text) {
  if (!enabled) return std::string{text};
  return std::string{code_of(colour)} + std::string{text} + "\x1b[0m";
}

void note(Console& console, std::string_view text) {
  console.err << paint(console.err_colour, Colour::dim, printable(text)) << '\n';
}

void warn(Console& console, std::string_view text) {
  console.err << paint(console.err_colour, Colour::yellow, "warning:") << ' ' << printable(text) << '\n';
}

void Progress::show(const std::string& text, const std::string& ticking) {
  if (console_.err_width == 0) {
    if (text == shown_) return;
    console_.err << printable(text) << '\n' << std::flush;
  } else {
    // One column stays free: a full line would wrap, and then it could not be written over.
    const auto line = cut_to_width(printable(ticking.empty() ? text : text + " " + ticking), console_.err_width - 1);
    console_.err << "\r\x1b[2K" << line << std::flush;
    on_line_ = true;
  }
  shown_ = text;
}

void Progress::clear() {
  if (on_line_) console_.err << "\r\x1b[2K" << std::flush;
  on_line_ = false;
}

}  // namespace dgxmm::cli
