#include "core/engine/vllm.h"
#include "data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>

namespace dgxmm::engine {
namespace {

using testing::HasSubstr;
using testing::Not;

std::unique_ptr<LogReader> read(std::string_view log) { return read_log(EngineKind::vllm, log); }

FailureReason failure_of(std::string_view log) {
  const auto failure = read(log)->failure();
  return failure.value_or(FailureReason{"none", {}, {}});
}

TEST(VllmLog, ARealStartReachesServingWithoutAFailure) {
  const auto reader = read(recording("vllm-0.32.0-cpu-ready.log"));
  EXPECT_EQ(reader->progress(), Progress{"serving"});
  EXPECT_FALSE(reader->failure()) << reader->failure()->message;
}

TEST(VllmLog, ARealStartOnTheCpuHasNoAccountingOfADevice) {
  const auto accounting = read(recording("vllm-0.32.0-cpu-ready.log"))->accounting();
  EXPECT_FALSE(accounting) << "the CPU worker does not say what its weights take: unknown, not 0";
}

TEST(VllmLog, ARealPoolThatIsTooSmallIsOneSentenceWithTheFix) {
  const auto failure = failure_of(recording("vllm-0.32.0-cpu-too-small-pool.log"));
  EXPECT_EQ(failure.code, "kv_cache_too_small");
  EXPECT_THAT(failure.message, HasSubstr("one request of 1024 tokens needs"));
  EXPECT_THAT(failure.hint, HasSubstr("max_model_len to at most 128"));
}

TEST(VllmLog, RealFailuresAreOneSentenceEach) {
  const auto truncated = failure_of(recording("vllm-0.32.0-cpu-truncated-file.log"));
  EXPECT_EQ(truncated.code, "bad_model_file");
  EXPECT_THAT(truncated.message, HasSubstr("file not fully covered"));
  const auto unknown = failure_of(recording("vllm-0.32.0-cpu-unknown-architecture.log"));
  EXPECT_EQ(unknown.code, "bad_model_file");
  EXPECT_THAT(unknown.message, HasSubstr("model type `neverseen`"));
  EXPECT_THAT(unknown.hint, HasSubstr("newer vLLM"));
  EXPECT_EQ(failure_of(recording("vllm-0.32.0-cpu-port-taken.log")).code, "port_taken");
}

TEST(VllmLog, FilesThatLackTensorsAreNamed) {
  const auto failure = failure_of(
      "(Worker pid=7) ERROR 11-30 03:59:34 [multiproc_executor.py:953] ValueError: Following weights were not "
      "initialized from checkpoint: {'model.layers.1.input_layernorm.weight'}");
  EXPECT_EQ(failure.code, "bad_model_file");
  EXPECT_THAT(failure.message, HasSubstr("model.layers.1.input_layernorm.weight"));
}

TEST(VllmLog, ProgressFollowsTheStartAndNeverGoesBack) {
  const auto reader = make_log_reader(EngineKind::vllm);
  const auto after = [&](std::string_view line) {
    reader->read_line(line);
    return reader->progress().phase;
  };
  EXPECT_EQ(reader->progress().phase, "starting");
  EXPECT_EQ(after("(EngineCore pid=9) INFO 08-17 10:00:00 [gpu_model_runner.py:1] Starting to load model /m..."),
            "reading weights");
  EXPECT_EQ(after("Loading safetensors checkpoint shards:  50% Completed | 1/2 [00:00<00:00, 3.1it/s]"),
            "reading weights");
  EXPECT_EQ(after("INFO [gpu_model_runner.py:1] Model loading took 14.2 GiB memory and 11.0 seconds"),
            "profiling a full step");
  EXPECT_EQ(after("INFO [gpu_worker.py:1] Available KV cache memory: 31.84 GiB"), "creating KV cache");
  EXPECT_EQ(after("Capturing CUDA graphs (decode, FULL):  10%|#  | 1/10"), "capturing graphs");
  EXPECT_EQ(after("INFO [api_server.py:1] Starting vLLM server on http://127.0.0.1:8000"), "serving");
  EXPECT_EQ(after("Loading safetensors checkpoint shards: 100% Completed | 2/2"), "serving");
}

// Lines of the forms that versions from 0.10 to 0.27 print on a GPU.
struct Form {
  const char* name;
  const char* log;
  Bytes weights, kv;
  std::optional<Bytes> compute;
};

Bytes hundredths(std::int64_t gib_times_100) { return gib_from_decimal(static_cast<double>(gib_times_100) / 100); }

class VllmAccounting : public testing::TestWithParam<Form> {};

TEST_P(VllmAccounting, C2_CountsWhatTheEngineSaysItHolds) {
  const auto& form = GetParam();
  const auto accounting = read(form.log)->accounting();
  ASSERT_TRUE(accounting);
  EXPECT_EQ(accounting->weights, form.weights);
  EXPECT_EQ(accounting->kv, form.kv);
  EXPECT_EQ(accounting->compute, form.compute);
  EXPECT_EQ(accounting->host, Bytes{});
  EXPECT_EQ(accounting->device, form.weights + form.kv + form.compute.value_or(Bytes{}));
}

INSTANTIATE_TEST_SUITE_P(
    Forms, VllmAccounting,
    testing::Values(
        Form{"profiled_0_27",
             "INFO [gpu_model_runner.py:1] Model loading took 56.93 GiB memory and 101.337042 seconds\n"
             "INFO [gpu_worker.py:1] Available KV cache memory: 30.47 GiB\n"
             "INFO [gpu_model_runner.py:1] Graph capturing finished in 24 secs, took 1.12 GiB\n"
             "INFO [gpu_worker.py:1] Free memory on device (104.71/121.69 GiB) on startup. Desired GPU memory "
             "utilization is (0.8, 97.35 GiB). Actual usage is 63.02 GiB for consumed memory (weights + non-torch), "
             "3.86 GiB for peak activation, and 1.12 GiB for CUDAGraph memory. Current kv cache memory in use is 30.47 "
             "GiB.\n",
             hundredths(5693), hundredths(3047), hundredths(386) + hundredths(112)},
        Form{
            "explicit_pool",
            "INFO [gpu_model_runner.py:1] Model loading took 14.2 GiB memory and 11.0 seconds\n"
            "INFO [gpu_worker.py:1] Initial free memory 96.2 GiB, reserved 24.0 GiB memory for KV Cache as specified by "
            "kv_cache_memory_bytes config and skipped memory profiling.\n",
            hundredths(1420), hundredths(2400), std::nullopt},
        Form{"separate_weights_0_11",
             "INFO [gpu_model_runner.py:1] Model loading took 56.9301 GiB and 101.3 seconds\n"
             "INFO [gpu_worker.py:1] Available KV cache memory: 8.00 GiB\n"
             "INFO [gpu_worker.py:1] Actual usage is 56.93 GiB for weight, 2.50 GiB for peak activation, 0.40 GiB for "
             "non-torch memory, and 0.90 GiB for CUDAGraph memory.\n"
             "INFO [gpu_model_runner.py:1] CUDA graph pool memory: 0.91 GiB (actual), 1.10 GiB (estimated)\n",
             gib_from_decimal(56.9301), hundredths(800), hundredths(250) + hundredths(91)},
        Form{"negative_graphs_are_not_believed",
             "INFO Model loading took 1.0 GiB memory and 1 seconds\n"
             "INFO Available KV cache memory: 2.0 GiB\n"
             "INFO Graph capturing finished in 24 secs, took -20.5 GiB\n",
             gib(1), gib(2), std::nullopt}),
    [](const auto& info) { return std::string{info.param.name}; });

TEST(VllmLog, WhatTheCpuHoldsIsHostMemory) {
  const auto accounting = read(
                              "INFO [cpu_model_runner.py:12] Starting to load model /m...\n"
                              "INFO [gpu_model_runner.py:1] Model loading took 1.5 GiB memory and 2.0 seconds\n")
                              ->accounting();
  ASSERT_TRUE(accounting);
  EXPECT_EQ(accounting->device, Bytes{});
  EXPECT_EQ(accounting->host, hundredths(150));
}

struct Failing {
  const char* name;
  const char* log;
  const char* code;
  const char* message;
  const char* hint;
};

class VllmFailure : public testing::TestWithParam<Failing> {};

TEST_P(VllmFailure, IsOneSentenceWithTheFix) {
  const auto& [name, log, code, message, hint] = GetParam();
  const auto failure = failure_of(log);
  EXPECT_EQ(failure.code, code);
  EXPECT_THAT(failure.message, HasSubstr(message));
  EXPECT_THAT(failure.hint, HasSubstr(hint));
}

INSTANTIATE_TEST_SUITE_P(
    Causes, VllmFailure,
    testing::Values(
        Failing{"E1",
                "(EngineCore pid=9) ERROR [core.py:1] ValueError: Free memory on device cuda:0 (62.3/121.69 GiB) on "
                "startup is less than desired GPU memory utilization (0.92, 111.96 GiB). Decrease GPU memory "
                "utilization.",
                "not_enough_free", "62.3 of 121.69 GiB free", "dgxmm processes"},
        Failing{"E1_without_a_device",
                "ValueError: Free memory on device (36.75/121.63 GiB) on startup is less than desired GPU memory "
                "utilization (0.85, 103.39 GiB).",
                "not_enough_free", "(gpu_memory_utilization 0.85)", "start it again"},
        Failing{"E2", "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`",
                "kv_cache_too_small", "no memory left", "max_num_batched_tokens"},
        Failing{"E3",
                "ValueError: To serve at least one request with the models's max seq len (131072), (16.0 GiB KV cache "
                "is needed, which is larger than the available KV cache memory (12.4 GiB). Based on the available "
                "memory, the estimated maximum model length is 101568.",
                "kv_cache_too_small", "131072 tokens needs 16 GiB of KV cache, 12.4 GiB are there", "at most 101568"},
        Failing{"E3_without_a_length",
                "ValueError: To serve at least one request with the model's max seq len (4096), (2.0 GiB KV cache is "
                "needed, which is larger than the available KV cache memory (1.0 GiB).",
                "kv_cache_too_small", "needs 2 GiB", "smaller max_model_len"},
        Failing{
            "E4",
            "AssertionError: Error in memory profiling. Initial free memory 88.1 GiB, current free memory 90.4 GiB.",
            "memory_moved", "gave memory back", "start it again"},
        Failing{"E5", "RuntimeError: Failed to load model - not enough GPU memory. Try lowering the weights",
                "out_of_memory", "ran out of memory while starting", "ask for less"},
        Failing{"E6", "RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy requests.",
                "out_of_memory", "warming up sampler", "max_num_seqs below 1024"},
        Failing{"E3_of_the_first_engine",
                "ValueError: The model's max seq len (131072) is larger than the maximum number of tokens that can be "
                "stored in KV cache (28064). Try increasing `gpu_memory_utilization` or decreasing `max_model_len`.",
                "kv_cache_too_small", "131072 tokens needs more KV cache than there is, which holds 28064",
                "at most 28064"},
        Failing{"E3b", "ValueError: Cannot auto-fit max_model_len: not enough GPU memory available to serve even one",
                "kv_cache_too_small", "no memory left", "ask for less"},
        Failing{"S6", "AssertionError: Memory usage increased after sleeping.", "sleep_failed", "something else took",
                "start it again"},
        Failing{"no_gpu", "RuntimeError: Failed to infer device type, please set VLLM_LOGGING_LEVEL=DEBUG",
                "gpu_not_available", "cannot use this host's GPU", "nvidia-smi"},
        Failing{"another_gpu",
                "torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device",
                "gpu_not_available", "no kernel image", "built for this GPU"},
        Failing{"E7",
                "INFO [x.py:1] Starting to load model /m...\n"
                "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.32 GiB.",
                "out_of_memory", "while reading weights", "stop something"},
        Failing{"E8", "CUDA Error: out of memory at csrc/cumem_allocator.cpp:62", "out_of_memory", "cumem", "less"},
        Failing{"E9", "RuntimeError: Engine core initialization failed. See root cause above.", "engine_died",
                "ended while starting", "last lines"},
        Failing{"E9_comes_after_its_cause",
                "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.32 GiB.\n"
                "RuntimeError: Engine core initialization failed. See root cause above.",
                "out_of_memory", "ran out of memory", "ask for less"},
        Failing{"E9_before_its_cause",
                "ERROR EngineCore failed to start.\nValueError: No available memory for the cache blocks.",
                "kv_cache_too_small", "no memory left", "ask for less"},
        Failing{"E11", "NotImplementedError: Layer model.layers.0: page size is not divisible", "bad_model_file",
                "cannot serve the model", "newer"},
        Failing{"port", "OSError: [Errno 98] Address already in use", "port_taken", "uses the port", "another port"},
        Failing{"option", "vllm serve: error: unrecognized arguments: --no-such", "bad_option", "--no-such", "change"}),
    [](const auto& info) { return std::string{info.param.name}; });

TEST(VllmLog, D10_OneWhoseCoreHasDiedIsOverWhateverTheCause) {
  EXPECT_FALSE(read(recording("vllm-0.32.0-cpu-ready.log"))->is_over());
  EXPECT_FALSE(read("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.32 GiB.")->is_over())
      << "of one request, perhaps";
  EXPECT_TRUE(read("ERROR 08-08 10:00:00 [core.py:1] EngineCore encountered a fatal error.")->is_over());
  EXPECT_TRUE(read("torch.OutOfMemoryError: CUDA out of memory.\nEngineCore encountered a fatal error.")->is_over());
}

TEST(VllmLog, J1_AKeyInAFailureIsMasked) {
  const auto failure =
      failure_of("vllm serve: error: unrecognized arguments: --api-key sk-verysecret0123456789 --hf-token=hf_abcdefgh");
  EXPECT_THAT(failure.message, Not(HasSubstr("verysecret")));
  EXPECT_THAT(failure.message, Not(HasSubstr("hf_abcdefgh")));
}

TEST(VllmLog, OddLinesAreBorne) {
  for (const auto* line :
       {"", "Model loading took", "Model loading took GiB", "Model loading took 1e400 GiB",
        "Available KV cache memory: nan", "Available KV cache memory: -3 GiB", " GiB for peak activation",
        "To serve at least one request with the model", "Free memory on device (", "on startup is less than desired",
        "desired GPU memory utilization ("}) {
    const auto reader = read(line);
    EXPECT_FALSE(reader->accounting()) << line;
  }
  read(std::string(100'000, 'x'));
}

TEST(VllmLog, WhatItFoundFreeAtItsFirstLookIsKnownWithAndWithoutAGivenPool) {
  const auto free = [](const char* line) { return read(line)->first_seen_free(); };
  EXPECT_EQ(
      free("(EngineCore pid=7) INFO 11-30 02:10:11 [gpu_worker.py:1] Initial free memory 96.25 GiB, reserved 24.0 "
           "GiB memory for KV Cache as specified by kv_cache_memory_bytes config"),
      gib(96) + mib(256));
  EXPECT_EQ(
      free("Free memory on device (104.5/121.69 GiB) on startup. Desired GPU memory utilization is (0.8, 97 GiB)."),
      gib(104) + mib(512));
  EXPECT_EQ(
      free("ValueError: Free memory on device cuda:0 (62.5/121.69 GiB) on startup is less than desired GPU memory "
           "utilization (0.92, 111.96 GiB)."),
      gib(62) + mib(512));
  for (const auto* line : {"Free memory on device (", "Free memory on device (x/121 GiB) on startup", "on startup",
                           "Initial free memory GiB", "Error in memory profiling. Initial free memory"}) {
    EXPECT_EQ(free(line), std::nullopt) << line;
  }
}

TEST(VllmUtilization, IsRoundedDownAndNeverMoreThanIsFreeAtItsFirstLook) {
  const auto share = [](Bytes reserved, Bytes total, Bytes available) {
    return gpu_memory_utilization(reserved, total, available, gib(3));
  };
  EXPECT_DOUBLE_EQ(share(gib(60), gib(120), gib(100)), 0.49);
  EXPECT_DOUBLE_EQ(share(gib(60), gib(120), gib(33)), 0.24) << "30 of 120";
  EXPECT_DOUBLE_EQ(share(gib(200), gib(120), gib(200)), 0.99);
  EXPECT_DOUBLE_EQ(share(gib(60), gib(120), Bytes{}), 0.01);
  EXPECT_DOUBLE_EQ(share(gib(60), Bytes{}, Bytes{}), 0.01);
  EXPECT_LE(share(gib(97), gib_from_decimal(121.69), gib(110)) * 121.69, 97.0);
}

// Field case A1: 142.5 GiB, of which 135 are available and 74.9 free.
TEST(VllmUtilization, A1_IsMetByAnEngineToWhichPageCacheIsUsedMemory) {
  const auto total = gib_from_decimal(142.5);
  const auto seen = seen_free(gib(135), gib_from_decimal(74.9), true);
  const auto share = gpu_memory_utilization(gib(90), total, seen, gib(3));
  EXPECT_DOUBLE_EQ(share, 0.50);
  EXPECT_LE(share * 142.5, 74.9 - 3);
  EXPECT_EQ(seen_free(gib(135), gib(140), true), gib(135));
  EXPECT_EQ(seen_free(gib(135), std::nullopt, true), gib(135));
  EXPECT_EQ(seen_free(gib(135), gib(1), false), gib(135)) << "the utilization sizes the pool: it must not shrink";
}

TEST(VllmUtilization, WhatIsTakenBeforeTheFirstLookIsLearnedAndNeverLessThanIsTypical) {
  EXPECT_EQ(taken_before_the_first_look(std::nullopt), gib(3));
  EXPECT_EQ(taken_before_the_first_look(mib(600)), gib(3));
  EXPECT_EQ(taken_before_the_first_look(gib(9)), gib(9) + mib(512));
}

}  // namespace
}  // namespace dgxmm::engine
