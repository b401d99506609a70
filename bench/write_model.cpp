// Writes the model with the vocabulary of 150k: `write_model FILE`. Its tensors are a hole; the file takes 6 MB.
#include "bench/models.h"

#include <cstdio>
#include <exception>

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: write_model FILE\n", stderr);
    return 2;
  }
  try {
    dgxmm::testing::write_dense_gguf(argv[1], dgxmm::bench::large_vocabulary());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "write_model: %s\n", error.what());
    return 1;
  }
  return 0;
}
