#include "cli/completion.h"

#include "cli/commands.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

namespace dgxmm::cli {
namespace {

std::vector<std::string> option_names(const std::vector<OptionGrammar>& options) {
  std::vector<std::string> names;
  for (const auto& option : options) names.insert(names.end(), option.names.begin(), option.names.end());
  return names;
}

/// Descriptions come from the source; quotes are all that a shell could trip over.
std::string in_quotes(std::string_view text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string{"'\\''"} : std::string{c};
  return result + "'";
}

/// For zsh, where a colon ends a description and brackets surround one.
std::string escaped_for_zsh(std::string_view text) {
  constexpr std::string_view kSpecial = ":[]";
  std::string result;
  for (const char c : text) {
    if (kSpecial.find(c) != std::string_view::npos) result += '\\';
    result += c;
  }
  return result;
}

std::string bash_script(const Grammar& grammar) {
  std::vector<std::string> commands;
  std::string values;  // what may follow an option
  std::string words;   // what may follow a command
  const auto add_values = [&values](const std::string& command, const std::vector<OptionGrammar>& options) {
    for (const auto& option : options) {
      if (!option.takes_value) continue;
      for (const auto& name : option.names) {
        values += option.choices.empty()
                      ? fmt::format("    {}:{}) COMPREPLY=($(compgen -f -- \"$word\")); return ;;\n", command, name)
                      : fmt::format("    {}:{}) COMPREPLY=($(compgen -W \"{}\" -- \"$word\")); return ;;\n", command,
                                    name, fmt::join(option.choices, " "));
      }
    }
  };
  for (const auto& command : grammar.commands) {
    commands.push_back(command.name);
    add_values(command.name, command.options);
    auto offered = option_names(command.options);
    offered.insert(offered.end(), command.choices.begin(), command.choices.end());
    words += fmt::format("    {}) words=\"{}\"; files={} ;;\n", command.name, fmt::join(offered, " "),
                         command.takes_files ? 1 : 0);
  }
  add_values("*", grammar.global_options);
  return fmt::format(R"(# bash completion for dgxmm
_dgxmm() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" command= words= files=0 i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case " {commands} " in *" ${{COMP_WORDS[i]}} "*) command="${{COMP_WORDS[i]}}"; break ;; esac
  done
  case "$command:$before" in
{values}  esac
  case "$command" in
    '') words="{commands}" ;;
{words}  esac
  COMPREPLY=($(compgen -W "$words {globals}" -- "$word"))
  if [[ $files = 1 && $word != -* ]]; then COMPREPLY+=($(compgen -f -- "$word")); fi
}}
complete -o filenames -F _dgxmm dgxmm
)",
                     fmt::arg("commands", fmt::join(commands, " ")), fmt::arg("values", values),
                     fmt::arg("words", words),
                     fmt::arg("globals", fmt::join(option_names(grammar.global_options), " ")));
}

std::string zsh_script(const Grammar& grammar) {
  const auto specs = [](const std::vector<OptionGrammar>& options) {
    std::string result;
    for (const auto& option : options) {
      for (const auto& name : option.names) {
        std::string action;
        if (option.takes_value) {
          action =
              option.choices.empty() ? ":value:_files" : fmt::format(":value:({})", fmt::join(option.choices, " "));
        }
        result += " " + in_quotes(fmt::format("{}[{}]{}", name, escaped_for_zsh(option.description), action));
      }
    }
    return result;
  };
  std::string commands;
  std::string cases;
  const auto globals = specs(grammar.global_options);
  for (const auto& command : grammar.commands) {
    commands += fmt::format("    {}\n", in_quotes(command.name + ":" + escaped_for_zsh(command.description)));
    std::string arguments;
    if (command.takes_files) arguments = " '*:model:_files'";
    if (!command.choices.empty()) arguments = fmt::format(" '1:word:({})'", fmt::join(command.choices, " "));
    cases += fmt::format("    {}) _arguments{}{}{} ;;\n", command.name, specs(command.options), globals, arguments);
  }
  return fmt::format(R"(#compdef dgxmm
_dgxmm() {{
  local curcontext="$curcontext" state line
  local -a commands
  commands=(
{commands}  )
  _arguments -C{globals} '1:command:->command' '*::argument:->argument'
  case "$state" in
    command) _describe command commands ;;
    argument)
      case "$line[1]" in
{cases}      esac ;;
  esac
}}
_dgxmm "$@"
)",
                     fmt::arg("commands", commands), fmt::arg("globals", globals), fmt::arg("cases", cases));
}

std::string fish_script(const Grammar& grammar) {
  std::string result = "# fish completion for dgxmm\ncomplete -c dgxmm -f\n";
  const auto add_options = [&result](const std::string& condition, const std::vector<OptionGrammar>& options) {
    for (const auto& option : options) {
      auto line = "complete -c dgxmm" + condition;
      for (const auto& name : option.names)
        line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      if (option.takes_value) {
        line += option.choices.empty()
                    ? std::string{" -r -F"}
                    : fmt::format(" -x -a {}", in_quotes(fmt::format("{}", fmt::join(option.choices, " "))));
      }
      result += line + " -d " + in_quotes(option.description) + "\n";
    }
  };
  add_options({}, grammar.global_options);
  for (const auto& command : grammar.commands) {
    result += fmt::format("complete -c dgxmm -n __fish_use_subcommand -a {} -d {}\n", command.name,
                          in_quotes(command.description));
    const auto condition = fmt::format(" -n '__fish_seen_subcommand_from {}'", command.name);
    if (command.takes_files) result += fmt::format("complete -c dgxmm{} -F\n", condition);
    if (!command.choices.empty()) {
      result += fmt::format("complete -c dgxmm{} -a {}\n", condition,
                            in_quotes(fmt::format("{}", fmt::join(command.choices, " "))));
    }
    add_options(condition, command.options);
  }
  return result;
}

}  // namespace

std::string completion_script(const std::string& shell, const Grammar& grammar) {
  if (shell == "zsh") return zsh_script(grammar);
  if (shell == "fish") return fish_script(grammar);
  return bash_script(grammar);
}

int run(const CompletionCommand& command, Context& context) {
  context.console.out << completion_script(command.shell, grammar());
  return kExitOk;
}

}  // namespace dgxmm::cli
