#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace dgxmm {

/// Length of the well-formed UTF-8 sequence that `text` starts with; 0 when there is none (RFC 3629: no overlong
/// forms, no surrogates, nothing above U+10FFFF).
std::size_t utf8_sequence_length(std::string_view text);

/// The text with every byte that belongs to no well-formed sequence replaced by U+FFFD.
std::string valid_utf8(std::string_view text);

}  // namespace dgxmm
