#pragma once
#include "base/result.h"

#include <string>
#include <string_view>

// The documents of the API as text. Compiled in one file, because the codec is slow to compile: a new document needs a
// line there.
namespace dgxmm::cli {

template <class T>
std::string to_json(const T& document);

/// Fields that this program does not know are ignored: the daemon may be newer. Errors: `bad_json`, `bad_field`,
/// `missing_field`.
template <class T>
Result<T> from_json(std::string_view text);

}  // namespace dgxmm::cli
