#pragma once
// Described structs <-> JSON. Boost's own conversion differs between the versions of the two distributions, rejects
// unknown keys and reports no path; this one reads the same everywhere and says `ports[1].host: expected …`.
#include "base/bytes.h"
#include "base/ids.h"
#include "base/masking.h"
#include "base/result.h"
#include "base/utf8.h"

#include <boost/describe.hpp>
#include <boost/json.hpp>
#include <boost/mp11.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace dgxmm::json {

namespace bj = boost::json;

/// What to do with members that the struct does not have: ignored from other programs, an error from our users.
enum class Unknown { ignore, reject };

/// A value as a described struct or one of its members' types. Optionals, lists, maps and bools may be absent or null
/// and keep their default then; everything else is required. Errors: `bad_field`, `missing_field`, `unknown_field`,
/// each naming the field. Only finite numbers are accepted.
template <class T>
Result<T> decode(const bj::value& value, Unknown unknown, const std::string& path = {});

/// Deeper nesting than this is refused: nothing that we read needs it, and it costs stack.
inline constexpr std::size_t kMaxDepth = 64;

/// Parses one JSON document, with whitespace around it. Of a key that stands twice the last one counts.
/// Errors: `bad_json` with the offset.
Result<bj::value> parse(std::string_view text);

/// Absent optionals are written as null: an unknown is shown, not left out. Bytes that are not UTF-8 become U+FFFD and
/// numbers that are not finite become null, so that the document is always valid.
template <class T>
bj::value to_value(const T& value);

template <class T>
std::string encode(const T& value) {
  return bj::serialize(to_value(value));
}

namespace detail {

template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;
template <class T>
inline constexpr bool is_vector = false;
template <class T>
inline constexpr bool is_vector<std::vector<T>> = true;
template <class T>
inline constexpr bool is_string_map = false;
template <class T>
inline constexpr bool is_string_map<std::map<std::string, T>> = true;

/// Specialised for structs all of whose members may be absent, which then keep their defaults.
template <class T>
inline constexpr bool is_all_optional = false;

/// Absent and null mean the same. What may be absent is said by the type.
template <class T, class Member>
inline constexpr bool may_be_absent = is_all_optional<T> || is_optional<Member> || is_vector<Member> ||
                                      is_string_map<Member> || std::is_same_v<Member, bool>;

inline std::unexpected<Error> wrong(const std::string& path, std::string_view expected) {
  return fail("bad_field", (path.empty() ? std::string{"the document"} : path) + ": expected " + std::string{expected},
              {}, path);
}

/// The path of a key that someone else chose: it goes to terminals and logs.
inline std::string join(const std::string& path, std::string_view key) {
  return (path.empty() ? std::string{} : path + ".") + printable(key);
}

template <class T>
Result<T> decode_integer(const bj::value& value, const std::string& path) {
  if (const auto* i = value.if_int64()) {
    if (std::in_range<T>(*i)) return static_cast<T>(*i);
  } else if (const auto* u = value.if_uint64()) {
    if (std::in_range<T>(*u)) return static_cast<T>(*u);
  } else {
    return wrong(path, "a whole number");
  }
  return wrong(path, "a whole number in range");
}

template <class T>
Result<T> decode_number(const bj::value& value, const std::string& path) {
  double number = 0;
  if (const auto* d = value.if_double()) {
    number = *d;
  } else if (const auto* i = value.if_int64()) {
    number = static_cast<double>(*i);
  } else if (const auto* u = value.if_uint64()) {
    number = static_cast<double>(*u);
  } else {
    return wrong(path, "a number");
  }
  if (!std::isfinite(number)) return wrong(path, "a number in range");
  return static_cast<T>(number);
}

/// A whole number as a type made of one (libstdc++ 12 has no expected::transform).
template <class T>
Result<T> decode_as(const bj::value& value, const std::string& path) {
  auto number = decode_integer<std::int64_t>(value, path);
  if (!number) return fail(number.error());
  return T{*number};
}

template <class T>
Result<T> decode_enum(const bj::value& value, const std::string& path) {
  std::string allowed;
  const auto* text = value.if_string();
  std::optional<T> found;
  boost::mp11::mp_for_each<boost::describe::describe_enumerators<T>>([&](auto d) {
    if (text != nullptr && std::string_view{*text} == d.name) found = d.value;
    allowed += (allowed.empty() ? "" : ", ") + std::string{d.name};
  });
  if (found) return *found;
  return wrong(path, "one of " + allowed);
}

/// An unknown key is looked for first: a misspelt name explains a missing field, not the other way round.
template <class Members>
Result<void> reject_unknown(const bj::object& object, const std::string& path) {
  for (const auto& [key, ignored] : object) {
    bool known = false;
    std::string names;
    boost::mp11::mp_for_each<Members>([&](auto d) {
      known = known || key == d.name;
      names += (names.empty() ? "" : ", ") + std::string{d.name};
    });
    if (known) continue;
    const auto where = join(path, key);
    return fail("unknown_field", where + ": there is no such field", "the fields are: " + names, where);
  }
  return {};
}

template <class T>
Result<T> decode_object(const bj::value& value, Unknown unknown, const std::string& path) {
  const auto* object = value.if_object();
  if (object == nullptr) return wrong(path, "an object");
  using Members = boost::describe::describe_members<T, boost::describe::mod_any_access>;
  if (unknown == Unknown::reject) {
    if (auto known = reject_unknown<Members>(*object, path); !known) return fail(known.error());
  }
  T result{};
  std::optional<Error> error;
  boost::mp11::mp_for_each<Members>([&](auto d) {
    if (error) return;
    auto& member = result.*d.pointer;
    using Member = std::remove_reference_t<decltype(member)>;
    const auto where = join(path, d.name);
    const auto* found = object->if_contains(d.name);
    if (found == nullptr || found->is_null()) {
      if constexpr (!may_be_absent<T, Member>) error = Error{"missing_field", where + ": is required", {}, where};
      return;
    }
    auto decoded = decode<Member>(*found, unknown, where);
    if (!decoded) {
      error = std::move(decoded).error();
      return;
    }
    member = std::move(*decoded);
  });
  if (error) return fail(std::move(*error));
  return result;
}

template <class T>
inline constexpr bool is_described_enum = std::is_enum_v<T> && boost::describe::has_describe_enumerators<T>::value;
template <class T>
inline constexpr bool is_described_struct =
    std::is_class_v<T> && boost::describe::has_describe_members<T>::value && !std::is_union_v<T>;

}  // namespace detail

