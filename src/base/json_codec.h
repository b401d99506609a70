#pragma once
// Described structs <-> JSON. Boost's own conversion differs between the versions of the two distributions, rejects
// unknown keys and reports no path; this one reads the same everywhere and says `ports[1].host: expected …`.
#include <concepts>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <boost/describe.hpp>
#include <boost/json.hpp>
#include <boost/mp11.hpp>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/result.h"

namespace dgxmm::json {

namespace bj = boost::json;

/// What to do with members that the struct does not have: ignored from other programs, an error from our users.
enum class Unknown { ignore, reject };

template <class T>
Result<T> decode(const bj::value& value, Unknown unknown, const std::string& path = {});

/// Parses text, with limits on depth (64); errors: `bad_json` with the offset.
Result<bj::value> parse(std::string_view text);

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

inline std::unexpected<Error> wrong(const std::string& path, std::string_view expected) {
  return fail("bad_field", (path.empty() ? std::string{"the document"} : path) + ": expected " + std::string{expected}, {},
              path);
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

/// A whole number as a type made of one (libstdc++ 12 has no expected::transform).
template <class T>
Result<T> decode_as(const bj::value& value, const std::string& path) {
  auto number = decode_integer<std::int64_t>(value, path);
  if (!number) return fail(number.error());
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(*number);
  } else {
    return T{*number};
  }
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

template <class T>
Result<T> decode_object(const bj::value& value, Unknown unknown, const std::string& path) {
  const auto* object = value.if_object();
  if (object == nullptr) return wrong(path, "an object");
  T result{};
  std::optional<Error> error;
  const auto prefix = path.empty() ? std::string{} : path + ".";
  using Members = boost::describe::describe_members<T, boost::describe::mod_any_access>;
  boost::mp11::mp_for_each<Members>([&](auto d) {
    if (error) return;
    auto& member = result.*d.pointer;
    using Member = std::remove_reference_t<decltype(member)>;
    const auto* found = object->if_contains(d.name);
    if (found == nullptr || found->is_null()) {
      // Absent and null mean the same. What may be absent is said by the type.
      constexpr bool kMayBeAbsent =
          is_optional<Member> || is_vector<Member> || is_string_map<Member> || std::is_same_v<Member, bool>;
      if constexpr (!kMayBeAbsent) {
        error = Error{"missing_field", prefix + d.name + ": is required", {}, prefix + d.name};
      }
      return;
    }
    auto decoded = decode<Member>(*found, unknown, prefix + d.name);
    if (!decoded) {
      error = decoded.error();
      return;
    }
    member = std::move(*decoded);
  });
  if (error) return fail(*error);
  if (unknown == Unknown::reject) {
    for (const auto& [key, ignored] : *object) {
      bool known = false;
      boost::mp11::mp_for_each<Members>([&](auto d) { known = known || key == d.name; });
      if (!known) {
        return fail("unknown_field", prefix + std::string{key} + ": there is no such field", {},
                    prefix + std::string{key});
      }
    }
  }
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
    if (const auto* d = value.if_double()) return static_cast<T>(*d);
    return detail::decode_as<T>(value, path);
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
      auto item = decode<typename T::mapped_type>(member, unknown, path + "." + std::string{key});
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

/// Absent optionals are written as null: an unknown is shown, not left out.
template <class T>
bj::value to_value(const T& value) {
  if constexpr (std::is_same_v<T, bj::value>) {
    return value;
  } else if constexpr (std::is_same_v<T, Bytes>) {
    return value.count();
  } else if constexpr (std::is_same_v<T, DeploymentId>) {
    return value.value;
  } else if constexpr (std::is_arithmetic_v<T>) {
    return value;
  } else if constexpr (std::is_convertible_v<const T&, std::string_view>) {
    return bj::string{std::string_view{value}};
  } else if constexpr (detail::is_optional<T>) {
    return value ? to_value(*value) : bj::value{nullptr};
  } else if constexpr (detail::is_vector<T>) {
    bj::array array;
    array.reserve(value.size());
    for (const auto& item : value) array.push_back(to_value(item));
    return array;
  } else if constexpr (detail::is_string_map<T>) {
    bj::object object;
    for (const auto& [key, item] : value) object.emplace(key, to_value(item));
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
