// Which rules a config.json is read by.
#include "base/masking.h"
#include "core/model/hf_layers.h"

#include <boost/json.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

namespace dgxmm::model {
namespace {

struct Name {
  std::string_view name;
  HfFamily family;
};

// Architectures and model types without their endings, in lower case letters and digits only. Sorted.
constexpr auto kNames = std::to_array<Name>({
    {"afmoe", HfFamily::plain},
    {"apertus", HfFamily::plain},
    {"aquila", HfFamily::plain},
    {"arcee", HfFamily::plain},
    {"arctic", HfFamily::plain},
    {"axk1", HfFamily::latent},
    {"baichuan", HfFamily::plain},
    {"bailinghybrid", HfFamily::bailing_linear},
    {"bailingmoe", HfFamily::plain},
    {"bailingmoev2", HfFamily::plain},
    {"bailingmoev25", HfFamily::bailing_linear},
    {"bailingmoev3", HfFamily::bailing_kda},
    {"bailingmoev3vl", HfFamily::bailing_kda},
    {"bamba", HfFamily::granite_hybrid},
    {"bart", HfFamily::whisper},
    {"bert", HfFamily::encoder},
    {"bloom", HfFamily::gpt2},
    {"chatglm", HfFamily::plain},
    {"cohere", HfFamily::plain},
    {"cohere2", HfFamily::plain},
    {"cohere2moe", HfFamily::plain},
    {"cwm", HfFamily::plain},
    {"dbrx", HfFamily::gpt2},
    {"decilm", HfFamily::nemotron_nas},
    {"deepseek", HfFamily::plain},
    {"deepseekmtp", HfFamily::latent},
    {"deepseekv2", HfFamily::latent},
    {"deepseekv3", HfFamily::latent},
    {"deepseekv32", HfFamily::latent},
    {"deepseekv4", HfFamily::deepseek_v4},
    {"diffusiongemma", HfFamily::gemma4},
    {"dots1", HfFamily::plain},
    {"dots3note", HfFamily::dots3_note},
    {"ernie", HfFamily::encoder},
    {"ernie45", HfFamily::plain},
    {"ernie45moe", HfFamily::plain},
    {"ernie45moevl", HfFamily::plain},
    {"ernie45vlmoe", HfFamily::plain},
    {"exaone", HfFamily::plain},
    {"exaone4", HfFamily::plain},
    {"exaonemoe", HfFamily::plain},
    {"falcon", HfFamily::gpt2},
    {"falconh1", HfFamily::falcon_h1},
    {"falconmamba", HfFamily::mamba},
    {"flexolmo", HfFamily::plain},
    {"gemma", HfFamily::plain},
    {"gemma2", HfFamily::gemma2},
    {"gemma3", HfFamily::gemma3},
    {"gemma3n", HfFamily::gemma3n},
    {"gemma4", HfFamily::gemma4},
    {"gemma4unified", HfFamily::gemma4},
    {"glm", HfFamily::plain},
    {"glm4", HfFamily::plain},
    {"glm4moe", HfFamily::plain},
    {"glm4moelite", HfFamily::latent},
    {"glm4v", HfFamily::plain},
    {"glm4vmoe", HfFamily::plain},
    {"glmmoedsa", HfFamily::latent},
    {"glmocr", HfFamily::plain},
    {"gpt2", HfFamily::gpt2},
    {"gptbigcode", HfFamily::gpt2},
    {"gptj", HfFamily::gpt2},
    {"gptneox", HfFamily::plain},
    {"gptoss", HfFamily::gpt_oss},
    {"granite", HfFamily::plain},
    {"granitemoe", HfFamily::plain},
    {"granitemoehybrid", HfFamily::granite_hybrid},
    {"granitemoeshared", HfFamily::plain},
    {"gte", HfFamily::encoder},
    {"gtenew", HfFamily::encoder},
    {"hunyuandensev1", HfFamily::plain},
    {"hunyuanmoev1", HfFamily::plain},
    {"hunyuanv1dense", HfFamily::plain},
    {"hunyuanv1moe", HfFamily::plain},
    {"hunyuanvl", HfFamily::plain},
    {"hyperclovax", HfFamily::plain},
    {"hyv3", HfFamily::plain},
    {"internlm", HfFamily::plain},
    {"internlm2", HfFamily::plain},
    {"internlm3", HfFamily::plain},
    {"iquestcoder", HfFamily::plain},
    {"jais2", HfFamily::plain},
    {"jamba", HfFamily::jamba},
    {"kimik2", HfFamily::latent},
    {"kimik25", HfFamily::latent},
    {"kimik3", HfFamily::kimi_linear},
    {"kimilinear", HfFamily::kimi_linear},
    {"laguna", HfFamily::plain},
    {"lfm2", HfFamily::lfm2},
    {"lfm2moe", HfFamily::lfm2},
    {"lfm2vl", HfFamily::lfm2},
    {"llama", HfFamily::plain},
    {"llama4", HfFamily::llama4},
    {"longcatflash", HfFamily::longcat},
    {"longcatflashngram", HfFamily::longcat},
    {"mamba", HfFamily::mamba},
    {"mamba2", HfFamily::mamba2},
    {"mbart", HfFamily::whisper},
    {"mellum", HfFamily::plain},
    {"mimo", HfFamily::plain},
    {"mimov2", HfFamily::mimo_v2},
    {"mimov2flash", HfFamily::mimo_v2},
    {"minicpm", HfFamily::plain},
    {"minicpm3", HfFamily::minicpm3},
    {"minimax", HfFamily::minimax_text},
    {"minimaxm1", HfFamily::minimax_text},
    {"minimaxm2", HfFamily::plain},
    {"minimaxm3", HfFamily::minimax_m3},
    {"minimaxm3sparse", HfFamily::minimax_m3},
    {"minimaxtext01", HfFamily::minimax_text},
    {"ministral", HfFamily::plain},
    {"ministral3", HfFamily::plain},
    {"mistral", HfFamily::plain},
    {"mistral3", HfFamily::plain},
    {"mistrallarge3", HfFamily::latent},
    {"mixtral", HfFamily::plain},
    {"modernbert", HfFamily::encoder},
    {"mpt", HfFamily::gpt2},
    {"nemotron", HfFamily::plain},
    {"nemotronh", HfFamily::nemotron_h},
    {"nemotronnas", HfFamily::nemotron_nas},
    {"nomicbert", HfFamily::encoder},
    {"olmo", HfFamily::plain},
    {"olmo2", HfFamily::plain},
    {"olmo3", HfFamily::plain},
    {"olmoe", HfFamily::plain},
    {"olmohybrid", HfFamily::olmo_hybrid},
    {"opt", HfFamily::plain},
    {"orion", HfFamily::plain},
    {"panguembedded", HfFamily::plain},
    {"panguultramoe", HfFamily::latent},
    {"param2moe", HfFamily::plain},
    {"persimmon", HfFamily::plain},
    {"phi", HfFamily::plain},
    {"phi3", HfFamily::plain},
    {"phimoe", HfFamily::plain},
    {"plamo3", HfFamily::plain},
    {"qwen2", HfFamily::plain},
    {"qwen25omni", HfFamily::plain},
    {"qwen25vl", HfFamily::plain},
    {"qwen2moe", HfFamily::plain},
    {"qwen2vl", HfFamily::plain},
    {"qwen3", HfFamily::plain},
    {"qwen35", HfFamily::qwen3_5},
    {"qwen35moe", HfFamily::qwen3_5},
    {"qwen3moe", HfFamily::plain},
    {"qwen3next", HfFamily::qwen3_next},
    {"qwen3omnimoe", HfFamily::plain},
    {"qwen3vl", HfFamily::plain},
    {"qwen3vlmoe", HfFamily::plain},
    {"roberta", HfFamily::encoder},
    {"sarvammla", HfFamily::latent},
    {"sarvammoe", HfFamily::plain},
    {"seedoss", HfFamily::plain},
    {"smollm3", HfFamily::plain},
    {"solar", HfFamily::plain},
    {"stablelm", HfFamily::plain},
    {"stablelmepoch", HfFamily::plain},
    {"starcoder2", HfFamily::plain},
    {"step1", HfFamily::plain},
    {"step3p5", HfFamily::plain},
    {"step3p7", HfFamily::plain},
    {"step3p7flash", HfFamily::plain},
    {"step3text", HfFamily::plain},
    {"telechat2", HfFamily::plain},
    {"telechat3", HfFamily::plain},
    {"teleflm", HfFamily::plain},
    {"whisper", HfFamily::whisper},
    {"xlmroberta", HfFamily::encoder},
    {"xverse", HfFamily::plain},
    {"zamba2", HfFamily::zamba2},
});
static_assert(std::ranges::is_sorted(kNames, {}, &Name::name));

/// "Qwen3_5MoeForConditionalGeneration" and "qwen3_5_moe_text" are both "qwen35moe".
std::string bare(std::string_view name) {
  static constexpr auto kEndings =
      std::to_array<std::string_view>({"ForCausalLM", "ForConditionalGeneration", "ForSequenceClassification",
                                       "ForTokenClassification", "ForMaskedLM", "LMHeadModel", "Model", "_text"});
  for (const auto ending : kEndings) {
    if (name.ends_with(ending)) {
      name.remove_suffix(ending.size());
      break;
    }
  }
  std::string letters;
  for (const char c : name) {
    const auto u = static_cast<unsigned char>(c);
    if (std::isalnum(u) != 0) letters += static_cast<char>(std::tolower(u));
  }
  return letters;
}

HfFamily family_named(std::string_view name) {
  const auto text = bare(name);
  const auto found = std::ranges::lower_bound(kNames, std::string_view{text}, {}, &Name::name);
  return found == kNames.end() || found->name != text ? HfFamily::unknown : found->family;
}

std::string_view text_of(const boost::json::value* value) {
  const auto* text = value == nullptr ? nullptr : value->if_string();
  return text == nullptr ? std::string_view{} : std::string_view{*text};
}

}  // namespace

HfFamily family_of(const HfReader& read, std::string_view architecture) {
  // A wrapper says nothing of the language model in it; the part's own type does.
  const auto type = text_of(read.find("model_type"));
  if (read.is_nested()) {
    if (const auto family = family_named(type); family != HfFamily::unknown) return family;
    const auto* names = read.find("architectures");
    const auto* list = names == nullptr ? nullptr : names->if_array();
    if (list != nullptr && !list->empty()) {
      if (const auto family = family_named(text_of(&list->front())); family != HfFamily::unknown) return family;
    }
  }
  if (const auto family = family_named(architecture); family != HfFamily::unknown) return family;
  // A class of its own may still be built on a known one.
  return read.is_nested() ? HfFamily::unknown : family_named(type);
}

bool is_read_by_its_type(const HfReader& read, std::string_view architecture) {
  // Heads that draft for another model are plain layers of its kind, whatever their class is called.
  return !read.is_nested() && architecture.find("Eagle") == std::string_view::npos &&
         family_named(architecture) == HfFamily::unknown;
}

HfFamily state_by_fields(const HfReader& read) {
  if (read.is_set("linear_num_key_heads") && read.is_set("linear_num_value_heads")) return HfFamily::olmo_hybrid;
  if (read.is_set("linear_attn_config")) return HfFamily::kimi_linear;
  if (read.is_set("mamba_n_heads") && read.is_set("mamba_d_state")) return HfFamily::granite_hybrid;
  return HfFamily::unknown;
}

std::vector<std::string> find_layout_doubts(const HfReader& read, HfFamily family) {
  // Parts of the names of keys that say that layers are something else than plain attention.
  static constexpr auto kHints = std::to_array<std::string_view>({"mamba",
                                                                  "ssm",
                                                                  "conv_",
                                                                  "linear_",
                                                                  "lora_rank",
                                                                  "state_size",
                                                                  "chunk_size",
                                                                  "dual_chunk",
                                                                  "kv_shared",
                                                                  "block_config",
                                                                  "block_type",
                                                                  "hybrid",
                                                                  "full_attention_interval",
                                                                  "index_",
                                                                  "sparse",
                                                                  "compress",
                                                                  "swa_",
                                                                  "global_",
                                                                  "attn_type",
                                                                  "rwkv",
                                                                  "attn_layer",
                                                                  "wkv",
                                                                  "retention",
                                                                  "recurrent",
                                                                  "is_encoder_decoder",
                                                                  "cross_attention",
                                                                  "use_cla",
                                                                  "decoder_layers",
                                                                  "latent"});
  // Keys that give layers another kind of attention; a plain architecture that has one is not what it says.
  static constexpr auto kLayoutKeys = std::to_array<std::string_view>(
      {"kv_lora_rank", "attention_chunk_size", "dual_chunk_attention_config", "num_kv_shared_layers", "block_configs",
       "layers_block_type", "hybrid_override_pattern", "linear_attn_config", "full_attention_interval",
       "compress_ratios", "use_cla"});
  constexpr std::size_t kMost = 8;
  const bool plain = family == HfFamily::plain || family == HfFamily::gpt2;
  std::vector<std::string> doubts;
  if (family != HfFamily::unknown && !plain) return doubts;
  for (const auto& [key, value] : read.part()) {
    const std::string_view name{key};
    if (name == "chunk_size_feed_forward" || !read.is_set(name) || doubts.size() == kMost) continue;
    const bool hinted =
        plain ? std::ranges::find(kLayoutKeys, name) != kLayoutKeys.end()
              : std::ranges::any_of(kHints, [&](std::string_view hint) { return name.find(hint) != name.npos; });
    if (hinted) doubts.push_back(fmt::format("what {} makes of its layers", printable(read.name_of(name))));
  }
  return doubts;
}

}  // namespace dgxmm::model
