#include "app/api/openapi.h"

#include "app/api/routes.h"
#include "app/dto/convert.h"
#include "app/dto/dto_schema.h"
#include "core/deployment/state.h"
#include "core/engine/request.h"
#include "core/host/gpu.h"
#include "core/planner/durations.h"
#include "support/api_description.h"
#include "unit/app/support/daemon.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace dgxmm::testing {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// With line breaks, so that a change shows as one.
void print(const boost::json::value& value, const std::string& margin, std::string& text) {
  constexpr std::size_t kWidth = 110;
  if (auto line = serialize(value); margin.size() + line.size() <= kWidth) {
    text += line;
    return;
  }
  const auto inner = margin + "  ";
  std::string separator = "\n";
  const auto begin_item = [&] {
    text += separator + inner;
    separator = ",\n";
  };
  if (const auto* object = value.if_object(); object != nullptr && !object->empty()) {
    text += "{";
    for (const auto& [name, member] : *object) {
      begin_item();
      text += serialize(boost::json::string{name}) + ": ";
      print(member, inner, text);
    }
    text += "\n" + margin + "}";
  } else if (const auto* array = value.if_array(); array != nullptr && !array->empty()) {
    text += "[";
    for (const auto& item : *array) {
      begin_item();
      print(item, inner, text);
    }
    text += "\n" + margin + "]";
  } else {
    text += serialize(value);
  }
}

const ApiDescription& description() {
  static const ApiDescription kDescription{api::openapi_document()};
  return kDescription;
}

TEST(OpenApi, TheFileOfTheDocumentationIsThatOfTheRoutes) {
  const auto path = std::filesystem::path{DGXMM_TEST_DATA} / ".." / "docs" / "openapi.json";
  std::string made;
  print(description().document(), "", made);
  made += "\n";
  if (std::getenv("DGXMM_WRITE_OPENAPI") != nullptr) std::ofstream{path} << made;
  std::ifstream file{path};
  std::ostringstream written;
  written << file.rdbuf();
  EXPECT_TRUE(made == written.str())
      << "docs/openapi.json is not up to date: run DGXMM_WRITE_OPENAPI=1 app_tests --gtest_filter='OpenApi.*'";
}

TEST(OpenApi, EveryRouteIsDescribedAndEveryDescriptionIsOfARoute) {
  std::set<std::string> described;
  for (const auto& [path, operations] : description().paths()) {
    for (const auto& [method, operation] : operations.as_object()) {
      auto name = std::string{method};
      for (auto& letter : name) letter = static_cast<char>(letter & ~0x20);
      described.insert(name + " " + std::string{path});
    }
  }
  std::set<std::string> routed;
  for (const auto& route : api::routes()) {
    EXPECT_TRUE(routed.insert(std::string{route.method} + " " + std::string{route.pattern}).second) << route.pattern;
  }
  EXPECT_THAT(described, ElementsAreArray(routed));
}

TEST(OpenApi, TheRealHandlerRoutesEveryPathThatIsDescribed) {
  World world;
  Daemon daemon{world};
  for (const auto& [pattern, operations] : description().paths()) {
    std::string path{pattern};
    for (auto open = path.find('{'); open != std::string::npos; open = path.find('{')) {
      path.replace(open, path.find('}') - open + 1, "x");
    }
    for (const auto& [method, operation] : operations.as_object()) {
      auto name = std::string{method};
      for (auto& letter : name) letter = static_cast<char>(letter & ~0x20);
      const auto response = daemon.request(name, path);
      EXPECT_NE(response.status, 405) << name << " " << path;
      if (response.status == 404) EXPECT_NE(member(response, "code"), "not_found") << name << " " << path;
    }
  }
}

TEST(OpenApi, IdsAreUniqueAndTheParametersOfEveryPathAreDescribed) {
  std::set<std::string_view> ids;
  for (const auto& route : api::routes()) {
    EXPECT_TRUE(ids.insert(route.id.text()).second) << route.id.text() << " is there twice";
    std::string pattern{route.pattern};
    for (const auto& parameter : route.parameters) {
      if (parameter.in != api::Parameter::In::path) continue;
      const auto name = "{" + std::string{parameter.name} + "}";
      const auto found = pattern.find(name);
      ASSERT_NE(found, std::string::npos) << route.pattern << " has no " << name;
      pattern.erase(found, name.size());
    }
    EXPECT_EQ(pattern.find('{'), std::string::npos) << "not described: " << pattern;
  }
}

void collect_references(const boost::json::value& value, std::set<std::string>& names) {
  if (const auto* object = value.if_object()) {
    for (const auto& [name, member] : *object) {
      if (name == "$ref")
        names.insert(std::string{member.as_string()}.substr(std::string_view{"#/components/schemas/"}.size()));
      collect_references(member, names);
    }
  } else if (const auto* array = value.if_array()) {
    for (const auto& item : *array) collect_references(item, names);
  }
}

