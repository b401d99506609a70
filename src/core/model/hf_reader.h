#pragma once
#include "base/result.h"

#include <boost/json/fwd.hpp>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dgxmm::model {

// Bounds on what a config.json may say, far above anything that exists.
inline constexpr std::int64_t kMaxHfLayers = 4096;
inline constexpr std::int64_t kMaxHfCount = 65'536;
inline constexpr std::int64_t kMaxHfLength = 1 << 20;
inline constexpr std::int64_t kMaxHfVocabulary = 1 << 24;

/// Reads values of config.json by name, from the object that describes the language model: the whole file, or a part of
/// it such as `text_config`. A null is an absent value, as for transformers. The first failure sticks, later reads give
/// nothing. Holds references to the document.
class HfReader {
 public:
  HfReader(std::string_view file, const boost::json::object& document);

  [[nodiscard]] const std::optional<Error>& error() const { return error_; }
  void refuse(std::string code, std::string_view what, std::string hint = {});

  /// Is the language model a part of the file?
  [[nodiscard]] bool is_nested() const { return part_ != document_; }
  [[nodiscard]] const boost::json::object& part() const { return *part_; }
  [[nodiscard]] const boost::json::object& document() const { return *document_; }

  [[nodiscard]] const boost::json::value* find(std::string_view key) const;
  /// In the part, else in the whole file: for what belongs to the file, and is written in either place.
  [[nodiscard]] const boost::json::value* find_anywhere(std::string_view key) const;
  /// Is it there, and neither 0, false nor empty?
  [[nodiscard]] bool is_set(std::string_view key) const;

  /// The first of the names that is there. Floats such as 1e4 that hold a whole number are not accepted: neither are
  /// they by the engine.
  std::optional<std::int64_t> number(std::initializer_list<std::string_view> names, std::int64_t most);
  /// As `number`; of a list with one number for each layer or kind of expert, the largest.
  std::optional<std::int64_t> largest(std::initializer_list<std::string_view> names, std::int64_t most);
  /// A dimension without which there is no estimate.
  std::int64_t dimension(std::initializer_list<std::string_view> names, std::int64_t most);
  std::optional<bool> boolean(std::string_view key);
  std::optional<std::string> text(std::string_view key);
  std::optional<std::string> text_anywhere(std::string_view key);
  /// A list of whole numbers.
  std::optional<std::vector<std::int64_t>> numbers(std::string_view key, std::int64_t most);
  std::optional<std::vector<std::string>> texts(std::string_view key);
  /// A member that is an object, read like this one; keys are named with `key.` in front. Null when it is absent.
  const boost::json::object* object(std::string_view key);
  /// Reads from a member of the present part; the error, if any, is to be taken over with `adopt`.
  [[nodiscard]] HfReader inside(std::string_view key, const boost::json::object& member) const;
  void adopt(const HfReader& other);

  /// "text_config.head_dim": the key as it is found in the file.
  [[nodiscard]] std::string name_of(std::string_view key) const;
  void malformed(std::string_view key, std::string_view expected);

 private:
  std::string file_;
  const boost::json::object* document_;
  const boost::json::object* part_;
  std::string prefix_;
  std::optional<Error> error_;
};

/// Python writes infinities and NaN into JSON, which has none: each becomes `null`, and offsets stay.
std::string without_infinities(std::string_view text);

}  // namespace dgxmm::model
