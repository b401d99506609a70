#include "cli/top/screen.h"

// Its functions are macros by default, some with names that are ours.
#define NCURSES_NOMACROS 1
#define NCURSES_WIDECHAR 1
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <ncurses.h>
#include <string>
#include <sys/ioctl.h>
#include <unistd.h>
#include <utility>

namespace dgxmm::cli::top {
namespace {

constexpr int kEscapeDelayMs = 50;  // an arrow key's bytes arrive together; a person's Escape comes alone
constexpr int kEscape = 27;

short pair_of(Style style) { return static_cast<short>(static_cast<int>(style) + 1); }

void define_colours() {
  constexpr short kDefault = -1;
  const auto define = [](Style style, int foreground, int background) {
    ::init_pair(pair_of(style), static_cast<short>(foreground), static_cast<short>(background));
  };
  define(Style::good, COLOR_GREEN, kDefault);
  define(Style::warning, COLOR_YELLOW, kDefault);
  define(Style::bad, COLOR_RED, kDefault);
  define(Style::deployments, COLOR_BLACK, COLOR_GREEN);
  define(Style::containers, COLOR_BLACK, COLOR_CYAN);
  define(Style::processes, COLOR_WHITE, COLOR_BLUE);
  define(Style::other, COLOR_BLACK, COLOR_MAGENTA);
  define(Style::cache, COLOR_BLACK, COLOR_WHITE);
  define(Style::free, kDefault, kDefault);
}

attr_t attributes_of(Style style) {
  switch (style) {
    case Style::dim: return A_DIM;
    case Style::bold: return A_BOLD;
    case Style::title: return A_REVERSE;
    case Style::selected: return A_REVERSE | A_BOLD;
    default: return A_NORMAL;
  }
}

bool has_pair(Style style) {
  return style != Style::plain && style != Style::dim && style != Style::bold && style != Style::title &&
         style != Style::selected;
}

Press press_of(int code) {
  switch (code) {
    case KEY_UP: return {.key = Key::up};
    case KEY_DOWN: return {.key = Key::down};
    case KEY_PPAGE: return {.key = Key::page_up};
    case KEY_NPAGE: return {.key = Key::page_down};
    case KEY_HOME: return {.key = Key::home};
    case KEY_END: return {.key = Key::end};
    case '\t':
    case KEY_BTAB: return {.key = Key::tab};
    case '\n':
    case '\r':
    case KEY_ENTER: return {.key = Key::enter};
    case kEscape: return {.key = Key::escape};
    default: break;
  }
  return {.letter = code > 0 && code < 128 ? static_cast<char>(code) : '\0'};
}

}  // namespace

struct Screen::Terminal {
  SCREEN* screen = nullptr;
  bool coloured = false;
};

Screen::Screen(std::unique_ptr<Terminal> terminal) : terminal_(std::move(terminal)) {}

Result<std::unique_ptr<Screen>> Screen::open() {
  if (::isatty(STDOUT_FILENO) == 0 || ::isatty(STDIN_FILENO) == 0) {
    return fail("no_terminal", "top needs a terminal to draw on and to read keys from",
                "`dgxmm memory`, `dgxmm ps` and `dgxmm processes` print the same once; `dgxmm events -f` follows");
  }
  std::setlocale(LC_CTYPE, "");  // or ncurses writes no UTF-8
  auto terminal = std::make_unique<Terminal>();
  terminal->screen = ::newterm(nullptr, stdout, stdin);
  if (terminal->screen == nullptr) {
    const char* type = std::getenv("TERM");  // NOLINT(concurrency-mt-unsafe): one thread
    return fail("unknown_terminal",
                std::string{"this kind of terminal is not known: TERM is "} + (type ? type : "not set"),
                "set TERM, for example to xterm-256color; over ssh, install its description (ncurses-term)");
  }
  ::set_term(terminal->screen);
  ::cbreak();  // keys one by one; Ctrl-C stays a signal
  ::noecho();
  ::nodelay(stdscr, true);
  ::keypad(stdscr, true);
  ::set_escdelay(kEscapeDelayMs);
  ::curs_set(0);
  const bool wants_none = std::getenv("NO_COLOR") != nullptr;  // NOLINT(concurrency-mt-unsafe): one thread
  terminal->coloured = !wants_none && ::has_colors();
  if (terminal->coloured) {
    ::start_color();
    ::use_default_colors();
    define_colours();
  }
  return std::unique_ptr<Screen>{new Screen{std::move(terminal)}};
}

Screen::~Screen() {
  ::endwin();
  ::delscreen(terminal_->screen);
}

void Screen::show(const Picture& picture) {
  ::erase();
  for (std::size_t y = 0; y < picture.size(); ++y) {
    ::move(static_cast<int>(y), 0);
    for (const auto& piece : picture[y]) {
      ::attr_set(attributes_of(piece.style), terminal_->coloured && has_pair(piece.style) ? pair_of(piece.style) : 0,
                 nullptr);
      ::addstr(piece.text.c_str());
    }
  }
  ::attr_set(A_NORMAL, 0, nullptr);
  ::refresh();
}

std::optional<Press> Screen::read() {
  int code = ::getch();
  while (code == KEY_RESIZE) code = ::getch();  // `resize` leaves it behind: nobody pressed it
  if (code == ERR) return std::nullopt;
  return press_of(code);
}

void Screen::resize() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0) return;
  ::resizeterm(size.ws_row, size.ws_col);
  ::clearok(stdscr, true);
}

Size Screen::size() const {
  return {.columns = static_cast<std::size_t>(::getmaxx(stdscr)), .lines = static_cast<std::size_t>(::getmaxy(stdscr))};
}

}  // namespace dgxmm::cli::top
