#pragma once
// JSON Schema, as OpenAPI 3.1 has it, of the types that json_codec.h reads and writes: from the same descriptions.
#include "base/json_codec.h"

#include <boost/core/type_name.hpp>

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace dgxmm::json {

/// Specialised for a member that is text out of a fixed set of words: `words<&Plan::kind>`. An array of string_views.
template <auto Member>
inline constexpr std::array<std::string_view, 0> words{};

/// Which side of the codec a schema describes.
enum class Side {
  read,    ///< with Unknown::reject: nothing unknown is taken, and what may be absent may be null as well
  written  ///< every member is there, null when it is absent
};

/// The schemas of structs, by the struct's name without its namespace.
class Components {
 public:
  [[nodiscard]] const std::map<std::string, bj::value>& schemas() const { return schemas_; }

  /// The name under which a struct is described; whether it was new is in `second`. Throws std::logic_error when
  /// another struct has that name, or the other side of the same one: they would be mixed up.
  std::pair<std::string, bool> claim(const std::string& type, Side side);
  void set(const std::string& name, bj::value schema) { schemas_.insert_or_assign(name, std::move(schema)); }

 private:
  std::map<std::string, bj::value> schemas_;
  std::map<std::string, std::string> owners_;
};

/// The schema of a type; structs in it become components.
template <class T>
bj::value schema(Side side, Components& components);

namespace detail {

bj::object of_type(std::string_view type);
/// Or null.
bj::value nullable(bj::value schema);
/// One of these.
bj::object one_of(std::span<const std::string_view> words);
bj::value reference(const std::string& name);

template <class T, auto Member, class Type>
bj::value member_schema(Side side, Components& components) {
  bj::value result;
  if constexpr (words<Member>.empty()) {
    result = schema<Type>(side, components);
  } else {
    result = one_of(words<Member>);
    if constexpr (is_optional<Type>) result = nullable(std::move(result));
  }
  const bool may_be_null = side == Side::read && may_be_absent<T, Type> && !is_optional<Type>;
  return may_be_null ? nullable(std::move(result)) : result;
}

template <class T>
bj::value object_schema(Side side, Components& components) {
  bj::object properties;
  bj::array required;
  boost::mp11::mp_for_each<boost::describe::describe_members<T, boost::describe::mod_any_access>>([&](auto d) {
    constexpr auto kMember = decltype(d)::pointer;
    using Type = std::remove_cvref_t<decltype(std::declval<T&>().*kMember)>;
    properties.emplace(d.name, member_schema<T, kMember, Type>(side, components));
    if (side == Side::written || !may_be_absent<T, Type>) required.emplace_back(d.name);
  });
  auto result = of_type("object");
  result.emplace("properties", std::move(properties));
  if (!required.empty()) result.emplace("required", std::move(required));
  if (side == Side::read) result.emplace("additionalProperties", false);
  return result;
}

}  // namespace detail

template <class T>
bj::value schema(Side side, Components& components) {
  if constexpr (std::is_same_v<T, bj::value>) {
    return bj::object{};
  } else if constexpr (std::is_same_v<T, bool>) {
    return detail::of_type("boolean");
  } else if constexpr (std::is_same_v<T, Bytes> || std::is_same_v<T, DeploymentId> || std::is_integral_v<T>) {
    auto result = detail::of_type("integer");
    if constexpr (!std::is_integral_v<T> || sizeof(T) == sizeof(std::int64_t)) result.emplace("format", "int64");
    return result;
  } else if constexpr (std::is_floating_point_v<T>) {
    bj::value result = detail::of_type("number");
    // One that is not finite is written as null.
    return side == Side::written ? detail::nullable(std::move(result)) : result;
  } else if constexpr (std::is_convertible_v<const T&, std::string_view>) {
    return detail::of_type("string");
  } else if constexpr (detail::is_optional<T>) {
    return detail::nullable(schema<typename T::value_type>(side, components));
  } else if constexpr (detail::is_vector<T>) {
    auto result = detail::of_type("array");
    result.emplace("items", schema<typename T::value_type>(side, components));
    return result;
  } else if constexpr (detail::is_string_map<T>) {
    auto result = detail::of_type("object");
    result.emplace("additionalProperties", schema<typename T::mapped_type>(side, components));
    return result;
  } else if constexpr (detail::is_described_enum<T>) {
    std::vector<std::string_view> names;
    boost::mp11::mp_for_each<boost::describe::describe_enumerators<T>>([&](auto d) { names.emplace_back(d.name); });
    return detail::one_of(names);
  } else {
    static_assert(detail::is_described_struct<T>, "describe the type with BOOST_DESCRIBE_STRUCT");
    const auto [name, is_new] = components.claim(boost::core::type_name<T>(), side);
    if (is_new) components.set(name, detail::object_schema<T>(side, components));
    return detail::reference(name);
  }
}

}  // namespace dgxmm::json
