#include "cli/commands.h"
#include "cli/format.h"
#include "cli/offline.h"
#include "cli/report.h"
#include "cli/table.h"
#include "core/model/catalog.h"
#include "core/model/identity.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace dgxmm::cli {
namespace {

/// What a person gives to `fit` and `deploy`: the name, or the path where several models have that name.
class Callable {
 public:
  explicit Callable(const std::vector<dto::CatalogModel>& models) {
    for (const auto& model : models) ++count_[model.name];
  }
  [[nodiscard]] const std::string& operator()(const dto::CatalogModel& model) const {
    return count_.at(model.name) == 1 ? model.name : model.path;
  }

 private:
  std::map<std::string, int> count_;
};

std::string context_text(const dto::CatalogModel& model) {
  return model.training_context ? fmt::format("{}", *model.training_context) : "?";
}

/// Of a file that is not there, or is none, no size is known.
std::string size_text(const dto::CatalogModel& model) {
  return model.file_bytes ? format_bytes(*model.file_bytes) : "?";
}

std::string known(const std::string& text) { return text.empty() ? "?" : text; }

void add_problem(Table& table, const dto::CatalogModel& model) {
  if (!model.problem.empty()) table.add_note("cannot be used: " + model.problem);
}

/// One row a model, in the order of the names.
std::string flat_table(const std::vector<dto::CatalogModel>& models, std::size_t width) {
  Table table{{{"NAME", Align::left, 16},
               {"FORMAT"},
               {"ARCHITECTURE", Align::left, 8},
               {"QUANT", Align::left, 6},
               {"SIZE", Align::right},
               {"CONTEXT", Align::right}}};
  const Callable callable{models};
  for (const auto& model : models) {
    table.add(
        {callable(model), model.format, model.architecture, model.quantization, size_text(model), context_text(model)});
    add_problem(table, model);
  }
  return table.render(width);
}

/// What a group is called: the shortest that its members' names say without their quantization. What the group's key
/// says may be the name of a training run.
std::string title_of(const std::vector<const dto::CatalogModel*>& members) {
  std::string title;
  for (const auto* model : members) {
    std::string_view name{model->name};
    name = name.substr(name.rfind('/') + 1);
    auto words = model::name_without_quantization(name.substr(0, name.find(':')));
    if (!words.empty() && (title.empty() || words.size() < title.size())) title = std::move(words);
  }
  return title.empty() ? std::string{model::group_title(members.front()->group)} : title;
}

/// A line for each base model, below it its quantizations, the largest first.
std::string grouped_table(const std::vector<dto::CatalogModel>& models, std::size_t width) {
  std::map<std::string, std::vector<const dto::CatalogModel*>> by_key;
  // Of an unknown base model each stands alone; no key of a group begins with a slash.
  for (const auto& model : models) by_key[model.group.empty() ? "/" + model.path : model.group].push_back(&model);
  std::multimap<std::string, std::vector<const dto::CatalogModel*>> groups;
  for (auto& [key, members] : by_key) {
    auto title = key.starts_with('/') ? members.front()->name : title_of(members);
    groups.emplace(std::move(title), std::move(members));
  }
  Table table{{{"MODEL", Align::left, 12},
               {"SIZE", Align::right},
               {"CONTEXT", Align::right},
               {"ENGINE"},
               {"NAME", Align::left, 16}}};
  const Callable callable{models};
  for (auto& [title, members] : groups) {
    std::ranges::sort(members, [](const auto* a, const auto* b) {
      return std::tie(b->file_bytes, a->name, a->path) < std::tie(a->file_bytes, b->name, b->path);
    });
    table.add({title});
    for (const auto* model : members) {
      table.add({"  " + known(model->quantization), size_text(*model), context_text(*model), known(model->engine),
                 callable(*model)});
      add_problem(table, *model);
    }
  }
  return table.render(width);
}

}  // namespace

int run(const ModelsCommand& command, Context& context) {
  auto models = context.api.get<dto::Models>("/models");
  if (!models && models.error().code == kNoDaemon && context.api.is_local()) {
    note(context.console, models.error().detail + ": direct reading");
    models = offline_models(*context.composition.offline().files, context.settings, context.clock.wall());
  }
  if (!models) return report(context, models.error());
  if (context.json) {
    print_json(context, *models);
    return kExitOk;
  }
  for (const auto& warning : models->warnings) warn(context.console, warning);
  if (models->models.empty()) {
    note(context.console, models->folders.empty()
                              ? std::string{"no model folders are set: `model_folders` in the daemon's settings"}
                              : fmt::format("no models in {}", fmt::join(models->folders, ", ")));
    return kExitOk;
  }
  context.console.out << (command.flat ? flat_table(models->models, context.console.width)
                                       : grouped_table(models->models, context.console.width));
  return kExitOk;
}

}  // namespace dgxmm::cli
