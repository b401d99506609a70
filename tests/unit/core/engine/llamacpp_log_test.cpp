#include "core/engine/engine.h"
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

std::unique_ptr<LogReader> read(std::string_view log) { return read_log(EngineKind::llamacpp, log); }

/// What the engine prints with two decimals.
Bytes printed_mib(double value) { return gib_from_decimal(value / 1024.0); }

TEST(LlamaCppLog, C2_ARealStartIsAccountedByKindAndPlace) {
  const auto reader = read(recording("llama-server-0.7-b11669-q8_0.log"));
  const auto accounting = reader->accounting();
  ASSERT_TRUE(accounting);
  EXPECT_EQ(accounting->weights, printed_mib(92.10));
  EXPECT_EQ(accounting->kv, printed_mib(47.81));
  EXPECT_EQ(accounting->compute, printed_mib(16.67));
  EXPECT_EQ(accounting->output, printed_mib(0.38));
  EXPECT_EQ(accounting->state, std::nullopt);
  EXPECT_EQ(accounting->device, Bytes{});
  EXPECT_EQ(accounting->host, *accounting->weights + *accounting->kv + *accounting->compute + *accounting->output);
  EXPECT_EQ(reader->progress(), Progress{"serving"});
  EXPECT_FALSE(reader->failure());
}

TEST(LlamaCppLog, C2_ADraftModelAndItsContextAddUp) {
  const auto reader = read(recording("llama-server-0.7-b11669-draft.log"));
  const auto accounting = reader->accounting();
  ASSERT_TRUE(accounting);
  EXPECT_EQ(accounting->weights, printed_mib(92.10) * 2);
  EXPECT_EQ(accounting->kv, printed_mib(45.00) + printed_mib(23.91));
  EXPECT_EQ(accounting->compute, printed_mib(15.64) + printed_mib(15.67));
  EXPECT_EQ(accounting->output, printed_mib(0.38) * 2);
  EXPECT_EQ(reader->progress(), Progress{"serving"});
  EXPECT_FALSE(reader->failure());
}

TEST(LlamaCppLog, C2_TheContextOfDraftMtpAddsUpAndItsSecondReservationReplacesItsFirst) {
  const auto reader = read(recording("llama-server-0.7-b11669-mtp.log"));
  const auto accounting = reader->accounting();
  ASSERT_TRUE(accounting);
  EXPECT_EQ(accounting->weights, printed_mib(7.06));
  EXPECT_EQ(accounting->kv, printed_mib(4.25) + printed_mib(3.06));
  EXPECT_EQ(accounting->state, printed_mib(0.89));
  EXPECT_EQ(accounting->compute, printed_mib(7.30) + printed_mib(6.53));
  EXPECT_FALSE(reader->failure());
}

TEST(LlamaCppLog, C2_AProjectorComesOnTopAndReplacesNothing) {
  const auto accounting = read(recording("llama-server-0.7-b11669-mmproj.log"))->accounting();
  ASSERT_TRUE(accounting);
  EXPECT_EQ(accounting->weights, printed_mib(5.77) + printed_mib(0.44));
  EXPECT_EQ(accounting->compute, printed_mib(5.78) + printed_mib(0.05));
  EXPECT_EQ(accounting->device, Bytes{});
}

TEST(LlamaCppLog, C2_ProjectorsOnAGpuAreDeviceMemoryEachWithItsOwnBuffer) {
  const auto accounting = read(
                              "I clip_ctx: CLIP using CUDA0 backend\n"
                              "I load_hparams: model size:       800.00 MiB\n"
                              "I alloc_compute_meta:      CUDA0 compute buffer size =   100.00 MiB\n"
                              "I alloc_compute_meta:      CUDA0 compute buffer size =   110.00 MiB\n"
                              "I alloc_compute_meta:        CPU compute buffer size =     9.00 MiB\n"
                              "I clip_ctx: CLIP using CUDA0 backend\n"
                              "I load_hparams: model size:       600.00 MiB\n"
                              "I load_hparams: model size:       999.00 MiB\n"
                              "I reserve_compute_meta:      CUDA0 compute buffer size =    50.00 MiB\n")
                              ->accounting();
  ASSERT_TRUE(accounting);
  EXPECT_EQ(accounting->weights, mib(1400));
  EXPECT_EQ(accounting->compute, mib(110 + 9 + 50));
  EXPECT_EQ(accounting->device, mib(1400 + 110 + 50));
}

