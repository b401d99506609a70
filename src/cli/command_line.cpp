#include "cli/command_line.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>

namespace dgxmm::cli {
namespace {

constexpr std::size_t kHelpColumn = 36;  // two spaces behind the longest usual option

/// Of a number that is given; wider than any setting, whose own limits the daemon knows.
struct Range {
  std::int64_t least = std::numeric_limits<std::int64_t>::min();
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
};
constexpr Range kPorts{.least = 1, .most = 65535};
constexpr Range kNotNegative{.least = 0};
constexpr Range kSleepLevels{.least = 1, .most = 2};

constexpr const char* kModelHelp = "a GGUF file, a model folder, or a name from `dgxmm models` (ORG/NAME:QUANT)";

using Words = std::vector<std::string>;

Words cache_types() {
  using engine::CacheType;
  Words words;
  for (const auto type : {CacheType::f32, CacheType::f16, CacheType::bf16, CacheType::q8_0, CacheType::q5_1,
                          CacheType::q5_0, CacheType::q4_1, CacheType::q4_0, CacheType::iq4_nl}) {
    words.emplace_back(engine::name_of(type));
  }
  return words;
}

/// Not CLI11's own, which repeats the list in the help and speaks of "not in {…}".
CLI::Validator one_of(Words words) {
  auto check = [words = std::move(words)](const std::string& text) {
    if (std::ranges::find(words, text) != words.end()) return std::string{};
    return fmt::format("'{}' is not one of {}", text, fmt::join(words, ", "));
  };
  return CLI::Validator{std::move(check), ""};
}

/// CLI11 marks the name of a flag that means no: "--no-wait{false}".
class HelpFormatter final : public CLI::Formatter {
 public:
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    constexpr std::string_view kMark = "{false}";
    auto name = CLI::Formatter::make_option_name(option, is_positional);
    for (auto at = name.find(kMark); at != std::string::npos; at = name.find(kMark)) name.erase(at, kMark.size());
    return name;
  }
};

/// Remembers which options have a closed list of values: CLI11 keeps that only inside a function.
using Choices = std::map<const CLI::Option*, Words>;

/// The program's grammar and, after parsing, what was typed.
class CommandLine {
 public:
  CommandLine();

  Result<Invocation> parse(Words arguments);
  [[nodiscard]] Grammar grammar() const;

 private:
  CLI::App& add(const std::string& name, const std::string& description, std::function<Command()> result);
  static CLI::Option* add_number(CLI::App& command, const std::string& names, std::optional<std::int64_t>& value,
                                 const std::string& description, Range range = {});
  void add_choice(CLI::App& command, const std::string& names, std::optional<std::string>& value, Words words,
                  const std::string& description, const std::string& group);
  void add_engine_options(CLI::App& command, engine::DeployRequest& request);
  void add_deployment_options(CLI::App& command, engine::DeployRequest& request);
  void add_wait(CLI::App& command, bool& wait);
  static void add_yes(CLI::App& command, bool& yes);
  void add_global_options();
  void add_serve();
  void add_memory_commands();
  void add_deployment_commands();
  void add_plan_commands();
  void add_other_commands();
  [[nodiscard]] Result<Invocation> checked(Command command) const;
  [[nodiscard]] std::string unexpected_argument() const;
  [[nodiscard]] std::string help_hint() const;
  [[nodiscard]] std::vector<OptionGrammar> options_of(const CLI::App& command) const;

  CLI::App app_{"Tells whether one more model fits into the memory that CPU and GPU share, and runs it.", "dgxmm"};
  Choices choices_;
  std::map<const CLI::App*, std::function<Command()>> results_;
  std::vector<const CLI::App*> takes_files_;
  GlobalOptions global_;
  bool version_ = false;

