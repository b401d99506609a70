#include "cli/documents.h"

#include "app/dto/dto_json.h"

#include <type_traits>
#include <vector>

namespace dgxmm::cli {

template <class T>
std::string to_json(const T& document) {
  auto value = json::to_value(document);
  if constexpr (std::is_same_v<T, dto::Problem>) {
    // What an HTTP answer had: RFC 9457 knows no null there.
    if (!document.status) value.as_object().stable_erase("status");
  } else if constexpr (std::is_same_v<T, std::vector<dto::FitOfModel>>) {
    for (std::size_t i = 0; i < document.size(); ++i) {
      const auto& error = document[i].error;
      if (error && !error->status) value.at(i).at("error").as_object().stable_erase("status");
    }
  }
  return json::bj::serialize(value);
}

template <class T>
Result<T> from_json(std::string_view text) {
  const auto value = json::parse(text);
  if (!value) return fail(value.error());
  return json::decode<T>(*value, json::Unknown::ignore);
}

template std::string to_json(const std::string&);
template std::string to_json(const engine::DeployRequest&);
template std::string to_json(const dto::Budget&);
template std::string to_json(const dto::Calibrations&);
template std::string to_json(const std::vector<dto::Calibrations>&);
template std::string to_json(const dto::Deployment&);
template std::string to_json(const std::vector<dto::Deployment>&);
template std::string to_json(const dto::Event&);
template std::string to_json(const dto::Fit&);
template std::string to_json(const std::vector<dto::FitOfModel>&);
template std::string to_json(const dto::Models&);
template std::string to_json(const dto::Operation&);
template std::string to_json(const dto::Queue&);
template std::string to_json(const dto::Plans&);
template std::string to_json(const dto::Problem&);
template std::string to_json(const dto::Doctor&);
template std::string to_json(const dto::Processes&);
template std::string to_json(const dto::Memory&);
template std::string to_json(const dto::Orphan&);
template std::string to_json(const std::vector<dto::Orphan>&);
template std::string to_json(const dto::Version&);

template Result<dto::Budget> from_json(std::string_view);
template Result<dto::Calibrations> from_json(std::string_view);
template Result<dto::Deployment> from_json(std::string_view);
template Result<std::vector<dto::Deployment>> from_json(std::string_view);
template Result<dto::Event> from_json(std::string_view);
template Result<dto::Fit> from_json(std::string_view);
template Result<std::vector<dto::FitOfModel>> from_json(std::string_view);
template Result<dto::Models> from_json(std::string_view);
template Result<dto::Operation> from_json(std::string_view);
template Result<dto::Queue> from_json(std::string_view);
template Result<dto::Plans> from_json(std::string_view);
template Result<dto::Problem> from_json(std::string_view);
template Result<dto::Doctor> from_json(std::string_view);
template Result<dto::Processes> from_json(std::string_view);
template Result<dto::Memory> from_json(std::string_view);
template Result<dto::Orphan> from_json(std::string_view);
template Result<std::vector<dto::Orphan>> from_json(std::string_view);
template Result<dto::Version> from_json(std::string_view);

}  // namespace dgxmm::cli