TEST(LlamaCppLog, LinesThatOnlyLookLikeAProjectorAreNoMemory) {
  EXPECT_FALSE(read("I x: CLIP using\nI load_hparams: model size: 5.00 MiB\n")->accounting());
  EXPECT_FALSE(read("I load_hparams: model size: 5.00 MiB\n")->accounting());
  EXPECT_FALSE(read("I clip_ctx: CLIP using CPU backend\nI x: model size: many MiB\n")->accounting());
  EXPECT_FALSE(
      read("I clip_ctx: CLIP using " + std::string(100, 'x') + " backend\nI x: model size: 5.00 MiB\n")->accounting());
}

TEST(LlamaCppLog, ADraftThatCannotBeMadeIsTold) {
  const auto failure =
      read(
          "0.00.579.940 I common_speculative_init_result: creating MTP draft context against the target model '/m.gguf'\n"
          "0.00.581.047 E common_speculative_init_result: failed to create MTP context\n"
          "0.00.585.624 E srv  llama_server: exiting due to model loading error\n")
          ->failure();
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->code, "bad_option");
  EXPECT_THAT(failure->message, HasSubstr("failed to create MTP context"));
}

TEST(LlamaCppLog, MappedWeightsAreHostMemory) {
  const auto accounting = read(recording("llama-server-0.7-b11669-mmap.log"))->accounting();
  ASSERT_TRUE(accounting);
  EXPECT_EQ(accounting->device, Bytes{});
  EXPECT_EQ(accounting->weights, printed_mib(92.10));
  EXPECT_EQ(accounting->kv, mib(90));
}

TEST(LlamaCppLog, ProgressFollowsTheStart) {
  const auto reader = make_log_reader(EngineKind::llamacpp);
  const auto after = [&](std::string_view line) {
    reader->read_line(line);
    return reader->progress().phase;
  };
  EXPECT_EQ(reader->progress().phase, "starting");
  EXPECT_EQ(after("main: HTTP server is listening, hostname: 127.0.0.1, port: 8080, http threads: 6"), "starting");
  EXPECT_EQ(after("0.00.020.585 I srv    load_model: loading model '/models/a.gguf'"), "reading weights");
  EXPECT_EQ(after("0.00.158.740 I llama_context: constructing llama_context"), "creating KV cache");
  EXPECT_EQ(after("cmn  common_init_: warming up the model with an empty run - please wait ..."), "warming up");
  EXPECT_EQ(after("0.00.227.298 I srv  llama_server: listening on http://127.0.0.1:18326"), "serving");
  EXPECT_EQ(after("0.00.158.740 I llama_context: constructing llama_context"), "serving");  // never back
}

TEST(LlamaCppLog, DeviceAndPinnedMemoryAreKeptApart) {
  const auto accounting = read(
                              "I load_tensors:        CUDA0 model buffer size = 59120.42 MiB\n"
                              "I load_tensors:    CUDA_Host model buffer size =   310.67 MiB\n"
                              "I llama_context:  CUDA_Host  output buffer size =     3.07 MiB\n"
                              "I llama_kv_cache:      CUDA0 KV buffer size =  4608.00 MiB\n"
                              "I load_tensors:   CPU_REPACK model buffer size =     1.00 MiB\n")
                              ->accounting();
  ASSERT_TRUE(accounting);
  EXPECT_EQ(accounting->device, printed_mib(59120.42) + mib(4608));
  EXPECT_EQ(accounting->host, printed_mib(310.67) + printed_mib(3.07) + mib(1));
}

TEST(LlamaCppLog, LinesThatArePrintedInPiecesAreSummed) {
  const auto accounting = read(
                              "I load_tensors:          CPU model buffer size =    10.00 MiB\n"
                              "I load_tensors:          CPU model buffer size =    20.00 MiB\n"
                              "I llama_kv_cache_iswa: creating non-SWA KV cache, size = 4096 cells\n"
                              "I llama_kv_cache:      CUDA0 KV buffer size =   100.00 MiB\n"
                              "I llama_kv_cache_iswa: creating     SWA KV cache, size = 1024 cells\n"
                              "I llama_kv_cache:      CUDA0 KV buffer size =    50.00 MiB\n"
                              "I llama_memory_recurrent:      CUDA0 RS buffer size =   251.25 MiB\n"
                              "I llama_dsv4_comp_state:      CUDA0 DSV4 hca state buffer size =    40.00 MiB\n")
                              ->accounting();
  ASSERT_TRUE(accounting);
  EXPECT_EQ(accounting->weights, mib(30));
  EXPECT_EQ(accounting->kv, mib(150));
  EXPECT_EQ(accounting->state, printed_mib(251.25) + mib(40));
}