template <class T>
Result<T> decode(const bj::value& value, Unknown unknown, const std::string& path) {
  if constexpr (std::is_same_v<T, bj::value>) {
    return value;
  } else if constexpr (std::is_same_v<T, bool>) {
    if (const auto* b = value.if_bool()) return *b;
    return detail::wrong(path, "true or false");
  } else if constexpr (std::is_same_v<T, Bytes>) {
    return detail::decode_as<Bytes>(value, path);
  } else if constexpr (std::is_same_v<T, DeploymentId>) {
    return detail::decode_as<DeploymentId>(value, path);
  } else if constexpr (std::is_integral_v<T>) {
    return detail::decode_integer<T>(value, path);
  } else if constexpr (std::is_floating_point_v<T>) {
    return detail::decode_number<T>(value, path);
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (const auto* s = value.if_string()) return std::string{*s};
    return detail::wrong(path, "text");
  } else if constexpr (detail::is_optional<T>) {
    if (value.is_null()) return T{};
    auto inner = decode<typename T::value_type>(value, unknown, path);
    if (!inner) return fail(inner.error());
    return T{std::move(*inner)};
  } else if constexpr (detail::is_vector<T>) {
    const auto* array = value.if_array();
    if (array == nullptr) return detail::wrong(path, "a list");
    T result;
    for (std::size_t i = 0; i < array->size(); ++i) {
      auto item = decode<typename T::value_type>((*array)[i], unknown, path + "[" + std::to_string(i) + "]");
      if (!item) return fail(item.error());
      result.push_back(std::move(*item));
    }
    return result;
  } else if constexpr (detail::is_string_map<T>) {
    const auto* object = value.if_object();
    if (object == nullptr) return detail::wrong(path, "an object");
    T result;
    for (const auto& [key, member] : *object) {
      auto item = decode<typename T::mapped_type>(member, unknown, detail::join(path, key));
      if (!item) return fail(item.error());
      result.emplace(key, std::move(*item));
    }
    return result;
  } else if constexpr (detail::is_described_enum<T>) {
    return detail::decode_enum<T>(value, path);
  } else {
    static_assert(detail::is_described_struct<T>, "describe the type with BOOST_DESCRIBE_STRUCT");
    return detail::decode_object<T>(value, unknown, path);
  }
}

template <class T>
bj::value to_value(const T& value) {
  if constexpr (std::is_same_v<T, bj::value>) {
    return value;
  } else if constexpr (std::is_same_v<T, Bytes>) {
    return value.count();
  } else if constexpr (std::is_same_v<T, DeploymentId>) {
    return value.value;
  } else if constexpr (std::is_floating_point_v<T>) {
    return std::isfinite(value) ? bj::value(value) : bj::value{nullptr};
  } else if constexpr (std::is_arithmetic_v<T>) {
    return value;
  } else if constexpr (std::is_convertible_v<const T&, std::string_view>) {
    return bj::string{valid_utf8(std::string_view{value})};
  } else if constexpr (detail::is_optional<T>) {
    return value ? to_value(*value) : bj::value{nullptr};
  } else if constexpr (detail::is_vector<T>) {
    bj::array array;
    array.reserve(value.size());
    for (const auto& item : value) array.push_back(to_value(item));
    return array;
  } else if constexpr (detail::is_string_map<T>) {
    bj::object object;
    for (const auto& [key, item] : value) object.emplace(valid_utf8(key), to_value(item));
    return object;
  } else if constexpr (detail::is_described_enum<T>) {
    return bj::string{boost::describe::enum_to_string(value, "unknown")};
  } else {
    static_assert(detail::is_described_struct<T>, "describe the type with BOOST_DESCRIBE_STRUCT");
    bj::object object;
    boost::mp11::mp_for_each<boost::describe::describe_members<T, boost::describe::mod_any_access>>(
        [&](auto d) { object.emplace(d.name, to_value(value.*d.pointer)); });
    return object;
  }
}

}  // namespace dgxmm::json
