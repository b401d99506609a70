#include "cli/table.h"

#include "base/masking.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace dgxmm::cli {
namespace {

constexpr std::string_view kGap = "  ";
constexpr std::size_t kNoteIndent = 4;
constexpr std::string_view kEllipsis = "…";

bool continues_code_point(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

}  // namespace

std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return !continues_code_point(c); }));
}

std::string cut_to_width(std::string_view text, std::size_t width) {
  if (width_of(text) <= width) return std::string{text};
  if (width == 0) return {};
  std::size_t end = 0;
  for (std::size_t columns = 0; end < text.size(); ++end) {
    if (!continues_code_point(text[end]) && ++columns == width) break;
  }
  return std::string{text.substr(0, end)} + std::string{kEllipsis};
}

std::string wrap(std::string_view text, std::size_t width, std::size_t indent) {
  const std::string margin(indent, ' ');
  const auto room = width > indent ? width - indent : 1;
  std::string result;
  std::string line;
  const auto end_line = [&] {
    result += margin + line + "\n";
    line.clear();
  };
  while (!text.empty()) {
    const auto space = text.find(' ');
    const auto word = text.substr(0, space);
    text.remove_prefix(space == std::string_view::npos ? text.size() : space + 1);
    if (word.empty()) continue;
    if (width > 0 && !line.empty() && width_of(line) + 1 + width_of(word) > room) end_line();
    if (!line.empty()) line += ' ';
    line += word;
  }
  if (!line.empty()) end_line();
  return result;
}

std::string wrap_beside(std::string_view label, std::string_view text, std::size_t width) {
  const auto indent = width_of(label);
  auto result = wrap(text, width, indent);
  if (result.empty()) return std::string{label} + "\n";
  return std::string{label} + result.substr(indent);
}

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

void Table::add(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  for (auto& cell : cells) cell = printable(cell);
  rows_.push_back({std::move(cells), {}});
}

void Table::add_note(std::string_view text) { rows_.back().notes.push_back(printable(text)); }

std::vector<std::size_t> Table::column_widths(std::size_t width) const {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    auto widest = width_of(columns_[i].title);
    for (const auto& row : rows_) widest = std::max(widest, width_of(row.cells[i]));
    widths.push_back(widest);
  }
  if (width == 0) return widths;
  auto total = std::accumulate(widths.begin(), widths.end(), kGap.size() * (widths.size() - 1));
  while (total > width) {
    // The widest gives way first, so that short cells stay whole.
    std::size_t victim = widths.size();
    for (std::size_t i = 0; i < widths.size(); ++i) {
      const auto least = columns_[i].least;
      if (least == 0 || widths[i] <= least) continue;
      if (victim == widths.size() || widths[i] > widths[victim]) victim = i;
    }
    if (victim == widths.size()) break;
    --widths[victim];
    --total;
  }
  return widths;
}

std::string Table::render(std::size_t width) const {
  const auto widths = column_widths(width);
  std::string result;
  const auto add_line = [&](const auto& text_of) {
    std::string line;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (i > 0) line += kGap;
      if (columns_[i].wraps && width_of(text_of(i)) > widths[i]) {
        result += wrap_beside(line, text_of(i), width_of(line) + widths[i]);
        return;
      }
      const auto text = cut_to_width(text_of(i), widths[i]);
      const std::string padding(widths[i] - width_of(text), ' ');
      line += columns_[i].align == Align::right ? padding + text : text + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    result += line + "\n";
  };
  add_line([&](std::size_t i) -> const std::string& { return columns_[i].title; });
  for (const auto& row : rows_) {
    add_line([&](std::size_t i) -> const std::string& { return row.cells[i]; });
    for (const auto& text : row.notes) result += wrap(text, width, kNoteIndent);
  }
  return result;
}

}  // namespace dgxmm::cli
