#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dgxmm {

/// A command line with every secret replaced by `***`: values of flags and NAME=value arguments that name a key,
/// token or password, header arguments, passwords in URLs, and values with the shape of a known token.
/// To be applied before a command line is stored, logged or sent.
std::vector<std::string> mask_arguments(std::span<const std::string> arguments);

/// The same for free text, such as a line of an engine's log.
std::string mask_text(std::string_view text);

/// A command line as one printable line: control bytes and invalid UTF-8 are escaped, at most `limit` bytes are kept.
std::string printable_command(std::span<const std::string> arguments, std::size_t limit = 4096);

/// Text of unknown origin made safe to show: control bytes and invalid UTF-8 become `\xNN`.
std::string printable(std::string_view text);

}  // namespace dgxmm
