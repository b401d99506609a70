#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace dgxmm::cli {

/// Columns that the text takes on a terminal, one for each code point.
std::size_t width_of(std::string_view text);

/// The text, its end replaced by "…" when it is wider than `width`.
std::string cut_to_width(std::string_view text, std::size_t width);

/// Paragraphs of at most `width` columns, broken at spaces (0 = not broken), each line indented and ended by a line
/// feed. A longer word stays whole.
std::string wrap(std::string_view text, std::size_t width, std::size_t indent = 0);

/// The same, with `label` at the left of the text: further lines begin below the text.
std::string wrap_beside(std::string_view label, std::string_view text, std::size_t width);

enum class Align { left, right };

struct Column {
  std::string title;
  Align align = Align::left;
  std::size_t least = 0;  ///< may be cut down to that many columns to fit the terminal; 0 = never cut
  bool wraps = false;     ///< goes on in the next line instead of being cut; for the last column only
};

/// Rows under titles. Cells are made printable, so they may hold anything.
class Table {
 public:
  explicit Table(std::vector<Column> columns);

  /// One cell for each column; missing ones are empty.
  void add(std::vector<std::string> cells);
  /// A line of its own below the last row, indented and wrapped.
  void add_note(std::string_view text);
  [[nodiscard]] bool empty() const { return rows_.empty(); }

  /// `width`: of the terminal, 0 = no limit.
  [[nodiscard]] std::string render(std::size_t width) const;

 private:
  struct Row {
    std::vector<std::string> cells;
    std::vector<std::string> notes;
  };

  [[nodiscard]] std::vector<std::size_t> column_widths(std::size_t width) const;

  std::vector<Column> columns_;
  std::vector<Row> rows_;
};

}  // namespace dgxmm::cli
