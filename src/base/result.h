#pragma once
#include <expected>
#include <string>
#include <utility>

namespace dgxmm {

/// A failure that the caller decides about. `code` is stable and part of the API.
struct Error {
  std::string code;     ///< snake_case, e.g. "model_not_found"
  std::string message;  ///< one sentence for a person: what is wrong
  std::string hint;     ///< what to do about it; may be empty
  std::string where;    ///< the file, field, line or container concerned; may be empty

  friend bool operator==(const Error&, const Error&) = default;
};

template <class T>
using Result = std::expected<T, Error>;

/// `return fail("bad_size", "…")` in any function that returns a Result.
inline std::unexpected<Error> fail(std::string code, std::string message, std::string hint = {},
                                   std::string where = {}) {
  return std::unexpected(Error{std::move(code), std::move(message), std::move(hint), std::move(where)});
}

inline std::unexpected<Error> fail(Error error) { return std::unexpected(std::move(error)); }

}  // namespace dgxmm