TEST(OpenApi, EveryReferenceLeadsToAComponentAndTheDocumentsOfEventsAreComponents) {
  std::set<std::string> names;
  collect_references(description().document(), names);
  for (const auto& name : names) EXPECT_TRUE(description().schemas().contains(name)) << name;
  for (const auto* name : {"Event", "Budget", "Queue", "Activity", "Problem", "DeployRequest", "Deployment"}) {
    EXPECT_TRUE(description().schemas().contains(name)) << name;
  }
}

TEST(OpenApi, TheDaemonServesIt) {
  World world;
  Daemon daemon{world};
  const auto response = daemon.request("GET", "/api/v1/openapi.json");
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(header(response, "Content-Type"), "application/json");
  EXPECT_EQ(json_of(response), description().document());
}

template <class Enum>
std::vector<std::string> names_of(std::initializer_list<Enum> values) {
  std::vector<std::string> names;
  for (const auto value : values) {
    if constexpr (requires { dto::word(value); }) {
      names.push_back(dto::word(value));
    } else {
      names.emplace_back(name_of(value));
    }
  }
  return names;
}

TEST(OpenApi, WordsOfATextAreThoseThatAreWritten) {
  using deployment::State;
  EXPECT_THAT(dto::kStates,
              ElementsAreArray(names_of({State::starting, State::loading, State::ready, State::sleeping,
                                         State::stopping, State::stopped, State::failed, State::unknown})));
  using memory::Confidence;
  EXPECT_THAT(dto::kConfidences, ElementsAreArray(names_of({Confidence::low, Confidence::estimated,
                                                            Confidence::calibrated, Confidence::measured})));
  using memory::Source;
  EXPECT_THAT(json::words<&dto::Part::source>,
              ElementsAreArray(names_of({Source::file_size, Source::formula, Source::engine_default, Source::setting,
                                         Source::calibrated, Source::measured})));
  using planner::PlanKind;
  EXPECT_THAT(json::words<&dto::Plan::kind>,
              ElementsAreArray(names_of({PlanKind::kv, PlanKind::ctx, PlanKind::seqs, PlanKind::quant, PlanKind::mix,
                                         PlanKind::sleep, PlanKind::stop})));
  using planner::Action;
  EXPECT_THAT(json::words<&dto::Duration::action>,
              ElementsAreArray(names_of({Action::load, Action::stop, Action::sleep, Action::wake})));
  using host::HostClass;
  auto classes = names_of({HostClass::none, HostClass::integrated, HostClass::coherent, HostClass::discrete,
                           HostClass::mixed, HostClass::unknown});
  classes.emplace_back("");
  EXPECT_THAT(json::words<&dto::Budget::host_class>, ElementsAreArray(classes));
  using Severity = host::Warning::Severity;
  EXPECT_THAT(json::words<&dto::Warning::severity>, ElementsAreArray(names_of({Severity::warning, Severity::note})));
  using model::Format;
  EXPECT_THAT(json::words<&dto::ModelInfo::format>, ElementsAreArray(names_of({Format::gguf, Format::safetensors})));
  using engine::CacheType;
  EXPECT_THAT(dto::kCacheTypes, ElementsAreArray(names_of({CacheType::f32, CacheType::f16, CacheType::bf16,
                                                           CacheType::q8_0, CacheType::q5_1, CacheType::q5_0,
                                                           CacheType::q4_1, CacheType::q4_0, CacheType::iq4_nl})));
  using engine::FlashAttention;
  EXPECT_THAT(dto::kFlashAttention,
              ElementsAreArray(names_of({FlashAttention::automatic, FlashAttention::on, FlashAttention::off})));
  using engine::SpecType;
  EXPECT_THAT(dto::kSpecTypes,
              ElementsAreArray(names_of({SpecType::none, SpecType::draft_simple, SpecType::draft_mtp})));
  EXPECT_THAT(dto::kEngines, ElementsAreArray({engine::display_name(engine::EngineKind::llamacpp),
                                               engine::display_name(engine::EngineKind::vllm)}));
}

TEST(ApiDescription, AnAnswerThatIsNotAsDescribedIsFound) {
  const auto faults = [](std::string_view body, int status = 200, std::string_view type = "application/json") {
    return description().faults_of_answer("GET", "/api/v1/version", status, type, body);
  };
  EXPECT_THAT(faults(R"({"version": "1", "commit": "c", "api": "v1", "host": null})"), IsEmpty());
  EXPECT_THAT(faults(R"({"version": "1", "commit": "c", "host": null})"), SizeIs(1));
  EXPECT_THAT(faults(R"({"version": "1", "commit": "c", "api": null, "host": null})"), SizeIs(1));
  EXPECT_THAT(faults(R"({"version": "1", "commit": "c", "api": "v1", "host": null, "more": 1})"), SizeIs(1));
  EXPECT_THAT(faults(R"({"version": "1", "commit": "c", "api": "v1", "host": null})", 202), SizeIs(1));
  EXPECT_THAT(faults("text", 200, "text/plain"), SizeIs(1));
  EXPECT_THAT(
      description().faults_of_answer("GET", "/healthz", 200, "application/json", R"({"status": "well", "detail": ""})"),
      SizeIs(1));
}

}  // namespace
}  // namespace dgxmm::testing
