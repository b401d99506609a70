#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace dgxmm::cli::top {

/// How a piece of text looks. The segments of the memory bar have backgrounds, where there are colours.
enum class Style {
  plain,
  dim,
  bold,
  title,
  selected,
  good,
  warning,
  bad,
  deployments,
  containers,
  processes,
  other,
  cache,
  free
};

struct Piece {
  std::string text;
  Style style = Style::plain;
  friend bool operator==(const Piece&, const Piece&) = default;
};

/// Pieces from the left; what does not fit is cut.
using Line = std::vector<Piece>;
/// The whole screen, from the top.
using Picture = std::vector<Line>;

struct Size {
  std::size_t columns = 80;
  std::size_t lines = 24;
};

}  // namespace dgxmm::cli::top
