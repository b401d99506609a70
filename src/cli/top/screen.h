#pragma once
#include "base/result.h"
#include "cli/top/picture.h"
#include "cli/top/state.h"

#include <memory>
#include <optional>

namespace dgxmm::cli::top {

/// The terminal as a whole screen (ncurses), given back as it was when this object goes. One at a time.
class Screen {
 public:
  /// Errors: `no_terminal`, `unknown_terminal`.
  static Result<std::unique_ptr<Screen>> open();
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  void show(const Picture& picture);
  /// The next key that was pressed; nothing when there is none.
  std::optional<Press> read();
  /// Asks the terminal for its size anew.
  void resize();
  [[nodiscard]] Size size() const;

 private:
  struct Terminal;
  explicit Screen(std::unique_ptr<Terminal> terminal);
  std::unique_ptr<Terminal> terminal_;
};

}  // namespace dgxmm::cli::top
