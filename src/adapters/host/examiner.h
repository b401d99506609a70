#pragma once
#include "core/host/examination.h"

#include <filesystem>

namespace dgxmm::host {

/// Reads what `examine` asks for, but for the GPU and the settings.
ExaminedHost read_examined_host(const std::filesystem::path& root = "/");

}  // namespace dgxmm::host