TEST(LlamaCppLog, OfOneContextTheLastComputeBufferCountsAndContextsAddUp) {
  const auto accounting = read(
                              "I llama_context: n_seq_max             = 4\n"
                              "I sched_reserve:      CUDA0 compute buffer size =   200.00 MiB\n"
                              "I sched_reserve:  CUDA_Host compute buffer size =    20.00 MiB\n"
                              "I sched_reserve:      CUDA0 compute buffer size =   300.00 MiB\n"
                              "I llama_context: n_seq_max             = 4\n"  // a draft model's context
                              "I sched_reserve:      CUDA0 compute buffer size =     7.00 MiB\n")
                              ->accounting();
  ASSERT_TRUE(accounting);
  EXPECT_EQ(accounting->compute, mib(327));
  EXPECT_EQ(accounting->device, mib(307));
}

TEST(LlamaCppLog, WakingUpReplacesWhatWasGivenBack) {
  const std::string start =
      "I load_tensors:        CUDA0 model buffer size = 100.00 MiB\n"
      "I llama_context: n_seq_max             = 4\n"
      "I llama_kv_cache:      CUDA0 KV buffer size =  10.00 MiB\n";
  const std::string sleep = "I srv  handle_sleep: server is entering sleeping state\n";
  EXPECT_FALSE(read(start + sleep)->accounting());
  EXPECT_EQ(
      read(start + sleep + "I srv  handle_sleep: server is exiting sleeping state\n" + start)->accounting()->device,
      mib(110));
}

TEST(LlamaCppLog, TheFormsOfOlderBuildsAreUnderstood) {
  // Until b4880.
  auto accounting =
      read(
          "llm_load_tensors:        CPU_Mapped model buffer size =    12.00 MiB\n"
          "llama_new_context_with_model: n_seq_max     = 1\n"
          "llama_kv_cache_init:      CUDA0 KV buffer size =   256.00 MiB\n"
          "llama_init_from_model: KV self size  =  256.00 MiB, K (f16):  128.00 MiB, V (f16):  128.00 MiB\n"
          "llama_new_context_with_model:  CUDA_Host  output buffer size =     0.50 MiB\n"
          "llama_new_context_with_model:      CUDA0 compute buffer size =   100.00 MiB\n")
          ->accounting();
  ASSERT_TRUE(accounting);
  EXPECT_EQ(accounting->kv, mib(256));
  EXPECT_EQ(accounting->device, mib(356));
  // b4881 to b6232; recurrent memory was still called KV.
  accounting =
      read(
          "init:      CUDA0 KV buffer size =     8.00 MiB\n"
          "llama_kv_cache_unified:      CUDA0 KV buffer size =    16.00 MiB\n"
          "llama_kv_cache_unified: size =   16.00 MiB (  4096 cells,  32 layers,  1 seqs), K (f16):    8.00 MiB\n")
          ->accounting();
  ASSERT_TRUE(accounting);
  EXPECT_EQ(accounting->kv, mib(24));
}

TEST(LlamaCppLog, DevicesMayHaveColonsBracketsAndSpaces) {
  const auto accounting = read("I load_tensors: RPC0[192.168.1.2:50052] model buffer size = 5.00 MiB\n")->accounting();
  ASSERT_TRUE(accounting);
  EXPECT_EQ(accounting->device, mib(5));
}