  std::map<std::string, Words> settings_;  // by name, as given to `serve`
  FitCommand fit_;
  ModelsCommand models_;
  DeployCommand deploy_;
  PsCommand ps_;
  StopCommand stop_;
  OrphansCommand orphans_;
  CalibrationCommand calibration_;
  StartCommand start_;
  SleepCommand sleep_;
  WakeCommand wake_;
  RemoveCommand remove_;
  LogsCommand logs_;
  PlanCommand plan_;
  ScenarioCommand scenario_;
  ApplyCommand apply_;
  CancelCommand cancel_;
  EventsCommand events_;
  CompletionCommand completion_;
  std::string help_about_;
  Words labels_;
};

CommandLine::CommandLine() {
  const auto formatter = std::make_shared<HelpFormatter>();
  formatter->column_width(kHelpColumn);
  formatter->label("SUBCOMMAND", "COMMAND");
  formatter->label("Subcommands", "Commands");
  formatter->label("Positionals", "Arguments");
  formatter->label("REQUIRED", "");
  app_.formatter(formatter);
  app_.set_help_flag("-h,--help", "what a command does and takes");
  app_.require_subcommand(0, 1);  // behind a command, a command's name is an argument like any other
  app_.footer(
      "Exit codes: 0 it fits or it is done, 3 it does not fit, 2 wrong usage, 1 any other error.\n"
      "`dgxmm help COMMAND` tells more about one command.");
  add_global_options();
  add_serve();
  add_memory_commands();
  add_deployment_commands();
  add_plan_commands();
  add_other_commands();
}

CLI::App& CommandLine::add(const std::string& name, const std::string& description, std::function<Command()> result) {
  auto* command = app_.add_subcommand(name, description);
  command->fallthrough();  // global options may stand behind the command
  results_[command] = std::move(result);
  return *command;
}

CLI::Option* CommandLine::add_number(CLI::App& command, const std::string& names, std::optional<std::int64_t>& value,
                                     const std::string& description, Range range) {
  const auto name = names.substr(names.find("--"));
  const auto long_name = name.substr(0, name.find(','));
  // Not CLI11's own reading, which takes 010 for 8 and cuts what is too large.
  auto read = [&value, long_name, range](const std::string& text) {
    std::int64_t number = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
    if (parsed.ec != std::errc{} || parsed.ptr != text.data() + text.size()) {
      throw CLI::ValidationError(long_name, fmt::format("'{}' is not a whole number", text));
    }
    if (number < range.least || number > range.most) {
      throw CLI::ValidationError(long_name, fmt::format("{} is out of range", number));
    }
    value = number;
  };
  return command.add_option_function<std::string>(names, std::move(read), description)->type_name("NUMBER");
}

void CommandLine::add_choice(CLI::App& command, const std::string& names, std::optional<std::string>& value,
                             Words words, const std::string& description, const std::string& group) {
  auto* option = command.add_option(names, value, description)
                     ->check(one_of(words))
                     ->type_name(fmt::format("{}", fmt::join(words, "|")))
                     ->group(group);
  choices_[option] = std::move(words);
}

void CommandLine::add_engine_options(CLI::App& command, engine::DeployRequest& request) {
  const std::string both = "Settings of both engines";
  add_number(command, "--context", request.context, "tokens of context: --ctx-size or --max-model-len")->group(both);
  add_number(command, "--sequences", request.sequences, "requests at once: --parallel or --max-num-seqs")->group(both);
  add_choice(command, "--engine", request.engine, {"llama.cpp", "llamacpp", "vllm"}, "default: by the model's format",
             both);
  command
      .add_option("--draft-model,--spec-draft-model,--model-draft", request.draft_model,
                  "a smaller model that drafts tokens (-md)")
      ->type_name("MODEL")
      ->group(both);

  const std::string llamacpp = "Settings of llama.cpp";
  add_number(command, "-c,--ctx-size", request.ctx_size, "tokens of context, over all slots; 0 = the model's own")
      ->group(llamacpp);
  add_number(command, "--parallel", request.parallel, "slots (-np)")->group(llamacpp);
  add_choice(command, "--cache-type-k", request.cache_type_k, cache_types(), "of the K cache (-ctk)", llamacpp);
  add_choice(command, "--cache-type-v", request.cache_type_v, cache_types(), "of the V cache (-ctv)", llamacpp);
  add_number(command, "-b,--batch-size", request.batch, "logical batch")->group(llamacpp);
  add_number(command, "--ubatch-size,--ubatch", request.ubatch, "physical batch (-ub)")->group(llamacpp);
  add_choice(command, "--flash-attn", request.flash_attn, {"on", "off", "auto"}, "flash attention (-fa)", llamacpp);
  command
      .add_flag_function(
          "--kv-unified,!--no-kv-unified", [&request](std::int64_t count) { request.kv_unified = count > 0; },
          "one KV cache for all slots, or one for each")
      ->group(llamacpp);
  command
      .add_flag_function(
          "--swa-full", [&request](std::int64_t) { request.swa_full = true; },
          "keep the whole context of sliding-window layers")
      ->group(llamacpp);
  add_number(command, "--cache-ram", request.cache_ram_mib, "bound of the prompt cache, MiB")->group(llamacpp);
  command.add_option("--mmproj", request.mmproj, "a projector for pictures or sound, or none (-mm); default: none")
      ->type_name("FILE")
      ->group(llamacpp);
  add_choice(command, "--spec-type", request.spec_type, {"none", "draft-simple", "draft-mtp"},
             "who drafts tokens; draft-mtp: the model's own layers", llamacpp);
  add_number(command, "--spec-draft-n-max,--draft-max", request.spec_draft_n_max, "tokens drafted at once; default 3")
      ->group(llamacpp);
  add_choice(command, "--cache-type-k-draft,--spec-draft-type-k", request.cache_type_k_draft, cache_types(),
             "of the draft's K cache (-ctkd)", llamacpp);
  add_choice(command, "--cache-type-v-draft,--spec-draft-type-v", request.cache_type_v_draft, cache_types(),
             "of the draft's V cache (-ctvd)", llamacpp);

  const std::string vllm = "Settings of vLLM";
  add_number(command, "--max-model-len", request.max_model_len, "tokens of context")->group(vllm);
  add_number(command, "--max-num-seqs", request.max_num_seqs, "sequences in one step")->group(vllm);
  add_number(command, "--max-num-batched-tokens", request.max_num_batched_tokens, "tokens in one step")->group(vllm);
  command.add_option("--kv-cache-dtype", request.kv_cache_dtype, "auto, fp8, …")->group(vllm);
  add_number(command, "--kv-tokens", request.kv_tokens, "size of the KV cache in tokens")->group(vllm);
  command
      .add_flag_function(
          "--enforce-eager", [&request](std::int64_t) { request.enforce_eager = true; }, "no CUDA graphs")
      ->group(vllm);
  add_number(command, "--tensor-parallel-size", request.tensor_parallel_size, "ranks, one of them on this host")
      ->group(vllm);
  command.add_option("--quantization", request.quantization, "of 16-bit weights while they are loaded: fp8, mxfp4, …")
      ->group(vllm);
  command
      .add_option("--spec-method", request.spec_method, "speculative decoding: mtp, ngram, draft_model, eagle, eagle3")
      ->group(vllm);
  add_number(command, "--num-speculative-tokens", request.num_speculative_tokens, "drafted in one step")->group(vllm);
  command
      .add_flag_function(
          "--enable-lora", [&request](std::int64_t) { request.enable_lora = true; }, "room for LoRA adapters")
      ->group(vllm);
  add_number(command, "--max-loras", request.max_loras, "adapters in one step [1]")->group(vllm);
  add_number(command, "--max-lora-rank", request.max_lora_rank, "of the largest adapter [16]")->group(vllm);
  command
      .add_flag_function(
          "--language-model-only", [&request](std::int64_t) { request.language_model_only = true; },
          "do not load encoders for pictures and sound")
      ->group(vllm);
  add_number(command, "--limit-mm-per-prompt", request.limit_mm_per_prompt, "pictures, videos and sounds in a prompt")
      ->group(vllm);
  add_number(command, "--mm-processor-cache-gb", request.mm_processor_cache_gb, "host memory for prepared pictures [1]")
      ->group(vllm);
  command
      .add_flag_function(
          "--sleep-mode", [&request](std::int64_t) { request.sleep_mode = true; }, "can be put to sleep: `dgxmm sleep`")
      ->group(vllm);
}

void CommandLine::add_deployment_options(CLI::App& command, engine::DeployRequest& request) {
  const std::string group = "The deployment";
  command.add_option("--name", request.name, "default: from the model")->group(group);
  command.add_option("--served-name", request.served_name, "the model's name in the engine's API; default: --name")
      ->group(group);
  command.add_option("--runtime", request.runtime, "process or docker; default: the setting, docker with --image")
      ->group(group);
  command.add_option("--image", request.image, "of the container; its entrypoint is the engine's server")->group(group);
  add_number(command, "--port", request.port, "of the engine; default: a free one", kPorts)->group(group);
  add_number(command, "--priority", request.priority, "higher is more important; default 0")->group(group);
  command
      .add_flag_function(
          "--pin", [&request](std::int64_t) { request.pinned = true; }, "never stop it for another without a warning")
      ->group(group);
  command.add_option("--label", labels_, "a mark of your own, any number of times")
      ->type_name("NAME=VALUE")
      ->expected(1)
      ->take_all()
      ->group(group);
}

void CommandLine::add_yes(CLI::App& command, bool& yes) {
  command.add_flag("-y,--yes", yes, "when it does not fit, carry out the recommended plan; never an unsafe one");
}

void CommandLine::add_wait(CLI::App& command, bool& wait) {
  command.add_flag("--wait,!--no-wait", wait, "return when it serves (default), or at once");
}

void CommandLine::add_global_options() {
  app_.add_flag("--json", global_.json, "print the answer as JSON");
  app_.add_option("--address", global_.address, "of the daemon; default: the setting `listen`")->type_name("HOST:PORT");
  app_.add_option("--token", global_.token,
                  "of the daemon; every user here can read it in the process list: better the setting `token` or the "
                  "variable DGXMM_TOKEN");
  app_.add_option("--config", global_.config, "settings file; default: ~/.config/dgxmm/settings.toml")
      ->type_name("FILE");
  app_.add_flag("--no-color", global_.no_color, "no colours; the variable NO_COLOR does the same");
  app_.add_flag("--version", version_, "the same as the command");
}

void CommandLine::add_serve() {
  auto& serve = add("serve", "run the daemon", [this] {
    ServeCommand command;
    for (const auto& definition : settings::definitions()) {
      const std::string name{definition.name};
      const auto given = settings_.find(name);
      if (given == settings_.end() || given->second.empty()) continue;
      command.assignments.push_back({name, given->second, settings::flag_name(name)});
    }
    return command;
  });
  serve.footer(
      "Each of them can also be set in the settings file by its name with _, and in the environment, for "
      "example DGXMM_LISTEN.");
  for (const auto& definition : settings::definitions()) {
    if (definition.name == "token") continue;  // a global option
    const bool is_list = definition.kind == settings::Kind::list;
    std::string description{definition.description};
    if (!definition.default_text.empty()) description += fmt::format(" [{}]", definition.default_text);
    if (is_list) description += "; any number of times";
    auto* option =
        serve.add_option(settings::flag_name(definition.name), settings_[std::string{definition.name}], description);
    const bool is_number = definition.kind == settings::Kind::number || definition.kind == settings::Kind::integer;
    option->type_name(is_number ? "NUMBER" : "TEXT")->expected(1)->group("Settings");
    if (is_list) {
      option->take_all();
    } else {
      option->take_last();
    }
  }
}

void CommandLine::add_memory_commands() {
  auto& fit = add("fit", "does a model fit? starts nothing", [this] { return fit_; });
  fit.add_option("MODEL", fit_.models, kModelHelp)->type_name("")->required();
  const std::string host = "Another host";
  fit.add_option("--host", fit_.host, "on a host with that much memory, a GPU in it and nothing running")
      ->type_name("SIZE")
      ->group(host);
  fit.add_option("--free", fit_.free, "if that much were free here")->type_name("SIZE")->group(host);
  fit.footer("A SIZE is written like 121.69GiB.");
  add_engine_options(fit, fit_.request);
  takes_files_.push_back(&fit);

  add("budget", "the memory: what is promised, what others use, what is free", [] { return BudgetCommand{}; });
  auto& models = add("models", "the models on disk, by base model", [this] { return models_; });
  models.add_flag("--flat", models_.flat, "one row a model, for scripts");
  add("doctor", "what of this host is good or bad for running models", [] { return DoctorCommand{}; });
  add("memory", "who holds the memory: deployments, containers, processes, kernel", [] { return MemoryCommand{}; });
  auto& top =
      add("top", "the memory, deployments and processes, live on the whole screen", [] { return TopCommand{}; });
  top.footer("Arrows choose, s stops, z puts to sleep, w wakes, l shows the log, o sorts, ? tells the rest, q leaves.");
  add("processes", "the largest processes that dgxmm does not manage", [] { return ProcessesCommand{}; });
  auto& orphans = add("orphans", "engines of dgxmm that no deployment knows any more", [this] { return orphans_; });
  orphans.add_option("--stop", orphans_.stop, "end this one; any number of times")
      ->type_name("ID")
      ->expected(1)
      ->take_all();
  orphans.add_flag("--stop-all", orphans_.stop_all, "end every one");
  auto& calibration =
      add("calibration", "what was learned from earlier starts, and forgetting it", [this] { return calibration_; });
  calibration
      .add_option("--forget", calibration_.forget,
                  "forget this one, or all of a model (its fingerprint); any number of times")
      ->type_name("ID")
      ->expected(1)
      ->take_all();
  calibration.add_flag("--oom-floors", calibration_.oom_floors_too,
                       "with --forget: also sizes that ran out of memory, which keep the next start larger");
}

void CommandLine::add_deployment_commands() {
  auto& deploy = add("deploy", "start a model, if it fits", [this] { return deploy_; });
  deploy.add_option("MODEL", deploy_.request.model, kModelHelp)->type_name("")->required();
  add_wait(deploy, deploy_.wait);
  add_yes(deploy, deploy_.yes);
  add_deployment_options(deploy, deploy_.request);
  add_engine_options(deploy, deploy_.request);
  takes_files_.push_back(&deploy);

  auto& ps = add("ps", "the deployments", [this] { return ps_; });
  ps.add_flag("-a,--all", ps_.all, "also those that have ended");

  auto& stop = add("stop", "stop deployments; returns when their memory is back", [this] { return stop_; });
  stop.add_option("ID|NAME", stop_.deployments, "what to stop")->type_name("");
  stop.add_flag("--all", stop_.all, "every one that runs");

  auto& start = add("start", "start a stopped deployment again", [this] { return start_; });
  start.add_option("ID|NAME", start_.deployment, "what to start")->type_name("")->required();
  add_wait(start, start_.wait);
  add_yes(start, start_.yes);

  auto& sleep =
      add("sleep", "have a vLLM deployment give memory back; returns when it sleeps", [this] { return sleep_; });
  sleep.add_option("ID|NAME", sleep_.deployment, "what to put to sleep")->type_name("")->required();
  add_number(sleep, "--level", sleep_.level, "1: the KV cache is dropped; 2: the weights too, and read again later [1]",
             kSleepLevels);
  sleep.add_flag("--force", sleep_.force, "also with requests in flight, which are finished first");
  sleep.footer("It must have been deployed with --sleep-mode.");

  auto& wake = add("wake", "wake a deployment that sleeps, if it fits", [this] { return wake_; });
  wake.add_option("ID|NAME", wake_.deployment, "what to wake")->type_name("")->required();
  add_wait(wake, wake_.wait);
  add_yes(wake, wake_.yes);

  auto& remove = add("rm", "forget deployments that have ended, and their logs", [this] { return remove_; });
  remove.add_option("ID|NAME", remove_.deployments, "what to forget")->type_name("")->required();

  auto& logs = add("logs", "what an engine wrote", [this] { return logs_; });
  logs.add_option("ID|NAME", logs_.deployment, "whose log")->type_name("")->required();
  logs.add_flag("-f,--follow", logs_.follow, "go on with what is written next");
  add_number(logs, "--tail", logs_.tail, "this many of the last lines [200]", kNotNegative);
}

void CommandLine::add_plan_commands() {
  auto& plan = add("plan", "ways to make a model fit; starts nothing", [this] { return plan_; });
  plan.add_option("MODEL", plan_.request.model, kModelHelp)->type_name("");
  plan.add_option("--scenario", plan_.scenario, "a described host instead of this one; needs no daemon")
      ->type_name("FILE")
      ->group("Another host");
  add_deployment_options(plan, plan_.request);  // what `apply` starts
  add_engine_options(plan, plan_.request);
  plan.footer(
      "Exit code 3 when no plan makes it fit. With --scenario, MODEL is one of the scenario's, by default the one of "
      "its request.");
  takes_files_.push_back(&plan);

  auto& scenario = add("scenario", "this host as a file, to share a case and replay it", [this] { return scenario_; });
  const Words actions{"export"};
  auto* action = scenario.add_option("ACTION", scenario_.action, "export: write it to stdout")
                     ->required()
                     ->check(one_of(actions))
                     ->type_name("export");
  choices_[action] = actions;
  scenario.add_option("MODEL", scenario_.request.model, "with this request, and the model's other quantizations")
      ->type_name("");
  add_deployment_options(scenario, scenario_.request);
  add_engine_options(scenario, scenario_.request);
  scenario.footer(
      "Paths, names of deployments, ports and labels are left out; names of models stay. `dgxmm plan --scenario FILE` "
      "reads it.");

  auto& apply = add("apply", "carry out a plan", [this] { return apply_; });
  apply.add_option("PLAN", apply_.plan, "7/stop:3; or stop:3 when only one request has it, and it is safe")
      ->type_name("")
      ->required();
  apply.add_flag("--detach{false}", apply_.wait, "return at once; the daemon goes on");
  apply.add_flag("--even-if-busy", apply_.even_if_busy,
                 "also when one that gives way has got requests in flight since the plan was shown");
  apply.footer("Ctrl-C leaves the daemon to it; a second one within 5 s cancels the plan, and what it did is undone.");

  auto& cancel =
      add("cancel", "cancel a plan that is carried out, and undo it; or one that waits", [this] { return cancel_; });
  cancel.add_option("ID", cancel_.id, "an operation (3), or one that `dgxmm queue` lists (admission-3)")
      ->type_name("")
      ->required();

  add("queue", "who waits for what, in the order of their turns", [] { return QueueCommand{}; });
}

void CommandLine::add_other_commands() {
  auto& events = add("events", "what happened", [this] { return events_; });
  events.add_flag("-f,--follow", events_.follow, "go on with what happens next");
  add_number(events, "--tail", events_.tail, "this many of the newest [50; with --follow 0]", kNotNegative);
  events.add_flag("--all", events_.all, "everything that is kept");
  add_number(events, "--after", events_.after, "only events after the one of that id", kNotNegative);

  add("version", "of this program and of the daemon", [] { return VersionCommand{}; });

  auto& completion = add("completion", "a completion script for a shell", [this] { return completion_; });
  completion.footer(
      "bash: dgxmm completion bash > /etc/bash_completion.d/dgxmm\n"
      "zsh:  dgxmm completion zsh > \"${fpath[1]}/_dgxmm\"\n"
      "fish: dgxmm completion fish > ~/.config/fish/completions/dgxmm.fish");
  const Words shells{"bash", "zsh", "fish"};
  auto* shell = completion.add_option("SHELL", completion_.shell, "bash, zsh or fish")
                    ->required()
                    ->check(one_of(shells))
                    ->type_name(fmt::format("{}", fmt::join(shells, "|")));
  choices_[shell] = shells;

  auto& help = add("help", "what a command does and takes", [this] {
    // Not of this object: having parsed, it would tell about `help` itself.
    if (help_about_.empty() || help_about_ == "help") return HelpCommand{CommandLine{}.app_.help()};
    return HelpCommand{app_.get_subcommand(help_about_)->help("dgxmm")};
  });
  auto names = Words{};
  for (const auto* command : app_.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  auto* about = help.add_option("COMMAND", help_about_, "which one")->type_name("");
  choices_[about] = std::move(names);
}

/// llama.cpp's short options of two letters, which CLI11 would take for two options of one letter.
Words with_long_forms(Words arguments) {
  static constexpr auto kForms =
      std::to_array<std::pair<std::string_view, std::string_view>>({{"-np", "--parallel"},
                                                                    {"-ctk", "--cache-type-k"},
                                                                    {"-ctv", "--cache-type-v"},
                                                                    {"-ub", "--ubatch-size"},
                                                                    {"-fa", "--flash-attn"},
                                                                    {"-md", "--draft-model"},
                                                                    {"-mm", "--mmproj"},
                                                                    {"-ctkd", "--cache-type-k-draft"},
                                                                    {"-ctvd", "--cache-type-v-draft"}});
  for (auto& argument : arguments) {
    if (argument == "--") break;
    const auto found = std::ranges::find(kForms, argument, [](const auto& form) { return form.first; });
    if (found != kForms.end()) argument = found->second;
  }
  return arguments;
}

std::unexpected<Error> wrong_usage(std::string message, std::string hint) {
  return fail("usage", std::move(message), std::move(hint));
}

/// CLI11 begins some of its messages with a capital letter.
std::string sentence(std::string message) {
  if (message.size() > 1 && message[0] >= 'A' && message[0] <= 'Z' && message[1] >= 'a' && message[1] <= 'z') {
    message[0] = static_cast<char>(message[0] - 'A' + 'a');
  }
  return message;
}

Result<std::map<std::string, std::string>> read_labels(const Words& labels) {
  std::map<std::string, std::string> result;
  for (const auto& label : labels) {
    const auto equals = label.find('=');
    if (equals == 0 || equals == std::string::npos) {
      return wrong_usage(fmt::format("--label: expected NAME=VALUE, not '{}'", label), {});
    }
    result[label.substr(0, equals)] = label.substr(equals + 1);
  }
  return result;
}

Result<Invocation> CommandLine::parse(Words arguments) {
  arguments = with_long_forms(std::move(arguments));
  std::ranges::reverse(arguments);  // CLI11 takes them from the end
  try {
    app_.parse(std::move(arguments));
  } catch (const CLI::CallForHelp&) {
    return Invocation{global_, HelpCommand{app_.help()}};
  } catch (const CLI::ExtrasError&) {
    return wrong_usage(unexpected_argument(), help_hint());
  } catch (const CLI::ParseError& error) {
    return wrong_usage(sentence(error.what()), help_hint());
  }
  const auto chosen = app_.get_subcommands();
  if (version_) return Invocation{global_, VersionCommand{}};
  const auto is_asked_for = [this](const auto& entry) { return entry.first->get_name() == help_about_; };
  if (!help_about_.empty() && std::ranges::none_of(results_, is_asked_for)) {
    return wrong_usage(fmt::format("there is no command '{}'", help_about_), help_hint());
  }
  if (chosen.empty()) return wrong_usage("no command was given", "`dgxmm help` lists the commands");
  return checked(results_.at(chosen.front())());
}

std::string CommandLine::unexpected_argument() const {
  const auto extras = app_.remaining(true);
  const auto option = std::ranges::find_if(extras, [](const std::string& extra) { return extra.starts_with('-'); });
  if (option != extras.end()) return fmt::format("there is no option {}", *option);
  const auto first = extras.empty() ? std::string{} : extras.front();
  if (app_.get_subcommands().empty()) return fmt::format("there is no command '{}'", first);
  return fmt::format("one argument too many: '{}'", first);
}

std::string CommandLine::help_hint() const {
  const auto chosen = app_.get_subcommands();
  const auto name = chosen.empty() ? std::string{"help"} : chosen.front()->get_name();
  return name == "help" ? "`dgxmm help` lists the commands" : fmt::format("`dgxmm help {}` tells what it takes", name);
}

Result<Invocation> CommandLine::checked(Command command) const {
  auto* deploy = std::get_if<DeployCommand>(&command);
  auto* plan = std::get_if<PlanCommand>(&command);
  if (deploy != nullptr || plan != nullptr) {
    auto labels = read_labels(labels_);
    if (!labels) return fail(labels.error());
    (deploy != nullptr ? deploy->request : plan->request).labels = std::move(*labels);
  }
  if (plan != nullptr && plan->request.model.empty() && !plan->scenario) {
    return wrong_usage("plan: which model?", help_hint());
  }
  if (const auto* stop = std::get_if<StopCommand>(&command);
      stop != nullptr && stop->all != stop->deployments.empty()) {
    return wrong_usage(stop->all ? "stop: give names or --all, not both" : "stop: which deployment?",
                       "`dgxmm ps` lists them");
  }
  if (const auto* orphans = std::get_if<OrphansCommand>(&command);
      orphans != nullptr && orphans->stop_all && !orphans->stop.empty()) {
    return wrong_usage("orphans: give --stop or --stop-all, not both", help_hint());
  }
  if (const auto* calibration = std::get_if<CalibrationCommand>(&command);
      calibration != nullptr && calibration->oom_floors_too && calibration->forget.empty()) {
    return wrong_usage("calibration: --oom-floors goes with --forget", help_hint());
  }
  if (const auto* events = std::get_if<EventsCommand>(&command);
      events != nullptr && int{events->all} + int{events->after.has_value()} + int{events->tail.has_value()} > 1) {
    return wrong_usage("events: give one of --all, --after and --tail", help_hint());
  }
  if (std::holds_alternative<ServeCommand>(command) && global_.address) {
    return wrong_usage("--address: is for clients of a daemon", "use --listen");
  }
  return Invocation{global_, std::move(command)};
}

std::vector<OptionGrammar> CommandLine::options_of(const CLI::App& command) const {
  std::vector<OptionGrammar> result;
  for (const auto* option : command.get_options()) {
    if (option->get_positional()) continue;
    OptionGrammar grammar;
    for (const auto& name : option->get_snames()) grammar.names.push_back("-" + name);
    for (const auto& name : option->get_lnames()) grammar.names.push_back("--" + name);
    grammar.takes_value = option->get_expected_max() > 0;
    if (const auto found = choices_.find(option); found != choices_.end()) grammar.choices = found->second;
    grammar.description = option->get_description();
    result.push_back(std::move(grammar));
  }
  return result;
}

Grammar CommandLine::grammar() const {
  Grammar result;
  result.global_options = options_of(app_);
  for (const auto* command : app_.get_subcommands([](const CLI::App*) { return true; })) {
    CommandGrammar grammar{.name = command->get_name(),
                           .description = command->get_description(),
                           .options = options_of(*command),
                           .takes_files = std::ranges::find(takes_files_, command) != takes_files_.end(),
                           .choices = {}};
    for (const auto* option : command->get_options()) {
      const auto found = choices_.find(option);
      if (option->get_positional() && found != choices_.end()) grammar.choices = found->second;
    }
    result.commands.push_back(std::move(grammar));
  }
  return result;
}

}  // namespace

Result<Invocation> parse_command_line(std::vector<std::string> arguments) {
  return CommandLine{}.parse(std::move(arguments));
}

Grammar grammar() { return CommandLine{}.grammar(); }

}  // namespace dgxmm::cli
