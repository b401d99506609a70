// write_models TRUTH FOLDER: the models of TRUTH/llamacpp_models.json, as headers before a hole, go to FOLDER/truth,
// and the small models that an engine can load to FOLDER/small. For comparisons with other programs (`./dev accuracy`).
#include "tools/tiny_subjects.h"
#include "tools/truth_models.h"

#include <fmt/format.h>

#include <exception>
#include <filesystem>
#include <string>

int main(int argc, char** argv) {
  namespace fs = std::filesystem;
  if (argc != 3) {
    fmt::print(stderr, "usage: write_models TRUTH FOLDER\n");
    return 2;
  }
  try {
    const fs::path folder{argv[2]};
    fs::create_directories(folder / "truth");
    fs::create_directories(folder / "small");
    for (const auto& model : dgxmm::testing::read_truth_models(argv[1])) {
      const std::string name{model.at("name").as_string()};
      dgxmm::testing::truth_file(model).writer.write(folder / "truth" / (name + ".gguf"));
    }
    for (const auto& subject : dgxmm::testing::tiny_subjects())
      subject.make().write(folder / "small" / (subject.name + ".gguf"));
  } catch (const std::exception& error) {
    fmt::print(stderr, "write_models: {}\n", error.what());
    return 1;
  }
  return 0;
}