TEST(LlamaCppLog, TextFromTheModelOrAClientIsNotAccounting) {
  const auto reader = read(
      "I llama_model_loader: - kv   2:     general.name str              = CUDA0 KV buffer size = 999.00 MiB\n"
      "I print_info: general.name          = CUDA0 model buffer size = 999.00 MiB\n"
      "W srv    operator(): got exception: {\"error\": \"last read: 'x KV buffer size = 999.00 MiB'\"}\n"
      "user text: buffer size = 1.00 MiB\n"
      "KV buffer size = 1.00 MiB\n"
      "x: CUDA0 KV buffer size = 1e9 MiB\nx: CUDA0 KV buffer size = nan MiB\nx: CUDA0 KV buffer size = -1.00 MiB\n"
      "x: CUDA0 KV buffer size = 99999999999.00 MiB\nx: CUDA0 KV buffer size = 1.00 GiB\nx: CUDA0 KV buffer size =\n"
      "x: CUDA0 texture buffer size = 1.00 MiB\nx:  KV buffer size = 1.00 MiB\nx: CUDA0KV buffer size = 1.00 MiB\n"
      "x: " +
      std::string(100, 'd') + " KV buffer size = 1.00 MiB\n");
  EXPECT_FALSE(reader->accounting());
  EXPECT_FALSE(read(std::string(100'000, ' ') + ": CUDA0 KV buffer size = 1.00 MiB")->accounting());
}

TEST(LlamaCppLog, EveryCutOfARealLogIsSurvived) {
  const auto log = recording("llama-server-0.7-b11669-q8_0.log");
  for (std::size_t length = 0; length < log.size(); length += 7) {
    EXPECT_FALSE(read(std::string_view{log}.substr(0, length))->failure()) << length;
  }
}

FailureReason failure_of(std::string_view log) {
  const auto failure = read(log)->failure();
  EXPECT_TRUE(failure) << log;
  return failure.value_or(FailureReason{});
}

TEST(LlamaCppFailure, ATakenPortIsNamed) {
  const auto failure = failure_of(recording("llama-server-0.7-b11669-port-taken.log"));
  EXPECT_EQ(failure.code, "port_taken");
  EXPECT_EQ(failure.message, "another program uses port 18999");
  EXPECT_FALSE(failure.hint.empty());
}

TEST(LlamaCppFailure, ATruncatedFileIsExplainedInTheEnginesWords) {
  const auto failure = failure_of(recording("llama-server-0.7-b11669-truncated-file.log"));
  EXPECT_EQ(failure.code, "bad_model_file");
  EXPECT_THAT(failure.message, HasSubstr("tensor 'token_embd.weight' data is not within the file bounds"));
  EXPECT_THAT(failure.hint, HasSubstr("complete"));
}

TEST(LlamaCppFailure, TheFirstCauseCountsAndNotItsConsequences) {
  const auto failure = failure_of(recording("llama-server-0.7-b11669-bad-magic.log"));
  EXPECT_EQ(failure.code, "bad_model_file");
  EXPECT_THAT(failure.message, HasSubstr("invalid magic characters: 'hell', expected 'GGUF'"));
}

TEST(LlamaCppFailure, OutOfMemorySaysWhen) {
  auto failure = failure_of(recording("llama-server-0.7-b11669-kv-out-of-memory.log"));
  EXPECT_EQ(failure.code, "out_of_memory");
  EXPECT_EQ(failure.message, "llama-server ran out of memory while creating KV cache");

  failure = failure_of(
      "I load_tensors: loading model tensors, this can take a while... (load_mode = none)\n"
      "E ggml_backend_cuda_buffer_type_alloc_buffer: allocating 59120.42 MiB on device 0: cudaMalloc failed: out of "
      "memory\nE llama_model_load: error loading model: unable to allocate CUDA0 buffer\n"
      "E srv  llama_server: exiting due to model loading error\n");
  EXPECT_EQ(failure.code, "out_of_memory");
  EXPECT_EQ(failure.message, "llama-server ran out of memory while reading weights");
}

TEST(LlamaCppFailure, ARefusedOptionIsNamed) {
  auto failure = failure_of(recording("llama-server-0.7-b11669-flash-attn-off.log"));
  EXPECT_EQ(failure.code, "bad_option");
  EXPECT_THAT(failure.message, HasSubstr("quantized V cache requires flash_attn to be enabled"));

  failure = failure_of(recording("llama-server-0.7-b11669-bad-cache-type.log"));
  EXPECT_EQ(failure.code, "bad_option");
  EXPECT_THAT(failure.message, HasSubstr("\"-ctv\": Unsupported cache type: iq3"));

  failure = failure_of("error: invalid argument: --no-mmap");
  EXPECT_THAT(failure.message, HasSubstr("--no-mmap"));

  failure =
      failure_of("E llama_init_from_model: K cache type q8_0 with block size 32 does not divide n_embd_head_k=80");
  EXPECT_THAT(failure.message, HasSubstr("K cache type q8_0 with block size 32 does not divide n_embd_head_k=80"));
}

TEST(LlamaCppFailure, AModelThatIsTooNewNeedsANewerEngine) {
  const auto failure = failure_of("E llama_model_load: error loading model: unknown model architecture: 'llamq'");
  EXPECT_EQ(failure.code, "bad_model_file");
  EXPECT_THAT(failure.message, HasSubstr("unknown model architecture: 'llamq'"));
  EXPECT_THAT(failure.hint, HasSubstr("newer"));
}

TEST(LlamaCppFailure, AnUnknownCauseStillHasAnAnswer) {
  const auto failure = failure_of("E srv  llama_server: exiting due to model loading error");
  EXPECT_EQ(failure.code, "engine_died");
  EXPECT_THAT(failure.hint, HasSubstr("log"));
  EXPECT_EQ(
      failure_of("llama-server: error while loading shared libraries: libggml.so.0: cannot open shared object file: "
                 "No such file or directory")
          .code,
      "engine_died");
}

TEST(LlamaCppFailure, WhatItQuotesIsSafeToShow) {
  const auto failure =
      failure_of("E llama_model_load: error loading model: \x1b[2J\xff --api-key abc " + std::string(5000, 'x'));
  EXPECT_THAT(failure.message, Not(HasSubstr("\x1b")));
  EXPECT_THAT(failure.message, Not(HasSubstr("abc")));
  EXPECT_LT(failure.message.size(), 2000U);
}

}  // namespace
}  // namespace dgxmm::engine
