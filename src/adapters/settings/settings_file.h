#pragma once
#include "base/result.h"
#include "core/settings/settings.h"

#include <string>
#include <vector>

namespace dgxmm::settings_file {

/// The assignments of a TOML file, each with its "file:line". Errors: `bad_setting` naming file and line (not TOML, a
/// table where a value belongs), `settings_not_found`.
Result<std::vector<settings::Assignment>> read_file(const std::string& path);

/// The assignments of the environment: DGXMM_<NAME> for each setting; lists are separated by ':'.
std::vector<settings::Assignment> read_environment();

/// A sentence for each variable DGXMM_<…> that is no setting but looks like a mistyped one. Others are left alone:
/// tools and engines use that beginning too.
std::vector<std::string> mistyped_variables();

/// Users other than its owner and group may read that file.
bool readable_by_others(const std::string& path);

/// $XDG_CONFIG_HOME/dgxmm/settings.toml, else ~/.config/dgxmm/settings.toml, else /etc/dgxmm/settings.toml; empty when
/// none of them exists.
std::string default_path();

/// Where huggingface_hub keeps what it downloads (huggingface_hub/constants.py): $HF_HUB_CACHE, else
/// $HUGGINGFACE_HUB_CACHE, $HF_HOME/hub, $XDG_CACHE_HOME/huggingface/hub or ~/.cache/huggingface/hub; empty without a
/// home.
std::string default_hugging_face_cache();

/// $XDG_STATE_HOME/dgxmm, else ~/.local/state/dgxmm.
std::string default_state_dir();

}  // namespace dgxmm::settings_file
