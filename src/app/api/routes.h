#pragma once
#include "app/api/handlers.h"
#include "base/json_schema.h"

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dgxmm::api {

/// A sentence that must be there: a route without one does not compile.
class Sentence {
 public:
  consteval Sentence(const char* text) : text_(text) {  // NOLINT(google-explicit-constructor): written as text
    if (text_.empty()) throw "describe the route";      // never thrown: an empty one does not compile
  }
  [[nodiscard]] constexpr std::string_view text() const { return text_; }

 private:
  std::string_view text_;
};

/// Gives the schema of a body, and adds what it refers to to the components.
using Schema = json::bj::value (*)(json::Components& components);

template <class T>
json::bj::value schema_to_read(json::Components& components) {
  return json::schema<T>(json::Side::read, components);
}
template <class T>
json::bj::value schema_as_written(json::Components& components) {
  return json::schema<T>(json::Side::written, components);
}

/// The body that a route takes: `takes<T>()`, or `kNothing`.
struct Body {
  Schema schema = nullptr;
};
inline constexpr Body kNothing{};
template <class T>
constexpr Body takes() {
  return {&schema_to_read<T>};
}

/// What a route answers when it went well.
struct Success {
  int status;
  std::string_view content_type;  ///< empty: without a body
  Schema schema = nullptr;        ///< none: text
};
template <class T>
constexpr Success answers(int status = 200) {
  return {status, "application/json", &schema_as_written<T>};
}

/// Of the path, the query or the head of a request.
struct Parameter {
  enum class In { path, query, header };
  enum class Type { text, whole_number, one };  ///< `one`: "1", or not given

  In in;
  std::string_view name;
  Type type;
  Sentence meaning;
};

struct Route {
  std::string_view method;
  std::string_view pattern;  ///< "{name}" stands for one part of the path
  Handlers::Answer (Handlers::*handler)(Call);
  Sentence id;  ///< unique; the name of the call in generated code
  Sentence summary;
  Body body;
  Success success;
  std::span<const Parameter> parameters = {};  ///< those of the path too
  std::string_view refusal = {};               ///< of a route that may answer 409 with plans: when it does
  int also = 0;                                ///< another status with the document of a success
};

/// Every route of the API; openapi.h makes its description of them.
std::span<const Route> routes();

/// The parts of `path` that stand where the pattern names one, or nothing when the path is another one.
std::optional<std::vector<std::string>> match(std::string_view pattern, std::string_view path);

}  // namespace dgxmm::api
