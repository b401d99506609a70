# shellcheck shell=bash
# A real engine and real models, for tests and the tour.

provide_engine() {
  DGXMM_LLAMA_SERVER=$(tools/dev/llama_server.sh) || exit 1
  export DGXMM_LLAMA_SERVER
}

provide_models() {
  DGXMM_TEST_MODELS_DIR=$(tools/dev/test_models.sh) || exit 1
  DGXMM_TEST_MODEL=$DGXMM_TEST_MODELS_DIR/SmolLM2-135M-Instruct.Q4_1.gguf
  export DGXMM_TEST_MODELS_DIR DGXMM_TEST_MODEL
}

# A real vLLM, for the one test that needs it.
provide_vllm() {
  DGXMM_TEST_VLLM=$(tools/dev/vllm.sh) || exit 1
  export DGXMM_TEST_VLLM
}
