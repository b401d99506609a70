#include "base/masking.h"

#include "base/utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>

namespace dgxmm {
namespace {

// One fixed text: neither the length nor the first letters of a secret are shown.
constexpr std::string_view kMask = "***";

// ASCII only: the classes of <cctype> depend on the locale.
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool is_alnum(char c) { return is_digit(c) || is_upper(c) || (c >= 'a' && c <= 'z'); }
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_quote(char c) { return c == '"' || c == '\''; }
bool is_name_char(char c) { return is_alnum(c) || c == '_' || c == '-'; }

template <class Predicate>
std::size_t skip_while(std::string_view text, std::size_t from, Predicate predicate) {
  while (from < text.size() && predicate(text[from])) ++from;
  return from;
}

/// "--API_Key" -> "apikey"
std::string normalized(std::string_view name) {
  std::string result;
  for (const char c : name) {
    if (is_upper(c)) {
      result += static_cast<char>(c - 'A' + 'a');
    } else if (is_alnum(c)) {
      result += c;
    }
  }
  return result;
}

/// Matches at the end only, so that --max-num-batched-tokens, --eos-token-id and --api-key-file stay readable.
bool names_secret(std::string_view name) {
  static constexpr std::array<std::string_view, 12> kEndings{"apikey",        "token",     "password",  "passwd",
                                                             "secret",        "secretkey", "accesskey", "credentials",
                                                             "authorization", "auth",      "bearer",    "cookie"};
  const auto plain = normalized(name);
  return std::ranges::any_of(kEndings, [&](std::string_view ending) { return plain.ends_with(ending); });
}

/// The value of these is a whole line: "Authorization: Bearer …", "Cookie: a=b; c=d".
bool names_header(std::string_view name) {
  const auto plain = normalized(name);
  return plain.ends_with("authorization") || plain.ends_with("cookie");
}

/// Says that there is no secret, which is worth knowing.
bool is_no_secret(std::string_view value) {
  while (!value.empty() && std::string_view{",;)}]"}.contains(value.back())) value.remove_suffix(1);
  static constexpr std::array<std::string_view, 7> kWords{"", "None", "null", "true", "false", "True", "False"};
  return std::ranges::find(kWords, value) != kWords.end();
}

/// End of a token with a known prefix at `at`, or nothing.
std::optional<std::size_t> end_of_token_shape(std::string_view text, std::size_t at) {
  const auto rest = text.substr(at);
  if (rest.starts_with("-----BEGIN ")) {
    const auto end = rest.find("-----END ");
    if (end == std::string_view::npos) return text.size();
    const auto close = rest.find("-----", end + 9);
    return close == std::string_view::npos ? text.size() : at + close + 5;
  }
  if (at > 0 && (is_alnum(text[at - 1]) || text[at - 1] == '_')) return std::nullopt;

  // A JSON web token: three parts in base64url. Looked for where a word starts, so that "-eyJ-eyJ-eyJ…" is read once.
  if (rest.starts_with("eyJ") && (at == 0 || text[at - 1] != '-')) {
    constexpr std::size_t kShortestPart = 8;
    const auto header = skip_while(rest, 0, is_name_char);
    if (header < kShortestPart || header == rest.size() || rest[header] != '.') return std::nullopt;
    const auto payload = skip_while(rest, header + 1, is_name_char);
    if (payload - header <= kShortestPart || payload == rest.size() || rest[payload] != '.') return std::nullopt;
    return at + skip_while(rest, payload + 1, is_name_char);
  }

  static constexpr std::array<std::string_view, 7> kPrefixes{"hf_",  "sk-",    "nvapi-",     "ghp_",
                                                             "AKIA", "glpat-", "github_pat_"};
  std::size_t prefix = 0;
  for (const auto candidate : kPrefixes) {
    if (rest.starts_with(candidate)) prefix = candidate.size();
  }
  if (rest.starts_with("xox") && rest.size() > 5 && rest[4] == '-') prefix = 5;
  if (prefix == 0) return std::nullopt;
  // Long enough, and with something that words lack: "hf_overrides" and "sk-learn" are not tokens.
  constexpr std::size_t kShortestToken = 8;
  constexpr std::size_t kLookedAt = 64;
  const auto start = rest.substr(prefix, kLookedAt);
  const auto body = start.substr(0, skip_while(start, 0, is_name_char));
  if (body.size() < kShortestToken) return std::nullopt;
  if (!std::ranges::any_of(body, [](char c) { return is_digit(c) || is_upper(c); })) return std::nullopt;
  return at + skip_while(rest, prefix, is_name_char);
}

struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// The password of "scheme://user:password@host", where "://" is at `at`.
std::optional<Range> url_password(std::string_view text, std::size_t at) {
  const auto begin = at + 3;
  const auto end =
      skip_while(text, begin, [](char c) { return !is_space(c) && !is_quote(c) && c != '/' && c != '?' && c != '#'; });
  const auto authority = text.substr(begin, end - begin);
  const auto host = authority.rfind('@');
  const auto colon = authority.find(':');
  if (host == std::string_view::npos || colon == std::string_view::npos || colon > host) return std::nullopt;
  return Range{begin + colon + 1, begin + host};
}

/// Where an unquoted value ends that starts at `at`.
std::size_t end_of_word(std::string_view text, std::size_t at) {
  return skip_while(text, at, [](char c) { return !is_space(c) && !is_quote(c) && c != '&'; });
}

/// Where the value of a header ends: with the line, or with the quote that the header stands in.
std::size_t end_of_header(std::string_view text, std::size_t at, std::optional<char> quote) {
  return skip_while(text, at, [&](char c) { return c != '\n' && c != '\r' && (!quote || c != *quote); });
}

/// End of a quoted text whose opening quote, plain or escaped (JSON within JSON), ends just before `at`.
std::size_t end_of_quoted(std::string_view text, std::size_t at, char quote, bool escaped) {
  for (auto i = at; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size()) {
      if (escaped && text[i + 1] == quote) return i;
      ++i;
    } else if (text[i] == quote) {
      return i;
    }
  }
  return text.size();
}

/// The value that belongs to the name at [name_begin, name_end) in free text, when the name says that it is a secret.
std::optional<Range> named_secret(std::string_view text, std::size_t name_begin, std::size_t name_end) {
  const auto name = text.substr(name_begin, name_end - name_begin);
  if (!names_secret(name)) return std::nullopt;
  std::optional<char> quote_before;
  if (name_begin > 0 && is_quote(text[name_begin - 1])) quote_before = text[name_begin - 1];

  // "name": or \"name\": or name= or name:
  auto at = name_end;
  bool name_is_quoted = false;
  if (at + 1 < text.size() && text[at] == '\\' && is_quote(text[at + 1])) ++at;
  if (at < text.size() && is_quote(text[at])) {
    name_is_quoted = true;
    ++at;
  }
  const auto after_spaces = skip_while(text, at, is_space);
  const bool has_separator = after_spaces < text.size() && (text[after_spaces] == '=' || text[after_spaces] == ':');
  // "EOS token    = 2" is about the vocabulary: a bare word must touch its separator.
  const bool bare_word = !name_is_quoted && name.find_first_of("_-") == std::string_view::npos;

  if (has_separator && (!bare_word || after_spaces == at)) {
    at = skip_while(text, after_spaces + 1, is_space);
    if (at == text.size()) return std::nullopt;
    Range value{at, at};
    const bool escaped = text[at] == '\\' && at + 1 < text.size() && is_quote(text[at + 1]);
    if (escaped) ++at;
    if (text[at] == '[' || text[at] == '(') {
      value = {at + 1, std::min(text.find(text[at] == '[' ? ']' : ')', at), text.size())};
    } else if (is_quote(text[at])) {
      value = {at + 1, end_of_quoted(text, at + 1, text[at], escaped)};
    } else if (names_header(name)) {
      value.end = end_of_header(text, at, name_is_quoted ? std::nullopt : quote_before);
    } else {
      value.end = end_of_word(text, at);
    }
    if (is_no_secret(text.substr(value.begin, value.end - value.begin))) return std::nullopt;
    return value;
  }
  if (after_spaces == at || name_is_quoted) return std::nullopt;
  if (name.starts_with('-')) {  // "--api-key a b --port": a flag may take several values
    auto end = after_spaces;
    for (auto next = after_spaces; next < text.size() && text[next] != '-'; next = skip_while(text, end, is_space)) {
      end = skip_while(text, next, [](char c) { return !is_space(c); });
    }
    if (end == after_spaces) return std::nullopt;
    return Range{after_spaces, end};
  }
  constexpr std::size_t kShortestBearer = 8;  // "the bearer of bad news"
  const auto end = end_of_word(text, after_spaces);
  if (normalized(name) == "bearer" && end - after_spaces >= kShortestBearer) return Range{after_spaces, end};
  return std::nullopt;
}

/// Where the value starts in "NAME=value" or "Name: value", when the name says that all of the value is a secret.
std::optional<std::size_t> value_of_named_argument(std::string_view argument) {
  const auto end = skip_while(argument, 0, [](char c) { return is_name_char(c) || c == '.'; });
  if (end == 0 || end == argument.size() || (argument[end] != '=' && argument[end] != ':')) return std::nullopt;
  if (argument.substr(end).starts_with("://") || !names_secret(argument.substr(0, end))) return std::nullopt;
  return skip_while(argument, end + 1, is_space);
}

bool is_secret_flag(std::string_view flag) {
  return flag == "-hft" || names_secret(flag);  // llama-server's short form of --hf-token
}

/// Characters that move the cursor, start an escape sequence or reorder text: C0, DEL, C1, line separators and the
/// bidirectional controls.
bool is_control_sequence(std::string_view sequence) {
  const auto first = static_cast<unsigned char>(sequence[0]);
  if (sequence.size() == 1) return first < 0x20 || first == 0x7f;
  const auto second = static_cast<unsigned char>(sequence[1]);
  if (sequence.size() == 2) return first == 0xc2 && second < 0xa0;
  if (sequence.size() != 3 || first != 0xe2) return false;
  const auto third = static_cast<unsigned char>(sequence[2]);
  return (second == 0x80 && third >= 0xa8 && third <= 0xae) || (second == 0x81 && third >= 0xa6 && third <= 0xa9);
}

void append_printable(std::string& out, std::string_view text) {
  while (!text.empty()) {
    const auto length = utf8_sequence_length(text);
    const auto sequence = text.substr(0, std::max<std::size_t>(length, 1));
    text.remove_prefix(sequence.size());
    if (length > 0 && !is_control_sequence(sequence)) {
      out += sequence;
      continue;
    }
    for (const char c : sequence) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
}

}  // namespace

std::string mask_text(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  std::size_t at = 0;
  const auto mask_range = [&](Range range) {
    result += text.substr(at, range.begin - at);
    result += kMask;
    at = range.end;
  };
  while (at < text.size()) {
    if (const auto end = end_of_token_shape(text, at)) {
      mask_range({at, *end});
      continue;
    }
    if (text.substr(at).starts_with("://")) {
      if (const auto password = url_password(text, at)) {
        mask_range(*password);
        continue;
      }
    }
    const bool word_starts = is_name_char(text[at]) && (at == 0 || !is_name_char(text[at - 1]));
    if (!word_starts) {
      result += text[at++];
      continue;
    }
    const auto word_end = skip_while(text, at, is_name_char);
    if (const auto secret = named_secret(text, at, word_end)) {
      mask_range(*secret);
      continue;
    }
    // A token may follow within the same word, as in "--sk-…": go on letter by letter.
    result += text[at++];
  }
  return result;
}

std::vector<std::string> mask_arguments(std::span<const std::string> arguments) {
  std::vector<std::string> result;
  result.reserve(arguments.size());
  bool values_are_secret = false;
  for (const std::string_view argument : arguments) {
    const bool is_flag = argument.starts_with('-');
    if (values_are_secret && !is_flag) {
      result.emplace_back(kMask);
      continue;
    }
    // The name of a flag, or nothing where a whole command line stands in one argument.
    const auto name_end = skip_while(argument, 0, [](char c) { return is_name_char(c) || c == '.'; });
    const bool is_bare_flag = is_flag && name_end == argument.size();
    values_are_secret = is_bare_flag && is_secret_flag(argument);
    if (is_bare_flag) {
      result.push_back(values_are_secret ? std::string{argument} : mask_text(argument));
      continue;
    }
    // "--env=HF_TOKEN=x": the flag's value is looked at like an argument of its own.
    const bool has_value = is_flag && argument[name_end] == '=' && !names_secret(argument.substr(0, name_end));
    const auto head = argument.substr(0, has_value ? name_end + 1 : 0);
    const auto tail = argument.substr(head.size());
    if (const auto secret = value_of_named_argument(tail)) {
      result.push_back(fmt::format("{}{}{}", head, tail.substr(0, *secret), kMask));
    } else {
      result.push_back(fmt::format("{}{}", head, mask_text(tail)));
    }
  }
  return result;
}

std::string printable(std::string_view text) {
  std::string result;
  append_printable(result, text);
  return result;
}

std::string printable_command(std::span<const std::string> arguments, std::size_t limit) {
  constexpr std::string_view kCut = "...";
  std::string result;
  std::size_t room_for_cut = 0;  // the longest front of the result that leaves room for kCut
  for (const std::string& argument : arguments) {
    const bool quote = argument.empty() || argument.find_first_of(" '\"") != std::string::npos;
    const auto piece = fmt::format("{0}{1}{2}{1}", result.empty() ? "" : " ", quote ? "'" : "", argument);
    std::string_view rest = piece;
    while (!rest.empty()) {
      const auto character = rest.substr(0, std::max<std::size_t>(utf8_sequence_length(rest), 1));
      rest.remove_prefix(character.size());
      append_printable(result, character);
      if (result.size() + kCut.size() <= limit) room_for_cut = result.size();
      if (result.size() > limit) {
        result.resize(room_for_cut);
        return limit < kCut.size() ? std::string{} : result + std::string{kCut};
      }
    }
  }
  return result;
}

}  // namespace dgxmm
