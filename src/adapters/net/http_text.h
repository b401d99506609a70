#pragma once
// HTTP/1.1 as text: pure functions from and to strings.
#include "base/result.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dgxmm::net {

using HeaderList = std::vector<std::pair<std::string, std::string>>;

/// What a request asks for, decoded.
struct RequestTarget {
  std::string path;
  std::map<std::string, std::string> query;
};

/// Reads "/path?name=value". Dot segments stay as they are: a path names a resource, not a file. Errors: `bad_request`
/// for another form of target, a broken escape, a control byte (escaped or not), what is not UTF-8 when decoded, or a
/// name that is given twice.
Result<RequestTarget> parse_target(std::string_view target);

/// A part of a path or query with everything escaped that could mean something else there (RFC 3986, 2.3).
std::string percent_encode(std::string_view text);

/// How the end of a body is marked.
enum class Framing { none, length, chunked, until_close };

/// Head of an answer, to its empty line. Framing and Connection are ours: such headers in `headers` are left out, and
/// so is what could end a line early. `length` is for Framing::length.
std::string response_head(int status, const HeaderList& headers, Framing framing, std::size_t length, bool keep_alive);

/// Has an answer with that status no body, whatever its head says?
bool has_no_body(int status);

/// The headers that mean the same on the next connection: without those of this one alone (RFC 9110, 7.6.1), also the
/// ones that its Connection header names, and without framing. Names in lower case.
HeaderList end_to_end(const HeaderList& headers);

/// Head of a request with a body of `length` bytes, on a connection for this request alone. Errors: `bad_request` when
/// a part would break the head.
Result<std::string> request_head(const std::string& method, const std::string& path, const std::string& host,
                                 const HeaderList& headers, std::size_t length);
/// The same with a body that is framed otherwise. `length` is for Framing::length.
Result<std::string> request_head(const std::string& method, const std::string& path, const std::string& host,
                                 const HeaderList& headers, Framing framing, std::size_t length);

/// One piece in chunked framing; an empty one would end the body, so it gives nothing.
std::string chunk(std::string_view piece);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

std::string_view reason_phrase(int status);

/// Body of an error that the server itself answers (application/problem+json).
std::string problem_document(int status, std::string_view code, std::string_view detail);

/// Status of an error that a server answers by itself; 500 for a code that it does not know.
int status_of(std::string_view code);

/// Such an answer as a whole, the last one of its connection.
std::string problem_answer(const Error& error);

std::string to_lower(std::string_view text);

}  // namespace dgxmm::net
