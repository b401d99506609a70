#pragma once
// Small readers for the kernel's text files, shared by this folder only.
#include "base/bytes.h"

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace dgxmm::host {

/// Takes the text up to the next `separator` off the front of `rest`; the separator is dropped.
std::string_view take_until(std::string_view& rest, char separator);

/// Without spaces, tabs and line ends on both sides.
std::string_view trim(std::string_view text);

/// A number in decimal digits and nothing else; nothing when it is signed, empty or too large for int64.
std::optional<std::int64_t> parse_count(std::string_view text);

/// "  123 kB" as bytes. The unit is required: a line cut short would otherwise be read as a smaller number.
std::optional<Bytes> parse_kib(std::string_view text);

/// "key value" lines in bytes, as in memory.stat. A last line without its line end was cut short and is left out.
std::optional<std::int64_t> find_flat_value(std::string_view text, std::string_view key);

}  // namespace dgxmm::host
