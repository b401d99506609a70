#include "cli/command_line.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace dgxmm::cli {
namespace {

using Arguments = std::vector<std::string>;

template <class T>
T parsed(const Arguments& arguments) {
  auto invocation = parse_command_line(arguments);
  if (!invocation) {
    ADD_FAILURE() << invocation.error().message;
    return {};
  }
  auto* command = std::get_if<T>(&invocation->command);
  if (command == nullptr) {
    ADD_FAILURE() << "another command";
    return {};
  }
  return *command;
}

Error refused(const Arguments& arguments) {
  const auto invocation = parse_command_line(arguments);
  if (invocation) {
    ADD_FAILURE() << "was accepted";
    return {};
  }
  EXPECT_EQ(invocation.error().code, "usage");
  return invocation.error();
}

TEST(CommandLine, EverySettingOfLlamaCppByItsOwnName) {
  const auto fit = parsed<FitCommand>({"fit",
                                       "a.gguf",
                                       "--ctx-size",
                                       "8192",
                                       "--parallel",
                                       "2",
                                       "--cache-type-k",
                                       "q8_0",
                                       "--cache-type-v",
                                       "q4_0",
                                       "--batch-size",
                                       "1024",
                                       "--ubatch-size",
                                       "256",
                                       "--flash-attn",
                                       "on",
                                       "--kv-unified",
                                       "--swa-full",
                                       "--cache-ram",
                                       "64"});
  engine::DeployRequest expected;
  expected.ctx_size = 8192;
  expected.parallel = 2;
  expected.cache_type_k = "q8_0";
  expected.cache_type_v = "q4_0";
  expected.batch = 1024;
  expected.ubatch = 256;
  expected.flash_attn = "on";
  expected.kv_unified = true;
  expected.swa_full = true;
  expected.cache_ram_mib = 64;
  EXPECT_EQ(fit.models, Arguments{"a.gguf"});
  EXPECT_EQ(fit.request, expected);
}

TEST(CommandLine, ShortNamesOfLlamaCpp) {
  const auto plan = parsed<PlanCommand>(
      {"plan", "m", "-c", "1", "-np", "2", "-ctk", "f16", "-ctv", "f32", "-b", "3", "-ub", "4", "-fa", "auto"});
  EXPECT_EQ(plan.request.ctx_size, 1);
  EXPECT_EQ(plan.request.parallel, 2);
  EXPECT_EQ(plan.request.cache_type_k, "f16");
  EXPECT_EQ(plan.request.cache_type_v, "f32");
  EXPECT_EQ(plan.request.batch, 3);
  EXPECT_EQ(plan.request.ubatch, 4);
  EXPECT_EQ(plan.request.flash_attn, "auto");
}

TEST(CommandLine, WhatIsLoadedBesideTheModel) {
  engine::DeployRequest expected;
  expected.draft_model = "small.gguf";
  expected.mmproj = "mmproj.gguf";
  expected.spec_draft_n_max = 5;
  expected.cache_type_k_draft = "q8_0";
  expected.cache_type_v_draft = "f16";
  EXPECT_EQ(
      parsed<FitCommand>({"fit", "m", "--draft-model", "small.gguf", "--mmproj", "mmproj.gguf", "--spec-draft-n-max",
                          "5", "--cache-type-k-draft", "q8_0", "--cache-type-v-draft", "f16"})
          .request,
      expected);
  EXPECT_EQ(parsed<FitCommand>({"fit", "m", "-md", "small.gguf", "-mm", "mmproj.gguf", "--spec-draft-n-max", "5",
                                "-ctkd", "q8_0", "-ctvd", "f16"})
                .request,
            expected)
      << "llama-server's short names";
  EXPECT_EQ(parsed<FitCommand>({"fit", "m", "--spec-draft-model", "small.gguf", "--mmproj", "mmproj.gguf",
                                "--spec-draft-n-max", "5", "--spec-draft-type-k", "q8_0", "--spec-draft-type-v", "f16"})
                .request,
            expected)
      << "and its newer ones";
  EXPECT_EQ(parsed<FitCommand>({"fit", "m", "--spec-type", "draft-mtp"}).request.spec_type, "draft-mtp");
}

TEST(CommandLine, ShortNamesAreLeftAloneAfterTheDoubleDash) {
  EXPECT_EQ(parsed<FitCommand>({"fit", "--", "-np"}).models, Arguments{"-np"});
}

TEST(CommandLine, EverySettingOfVllmByItsOwnName) {
  const auto fit = parsed<FitCommand>({"fit",
                                       "a",
                                       "--max-model-len",
                                       "1",
                                       "--max-num-seqs",
                                       "2",
                                       "--max-num-batched-tokens",
                                       "3",
                                       "--kv-cache-dtype",
                                       "fp8",
                                       "--kv-tokens",
                                       "4",
                                       "--enforce-eager",
                                       "--engine",
                                       "vllm",
                                       "--tensor-parallel-size",
                                       "5",
                                       "--quantization",
                                       "fp8",
                                       "--spec-method",
                                       "mtp",
                                       "--num-speculative-tokens",
                                       "6",
                                       "--enable-lora",
                                       "--max-loras",
                                       "7",
                                       "--max-lora-rank",
                                       "8",
                                       "--language-model-only",
                                       "--limit-mm-per-prompt",
                                       "9",
                                       "--sleep-mode",
                                       "--mm-processor-cache-gb",
                                       "10"});
  engine::DeployRequest expected;
  expected.tensor_parallel_size = 5;
  expected.quantization = "fp8";
  expected.spec_method = "mtp";
  expected.num_speculative_tokens = 6;
  expected.enable_lora = true;
  expected.max_loras = 7;
  expected.max_lora_rank = 8;
  expected.language_model_only = true;
  expected.limit_mm_per_prompt = 9;
  expected.mm_processor_cache_gb = 10;
  expected.sleep_mode = true;
  expected.max_model_len = 1;
  expected.max_num_seqs = 2;
  expected.max_num_batched_tokens = 3;
  expected.kv_cache_dtype = "fp8";
  expected.kv_tokens = 4;
  expected.enforce_eager = true;
  expected.engine = "vllm";
  EXPECT_EQ(fit.request, expected);
}

TEST(CommandLine, NumbersAreDecimal) {
  EXPECT_EQ(parsed<FitCommand>({"fit", "m", "-c", "010"}).request.ctx_size, 10);
  EXPECT_EQ(parsed<FitCommand>({"fit", "m", "--ctx-size=-1"}).request.ctx_size, -1);
}

TEST(CommandLine, WhatIsNotGivenStaysOpen) {
  EXPECT_EQ(parsed<FitCommand>({"fit", "m"}).request, engine::DeployRequest{});
}

TEST(CommandLine, NamesThatWorkForBothEngines) {
  const auto request = parsed<DeployCommand>({"deploy", "m", "--context", "4096", "--sequences", "2"}).request;
  EXPECT_EQ(request.context, 4096);
  EXPECT_EQ(request.sequences, 2);
}

TEST(CommandLine, AUnifiedCacheCanBeRefused) {
  EXPECT_EQ(parsed<FitCommand>({"fit", "m", "--no-kv-unified"}).request.kv_unified, false);
}

TEST(CommandLine, EverythingAboutADeployment) {
  const auto deploy =
      parsed<DeployCommand>({"deploy", "m.gguf", "--name", "n", "--served-name", "s", "--port", "8081", "--priority",
                             "-3", "--pin", "--label", "a=b", "--label", "c=d=e", "--no-wait"});
  engine::DeployRequest expected;
  expected.model = "m.gguf";
  expected.name = "n";
  expected.served_name = "s";
  expected.port = 8081;
  expected.priority = -3;
  expected.pinned = true;
  expected.labels = {{"a", "b"}, {"c", "d=e"}};
  EXPECT_EQ(deploy.request, expected);
  EXPECT_FALSE(deploy.wait);
}

TEST(CommandLine, APlanTakesTheSameRequestAsDeploy) {
  const Arguments options{"m",          "--name", "n",     "--served-name", "s",   "--port", "8000",
                          "--priority", "5",      "--pin", "--label",       "a=b", "-c",     "4096"};
  Arguments plan{"plan"};
  Arguments deploy{"deploy"};
  plan.insert(plan.end(), options.begin(), options.end());
  deploy.insert(deploy.end(), options.begin(), options.end());
  const auto request = parsed<PlanCommand>(plan).request;
  EXPECT_EQ(request.name, "n");
  EXPECT_EQ(request.labels.at("a"), "b");
  EXPECT_EQ(request, parsed<DeployCommand>(deploy).request);
}

TEST(CommandLine, DeployAndStartWaitUnlessTold) {
  EXPECT_TRUE(parsed<DeployCommand>({"deploy", "m"}).wait);
  EXPECT_TRUE(parsed<DeployCommand>({"deploy", "m", "--wait"}).wait);
  EXPECT_TRUE(parsed<StartCommand>({"start", "m"}).wait);
  EXPECT_FALSE(parsed<StartCommand>({"start", "m", "--no-wait"}).wait);
}

TEST(CommandLine, OtherCommands) {
  EXPECT_EQ(parsed<FitCommand>({"fit", "a", "b"}).models, (Arguments{"a", "b"}));
  EXPECT_TRUE(parsed<PsCommand>({"ps", "--all"}).all);
  EXPECT_FALSE(parsed<PsCommand>({"ps"}).all);
  EXPECT_EQ(parsed<StopCommand>({"stop", "1", "two"}).deployments, (Arguments{"1", "two"}));
  EXPECT_TRUE(parsed<StopCommand>({"stop", "--all"}).all);
  EXPECT_EQ(parsed<RemoveCommand>({"rm", "1"}).deployments, Arguments{"1"});
  EXPECT_EQ(parsed<ApplyCommand>({"apply", "7/stop:3+5"}).plan, "7/stop:3+5");
  EXPECT_TRUE(parsed<ApplyCommand>({"apply", "x"}).wait);
  EXPECT_FALSE(parsed<ApplyCommand>({"apply", "x", "--detach"}).wait);
  EXPECT_TRUE(parsed<ApplyCommand>({"apply", "x", "--even-if-busy"}).even_if_busy);
  EXPECT_TRUE(parsed<DeployCommand>({"deploy", "m", "-y"}).yes);
  EXPECT_TRUE(parsed<WakeCommand>({"wake", "m", "--yes"}).yes);
  EXPECT_FALSE(parsed<StartCommand>({"start", "m"}).yes);
  EXPECT_EQ(parsed<CancelCommand>({"cancel", "3"}).id, "3");
  parsed<QueueCommand>({"queue"});
  EXPECT_EQ(parsed<CompletionCommand>({"completion", "zsh"}).shell, "zsh");
  parsed<BudgetCommand>({"budget"});
  parsed<ModelsCommand>({"models"});
  parsed<MemoryCommand>({"memory"});
  parsed<TopCommand>({"top"});
  parsed<ProcessesCommand>({"processes"});
  EXPECT_EQ(parsed<OrphansCommand>({"orphans", "--stop", "4711-9", "--stop", "c0ffee"}).stop,
            (Arguments{"4711-9", "c0ffee"}));
  EXPECT_TRUE(parsed<OrphansCommand>({"orphans", "--stop-all"}).stop_all);
  EXPECT_FALSE(parse_command_line({"orphans", "--stop", "x", "--stop-all"}));
  EXPECT_TRUE(parsed<CalibrationCommand>({"calibration"}).forget.empty());
  const auto forget =
      parsed<CalibrationCommand>({"calibration", "--forget", "c0ffee", "--forget", "f00", "--oom-floors"});
  EXPECT_EQ(forget.forget, (Arguments{"c0ffee", "f00"}));
  EXPECT_TRUE(forget.oom_floors_too);
  EXPECT_FALSE(parse_command_line({"calibration", "--oom-floors"}));
  parsed<VersionCommand>({"version"});
  parsed<VersionCommand>({"--version"});
  const auto logs = parsed<LogsCommand>({"logs", "-f", "--tail", "5", "x"});
  EXPECT_TRUE(logs.follow);
  EXPECT_EQ(logs.tail, 5);
  EXPECT_EQ(logs.deployment, "x");
  const auto events = parsed<EventsCommand>({"events", "-f", "--after", "9"});
  EXPECT_TRUE(events.follow);
  EXPECT_EQ(events.after, 9);
}

TEST(CommandLine, ACommandsNameIsANameBehindACommand) {
  EXPECT_EQ(parsed<StopCommand>({"stop", "ps", "fit"}).deployments, (Arguments{"ps", "fit"}));
}

TEST(CommandLine, GlobalOptionsStandBeforeOrBehindTheCommand) {
  for (const auto& arguments :
       {Arguments{"--json", "--no-color", "--address", "h:1", "--token", "t", "--config", "f", "ps", "--all"},
        Arguments{"ps", "--json", "--no-color", "--all", "--address", "h:1", "--token", "t", "--config", "f"}}) {
    const auto invocation = parse_command_line(arguments);
    ASSERT_TRUE(invocation) << invocation.error().message;
    EXPECT_TRUE(invocation->global.json);
    EXPECT_TRUE(invocation->global.no_color);
    EXPECT_EQ(invocation->global.address, "h:1");
    EXPECT_EQ(invocation->global.token, "t");
    EXPECT_EQ(invocation->global.config, "f");
  }
}

TEST(CommandLine, ServeTakesEverySetting) {
  for (const auto& definition : settings::definitions()) {
    if (definition.name == "token") continue;
    const auto flag = settings::flag_name(definition.name);
    const auto serve = parsed<ServeCommand>({"serve", flag, "1"});
    ASSERT_EQ(serve.assignments.size(), 1U) << flag;
    EXPECT_EQ(serve.assignments[0].name, definition.name);
    EXPECT_EQ(serve.assignments[0].values, Arguments{"1"});
    EXPECT_EQ(serve.assignments[0].where, flag);
  }
}

TEST(CommandLine, OfASettingGivenTwiceTheLastCountsAndAListHasBoth) {
  const auto serve = parsed<ServeCommand>(
      {"serve", "--listen", "a:1", "--listen", "b:2", "--model-folders", "/a", "--model-folders", "/b"});
  ASSERT_EQ(serve.assignments.size(), 2U);
  for (const auto& assignment : serve.assignments) {
    const bool is_list = assignment.name == "model_folders";
    EXPECT_EQ(assignment.values, is_list ? (Arguments{"/a", "/b"}) : Arguments{"b:2"});
  }
}

TEST(CommandLine, HelpOfServeNamesEverySettingAndItsDefault) {
  const auto text = parsed<HelpCommand>({"help", "serve"}).text;
  for (const auto& definition : settings::definitions()) {
    if (definition.name == "token") continue;
    EXPECT_NE(text.find(settings::flag_name(definition.name)), std::string::npos) << definition.name;
    if (definition.default_text.empty()) continue;
    EXPECT_NE(text.find("[" + std::string{definition.default_text} + "]"), std::string::npos) << definition.name;
  }
}

TEST(CommandLine, HelpNamesEveryCommand) {
  const auto overview = parsed<HelpCommand>({"help"}).text;
  EXPECT_EQ(overview, parsed<HelpCommand>({"--help"}).text);
  for (const auto& command : grammar().commands) {
    EXPECT_NE(overview.find("  " + command.name + " "), std::string::npos) << command.name;
    EXPECT_NE(parsed<HelpCommand>({"help", command.name}).text.find(command.description), std::string::npos);
    EXPECT_NE(parsed<HelpCommand>({command.name, "--help"}).text.find(command.description), std::string::npos);
  }
}

TEST(CommandLine, HelpHasNothingOfTheParsersOwnNotation) {
  for (const auto& command : grammar().commands) {
    const auto text = parsed<HelpCommand>({"help", command.name}).text;
    for (const auto* notation : {"{", "}", " in [", "UINT", "Excludes"}) {
      if (command.name == "completion") continue;  // shows a zsh path
      EXPECT_EQ(text.find(notation), std::string::npos) << command.name << ": " << notation;
    }
  }
}

TEST(CommandLine, WrongUsageIsRefusedWithAHint) {
  const std::vector<Arguments> wrong{{},
                                     {"nope"},
                                     {"fit"},
                                     {"fit", "m", "--nope"},
                                     {"fit", "m", "-np"},
                                     {"fit", "m", "-c", "many"},
                                     {"fit", "m", "-c", "1.5"},
                                     {"fit", "m", "-c", "0x10"},
                                     {"fit", "m", "-c", ""},
                                     {"fit", "m", "-c", "99999999999999999999"},
                                     {"fit", "m", "-ctk", "q7"},
                                     {"fit", "m", "-fa", "maybe"},
                                     {"fit", "m", "--engine", "sglang"},
                                     {"fit", "m", "--pin"},
                                     {"deploy"},
                                     {"deploy", "a", "b"},
                                     {"deploy", "m", "--port", "0"},
                                     {"deploy", "m", "--port", "65536"},
                                     {"deploy", "m", "--label", "x"},
                                     {"deploy", "m", "--label", "=x"},
                                     {"stop"},
                                     {"stop", "a", "--all"},
                                     {"rm"},
                                     {"logs", "x", "--tail", "-1"},
                                     {"apply"},
                                     {"events", "--after", "-1"},
                                     {"events", "--tail", "-1"},
                                     {"events", "--all", "--tail", "3"},
                                     {"completion", "tcsh"},
                                     {"help", "nope"},
                                     {"budget", "x"},
                                     {"serve", "--safty-margin-gib", "1"},
                                     {"serve", "--address", "a:1"}};
  for (const auto& arguments : wrong) {
    SCOPED_TRACE(arguments.empty() ? "nothing" : arguments.front() + " … " + arguments.back());
    EXPECT_FALSE(refused(arguments).message.empty());
  }
  EXPECT_EQ(refused({"nope"}).message, "there is no command 'nope'");
  EXPECT_EQ(refused({"fit", "m", "--nope"}).message, "there is no option --nope");
  EXPECT_EQ(refused({"fit", "m", "--nope"}).hint, "`dgxmm help fit` tells what it takes");
  EXPECT_EQ(refused({"help", "nope"}).message, "there is no command 'nope'");
  EXPECT_EQ(refused({"help", "nope"}).hint, "`dgxmm help` lists the commands");
  EXPECT_EQ(refused({"fit", "m", "-fa", "maybe"}).message, "--flash-attn: 'maybe' is not one of on, off, auto");
}

TEST(CommandLine, TheGrammarKnowsOptionsAndTheirValues) {
  const auto described = grammar();
  const auto fit = std::ranges::find(described.commands, "fit", &CommandGrammar::name);
  ASSERT_NE(fit, described.commands.end());
  EXPECT_TRUE(fit->takes_files);
  const auto flash = std::ranges::find_if(fit->options, [](const OptionGrammar& option) {
    return std::ranges::find(option.names, "--flash-attn") != option.names.end();
  });
  ASSERT_NE(flash, fit->options.end());
  EXPECT_TRUE(flash->takes_value);
  EXPECT_EQ(flash->choices, (Arguments{"on", "off", "auto"}));
  const auto completion = std::ranges::find(described.commands, "completion", &CommandGrammar::name);
  ASSERT_NE(completion, described.commands.end());
  EXPECT_EQ(completion->choices, (Arguments{"bash", "zsh", "fish"}));
}

}  // namespace
}  // namespace dgxmm::cli
