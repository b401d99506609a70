#include "core/host/gpu.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace dgxmm::host {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

constexpr std::int64_t kPidMax = 4'194'304;
constexpr std::uint64_t kUnknown = UINT64_MAX;
constexpr Bytes kHost = kib(127'600'748);

struct Written {
  std::uint32_t pid = 0;
  std::uint64_t used = 0;
};

/// What a driver leaves in a buffer for `capacity` records when it writes records of `size` bytes.
std::vector<std::byte> written(const std::vector<Written>& records, std::size_t size, std::size_t capacity = 20) {
  std::vector<std::byte> buffer(capacity * kRecordRoom, kRecordFiller);
  for (std::size_t i = 0; i < records.size(); ++i) {
    auto* at = buffer.data() + i * size;
    std::memcpy(at, &records[i].pid, 4);
    std::memcpy(at + 8, &records[i].used, 8);
    if (size >= 24) std::memset(at + 16, 0xFF, 8);
    if (size == 32) std::memset(at + 24, 0, 8);
  }
  return buffer;
}

GpuRecord record(std::uint32_t pid, std::optional<Bytes> used) { return {.pid = pid, .used = used}; }
GpuList list(std::vector<GpuRecord> records) { return {.code = 0, .records = std::move(records)}; }
GpuList refused(std::uint32_t code) { return {.code = code, .records = {}}; }

GpuDevice gb10() {
  GpuDevice device{.name = "NVIDIA GB10", .uuid = "GPU-1", .bus_id = "000F:01:00.0"};
  device.pci_device_id = 0x2E1210DE;
  device.compute_major = 12;
  device.compute_minor = 1;
  device.addressing_mode = 2;
  device.memory_code = 3;
  return device;
}

GpuDevice card(std::string name, Bytes total, std::uint32_t addressing = 0) {
  GpuDevice device{.name = std::move(name), .uuid = "GPU-2", .bus_id = "0000:01:00.0"};
  device.memory_code = 0;
  device.memory_total = total;
  device.memory_free = total;
  device.addressing_mode = addressing;
  return device;
}

GpuDevice classified(GpuDevice device, Bytes mem_total = kHost) {
  classify(device, mem_total);
  return device;
}

NvmlAnswers answers_of(GpuDevice device) {
  NvmlAnswers answers;
  answers.driver_loaded = true;
  answers.driver_version = "580.95.05";
  answers.devices = {classified(std::move(device))};
  answers.lists = {{list({record(700, gib(10))}), list({}), refused(3)}};
  return answers;
}

GpuReading reading_of(const NvmlAnswers& answers) {
  return interpret(answers, {{.pid = 700, .start_time_ticks = 5, .used = gib(10)}});
}

// --- codes

TEST(NvmlCodes, EachCodeHasItsMeaningAndAnUnknownOneIsTransient) {
  const std::pair<std::uint32_t, NvmlState> meanings[] = {
      {0, NvmlState::success},           {1, NvmlState::uninitialized},  {2, NvmlState::wrong_version},
      {25, NvmlState::wrong_version},    {3, NvmlState::not_supported},  {4, NvmlState::no_permission},
      {6, NvmlState::not_found},         {28, NvmlState::not_found},     {7, NvmlState::too_small},
      {9, NvmlState::driver_not_loaded}, {12, NvmlState::no_function},   {13, NvmlState::no_function},
      {15, NvmlState::device_failed},    {16, NvmlState::device_failed}, {17, NvmlState::blocked},
      {18, NvmlState::driver_updated},   {10, NvmlState::transient},     {20, NvmlState::transient},
      {23, NvmlState::transient},        {27, NvmlState::transient},     {999, NvmlState::transient},
      {4711, NvmlState::transient}};
  for (const auto& [code, state] : meanings) EXPECT_EQ(nvml_state(code), state) << code;
  EXPECT_EQ(nvml_name(3), "NOT_SUPPORTED (3)");
  EXPECT_EQ(nvml_name(4711), "code 4711");
}

// --- records

TEST(GpuRecords, EachSizeOfRecordIsToldFromHowFarTheBufferWasWritten) {
  for (const std::size_t size : {16U, 24U, 32U}) {
    for (const std::size_t expected : {16U, 24U}) {
      for (const std::size_t count : {1U, 2U, 3U, 12U}) {
        std::vector<Written> records;
        for (std::uint32_t i = 0; i < count; ++i) records.push_back({100 + i, (i + 1) * 1024});
        const auto found = read_records(written(records, size), count, expected, kPidMax);
        ASSERT_TRUE(found) << size << " " << count;
        ASSERT_EQ(found->size(), count);
        for (std::uint32_t i = 0; i < count; ++i) {
          EXPECT_EQ(found->at(i), record(100 + i, kib(i + 1))) << size << " " << count;
        }
      }
    }
  }
}

TEST(GpuRecords, B3_RecordsOf32BytesFromTheV3FunctionOfDriver535) {
  const auto found = read_records(written({{11, 1024}, {22, 2048}}, 32), 2, 24, kPidMax);
  ASSERT_TRUE(found);
  EXPECT_THAT(*found, ElementsAre(record(11, kib(1)), record(22, kib(2))));
}

TEST(GpuRecords, ADriverMayClearAllTheRoomFirst) {
  auto buffer = written({{11, 1024}, {22, 2048}}, 24);
  std::fill(buffer.begin() + 48, buffer.begin() + 20 * 24, std::byte{0});
  const auto found = read_records(buffer, 2, 24, kPidMax);
  ASSERT_TRUE(found);
  EXPECT_THAT(*found, ElementsAre(record(11, kib(1)), record(22, kib(2))));
}

TEST(GpuRecords, UnknownFormsAreRefused) {
  EXPECT_FALSE(read_records(written({{11, 1}, {22, 2}}, 24), 3, 24, kPidMax)) << "fewer records than it says";
  EXPECT_FALSE(read_records(written({{11, 1}, {22, 2}}, 24), 1, 24, kPidMax)) << "one of 48 bytes";
  EXPECT_FALSE(read_records(written({{11, 1}}, 24, 1), 2, 24, kPidMax)) << "more than there was room for";
  EXPECT_FALSE(read_records(written({}, 24), 1, 24, kPidMax)) << "nothing was written";
  EXPECT_FALSE(read_records(written({{0, 1}, {22, 2}}, 32), 2, 24, kPidMax)) << "another size, and no pids either";
  EXPECT_FALSE(read_records({}, 1, 24, kPidMax));
  EXPECT_THAT(read_records({}, 0, 24, kPidMax).value(), IsEmpty());
}

TEST(GpuRecords, B7_AllOnesAndZeroAreUnknown) {
  const auto found = read_records(written({{11, kUnknown}, {22, 0}, {33, kUnknown - 4096}}, 24), 3, 24, kPidMax);
  ASSERT_TRUE(found);
  for (const auto& one : *found) EXPECT_EQ(one.used, std::nullopt) << one.pid;
}

TEST(GpuRecords, B10_PidsThatAreNoneAreDroppedAndTheRestStays) {
  const auto records = read_records(written({{0, 5}, {4294967295, 6}, {812, 4'080'218'931}}, 24), 3, 24, kPidMax);
  ASSERT_TRUE(records);
  const std::vector<std::vector<GpuList>> lists{{list(*records)}};
  const auto found = living(merge_lists(lists), kPidMax, 100, [](std::int64_t) { return std::optional{50ULL}; });
  EXPECT_THAT(found, ElementsAre(GpuProcess{.pid = 812, .start_time_ticks = 50, .used = Bytes{4'080'218'931}}));
}

// --- merging

TEST(MergeLists, B12_AProcessInTwoListsCountsOnceWithTheLargerFigure) {
  const std::vector<std::vector<GpuList>> same{{list({record(700, gib(10))}), list({record(700, gib(10))})}};
  EXPECT_THAT(merge_lists(same), ElementsAre(Pair(700, gib(10))));
  const std::vector<std::vector<GpuList>> other{{list({record(700, gib(10))}), list({record(700, gib(12))})}};
  EXPECT_THAT(merge_lists(other), ElementsAre(Pair(700, gib(12))));
}

TEST(MergeLists, DevicesAndInstancesAreAdded) {
  auto first = record(700, gib(1));
  first.gpu_instance = 1;
  auto second = record(700, gib(2));
  second.gpu_instance = 2;
  const std::vector<std::vector<GpuList>> lists{{list({first, second})}, {list({record(700, gib(4))})}};
  EXPECT_THAT(merge_lists(lists), ElementsAre(Pair(700, gib(7))));
}

TEST(MergeLists, B7_AnUnknownPartMakesTheSumUnknownButAnotherListMayKnowIt) {
  const std::vector<std::vector<GpuList>> devices{{list({record(700, gib(1))})}, {list({record(700, std::nullopt)})}};
  EXPECT_THAT(merge_lists(devices), ElementsAre(Pair(700, std::nullopt)));
  const std::vector<std::vector<GpuList>> lists{{list({record(700, std::nullopt)}), list({record(700, gib(2))})}};
  EXPECT_THAT(merge_lists(lists), ElementsAre(Pair(700, gib(2))));
  const std::vector<std::vector<GpuList>> refusal{{refused(3), list({record(700, gib(2))})}};
  EXPECT_THAT(merge_lists(refusal), ElementsAre(Pair(700, gib(2))));
}

TEST(GpuReadings, B7_OneUnknownProcessLeavesWhatTheOthersHoldKnown) {
  GpuReading reading;
  reading.processes = {{.pid = 1, .start_time_ticks = 1, .used = gib(47)},
                       {.pid = 2, .start_time_ticks = 1, .used = std::nullopt},
                       {.pid = 3, .start_time_ticks = 1, .used = gib(1)}};
  EXPECT_EQ(reading.held_by_all(), std::nullopt);
  EXPECT_EQ(reading.held_at_least_by_all(), gib(48));
  const std::vector<std::int64_t> some{1, 2};
  EXPECT_EQ(reading.held_by(some), std::nullopt);
  EXPECT_EQ(reading.held_at_least_by(some), gib(47));
  const std::vector<std::int64_t> known{1, 3};
  EXPECT_EQ(reading.held_by(known), gib(48));
  EXPECT_EQ(reading.held_at_least_by(known), Bytes{}) << "the whole is known";
  reading.processes.reset();
  EXPECT_EQ(reading.held_at_least_by_all(), Bytes{});
}

TEST(Living, AProcessThatEndedOrTookOverThePidIsNoOwner) {
  const GpuUse use{{10, gib(1)}, {20, gib(2)}, {30, gib(3)}};
  const auto found = living(use, kPidMax, 1000, [](std::int64_t pid) -> std::optional<std::uint64_t> {
    if (pid == 10) return 999;
    if (pid == 20) return 1001;  // born after the question
    return std::nullopt;
  });
  EXPECT_THAT(found, ElementsAre(GpuProcess{.pid = 10, .start_time_ticks = 999, .used = gib(1)}));
}

// --- class

TEST(HostClass, B1_NotSupportedAndTheIdentityOfGb10AreIntegrated) {
  const auto device = classified(gb10());
  EXPECT_EQ(device.host_class, HostClass::integrated);
  EXPECT_THAT(device.evidence, HasSubstr("NOT_SUPPORTED"));
}

TEST(HostClass, B2_AllShapesOfAMemoryAnswerAreTheSameClass) {
  auto whole = card("NVIDIA GB10", kHost);
  auto near = card("nvidia-gb10", kHost + gib(5));
  auto zero = card("Orin (nvgpu)", Bytes{});
  for (const auto& device : {whole, near, zero})
    EXPECT_EQ(classified(device).host_class, HostClass::integrated) << device.name;
}

TEST(HostClass, OneSignIsNotEnough) {
  auto nameless = gb10();
  nameless.name = "NVIDIA N1X";
  nameless.pci_device_id = 0x12345678;
  nameless.compute_major = 13;
  nameless.addressing_mode = 0;
  EXPECT_EQ(classified(nameless).host_class, HostClass::unknown);
  nameless.addressing_mode = 2;
  EXPECT_EQ(classified(nameless).host_class, HostClass::integrated) << "no memory of its own, and addresses shared";
  EXPECT_EQ(classified(card("NVIDIA H100 80GB HBM3", kHost)).host_class, HostClass::discrete) << "as large by chance";
}

TEST(HostClass, CardsAreDiscreteAndGraceHopperIsCoherent) {
  auto rtx = card("NVIDIA GeForce RTX 5090", mib(32106));
  rtx.compute_major = 12;
  rtx.compute_minor = 0;
  EXPECT_EQ(classified(rtx).host_class, HostClass::discrete);
  EXPECT_EQ(classified(card("NVIDIA GH200 480GB", gib(96), 2), gib(576)).host_class, HostClass::coherent);
  EXPECT_EQ(classified(card("NVIDIA Thor", kHost, 2)).host_class, HostClass::integrated);
}

TEST(HostClass, A3_MoreFreeThanThereIsIsNoReading) {
  auto device = card("NVIDIA GeForce RTX 5090", mib(32106));
  device.memory_free = mib(55372);
  device = classified(device);
  EXPECT_EQ(device.host_class, HostClass::discrete);
  EXPECT_EQ(device.memory_free, std::nullopt);
}

TEST(HostClass, AMemoryThatCannotBeReadIsUnknown) {
  auto device = gb10();
  device.memory_code = 999;
  device.pci_device_id.reset();
  device.name = "x";
  device.compute_major.reset();
  EXPECT_EQ(classified(device).host_class, HostClass::unknown);
}

// --- readings

TEST(GpuReadings, B1_UnsupportedMemoryLeavesTheAttributionInPlace) {
  const auto reading = reading_of(answers_of(gb10()));
  EXPECT_EQ(reading.host_class, HostClass::integrated);
  EXPECT_EQ(reading.held_by_all(), gib(10));
  EXPECT_FALSE(reading.no_starts);
  EXPECT_THAT(reading.warnings, IsEmpty());
}

TEST(GpuReadings, HostsWithMemoryOfTheirOwnRefuseStartsAndSayWhy) {
  const auto discrete = reading_of(answers_of(card("NVIDIA H100", gib(80))));
  ASSERT_TRUE(discrete.no_starts);
  EXPECT_EQ(discrete.no_starts->code, "host_not_supported");
  EXPECT_EQ(discrete.held_by_all(), gib(10)) << "shown all the same";
  const auto coherent = reading_of(answers_of(card("NVIDIA GH200", gib(96), 2)));
  ASSERT_TRUE(coherent.no_starts);
  EXPECT_THAT(coherent.no_starts->message, HasSubstr("MemTotal"));
}

TEST(GpuReadings, AMixedHostStartsOnItsIntegratedDeviceOrNotAtAll) {
  auto answers = answers_of(gb10());
  answers.devices.push_back(classified(card("NVIDIA GeForce RTX 5090", gib(32))));
  answers.lists.push_back(answers.lists.front());
  EXPECT_EQ(reading_of(answers).host_class, HostClass::mixed);
  EXPECT_FALSE(reading_of(answers).no_starts);
  answers.devices.front().uuid.clear();
  EXPECT_TRUE(reading_of(answers).no_starts);
}

TEST(GpuReadings, OnAMixedHostWhatLiesOnACardIsNoMemoryOfTheHost) {
  auto answers = answers_of(gb10());
  answers.devices.push_back(classified(card("NVIDIA GeForce RTX 5090", gib(32))));
  answers.lists.push_back({list({record(700, gib(3)), record(701, gib(5))})});
  EXPECT_THAT(use_of(answers), ElementsAre(Pair(700, gib(10))));
  const auto alone = answers_of(card("NVIDIA GeForce RTX 5090", gib(32)));
  EXPECT_THAT(use_of(alone), ElementsAre(Pair(700, gib(10)))) << "shown where there is nothing else";
}

TEST(GpuReadings, WithoutADriverGpuMemoryIsAKnownZero) {
  NvmlAnswers no_library;
  no_library.load_error = "libnvidia-ml.so.1: cannot open shared object file";
  NvmlAnswers not_loaded;
  not_loaded.failed_call = "nvmlInit";
  not_loaded.failed_code = 9;
  for (const auto& answers : {no_library, not_loaded}) {
    const auto reading = interpret(answers, {});
    EXPECT_EQ(reading.host_class, HostClass::none);
    EXPECT_EQ(reading.held_by_all(), Bytes{});
    EXPECT_THAT(reading.warnings, IsEmpty());
  }
}

TEST(GpuReadings, B7_ADriverWithoutAUsableLibraryIsUnknownAndSaysWhy) {
  NvmlAnswers answers;
  answers.driver_loaded = true;
  answers.load_error = "no library";
  auto reading = interpret(answers, {});
  EXPECT_EQ(reading.host_class, HostClass::unknown);
  EXPECT_EQ(reading.held_by_all(), std::nullopt);
  EXPECT_EQ(reading.unavailable, "no library");
  answers.load_error.clear();
  answers.failed_call = "nvmlInit";
  const std::pair<std::uint32_t, std::string> sentences[] = {
      {9, "not loaded"}, {4, "no permission"}, {17, "utility"}, {18, "restarted"}, {999, "daemon-reload"}};
  for (const auto& [code, sentence] : sentences) {
    answers.failed_code = code;
    reading = interpret(answers, {});
    EXPECT_THAT(reading.unavailable, HasSubstr(sentence)) << code;
    EXPECT_EQ(reading.held_by(std::vector<std::int64_t>{700}), std::nullopt);
    EXPECT_EQ(reading.no_starts.has_value(), code == 18) << code;
  }
}

TEST(GpuReadings, AFailedDeviceMakesFiguresUnknownAndRefusesStarts) {
  for (const std::uint32_t code : {15U, 16U}) {
    auto answers = answers_of(gb10());
    answers.lists.front().front() = refused(code);
    const auto reading = reading_of(answers);
    EXPECT_EQ(reading.held_by_all(), std::nullopt);
    ASSERT_TRUE(reading.no_starts) << code;
    EXPECT_EQ(reading.no_starts->code, "gpu_failed");
  }
}

TEST(GpuReadings, B7_ListsThatCannotBeReadMakeTheAttributionUnavailable) {
  const std::vector<std::vector<GpuList>> unusable{
      {refused(3), refused(13), refused(3)}, {}, {refused(4), list({})}, {GpuList{.code = 0, .records = {}}}};
  for (const auto& lists : unusable) {
    auto answers = answers_of(gb10());
    answers.lists = {lists};
    EXPECT_EQ(reading_of(answers).held_by_all(), std::nullopt);
    EXPECT_FALSE(reading_of(answers).unavailable.empty());
  }
}

TEST(GpuReadings, AnOldDriverIsWarnedAbout) {
  auto answers = answers_of(gb10());
  for (const auto* version : {"570.133.20", "580.65.05", "550.54"}) {
    answers.driver_version = version;
    EXPECT_THAT(reading_of(answers).warnings, ElementsAre(HasSubstr(version)));
  }
  for (const auto* version : {"580.65.06", "580.142", "595.84", "", "x"}) {
    answers.driver_version = version;
    EXPECT_THAT(reading_of(answers).warnings, IsEmpty()) << version;
  }
}

TEST(GpuReadings, B7_OneUnknownProcessLeavesTheOthersExact) {
  auto reading = interpret(answers_of(gb10()), {{.pid = 1, .start_time_ticks = 1, .used = gib(1)},
                                                {.pid = 2, .start_time_ticks = 1, .used = std::nullopt}});
  EXPECT_EQ(reading.held_by(std::vector<std::int64_t>{1, 3}), gib(1));
  EXPECT_EQ(reading.held_by(std::vector<std::int64_t>{3}), Bytes{});
  EXPECT_EQ(reading.held_by(std::vector<std::int64_t>{1, 2}), std::nullopt);
  EXPECT_EQ(reading.held_by_all(), std::nullopt);
}

// --- a driver that does not answer

TEST(ServedReadings, B8_LastGoodFiguresAreKeptForAWhileAndThenUnknown) {
  const auto good = reading_of(answers_of(gb10()));
  NvmlAnswers lost;
  lost.driver_loaded = true;
  lost.failed_call = "nvmlInit";
  lost.failed_code = 999;
  const auto newest = interpret(lost, {});
  const auto kept = serve(newest, good, 10s, {}, {});
  EXPECT_EQ(kept.held_by_all(), gib(10));
  EXPECT_EQ(kept.age, 10s);
  EXPECT_EQ(kept.host_class, HostClass::integrated);
  EXPECT_THAT(kept.warnings, ElementsAre(HasSubstr("recreate")));
  const auto old = serve(newest, good, 31s, {}, {});
  EXPECT_EQ(old.held_by_all(), std::nullopt);
  EXPECT_THAT(old.unavailable, HasSubstr("recreate"));
  EXPECT_EQ(old.host_class, HostClass::integrated) << "the host stays what it is";
}

TEST(ServedReadings, C6_AHangingDriverIsAWarningThenUnknown) {
  const auto good = reading_of(answers_of(gb10()));
  EXPECT_THAT(serve(good, good, 3s, 1s, {}).warnings, IsEmpty());
  const auto late = serve(good, good, 8s, 6s, {});
  EXPECT_EQ(late.held_by_all(), gib(10));
  EXPECT_THAT(late.warnings, ElementsAre(HasSubstr("does not answer")));
  const auto lost = serve(good, good, 35s, 33s, {});
  EXPECT_EQ(lost.held_by_all(), std::nullopt);
  EXPECT_THAT(lost.unavailable, HasSubstr("does not answer"));
}

TEST(ServedReadings, BeforeTheFirstAnswerNothingIsKnown) {
  const auto reading = serve({}, {}, 0s, 1s, {});
  EXPECT_EQ(reading.host_class, HostClass::unknown);
  EXPECT_EQ(reading.held_by_all(), std::nullopt);
  EXPECT_FALSE(reading.no_starts);
}

TEST(SettledClass, A3_AHostOfUnknownClassStartsNothing) {
  NvmlAnswers answers;
  answers.driver_loaded = true;
  answers.load_error = "no library";
  auto unusable = interpret(answers, {});
  auto silent = serve({}, {}, 0s, 6s, {});
  auto vague = gb10();
  vague.name = "NVIDIA N1X";
  vague.pci_device_id = 0x12345678;
  vague.compute_major = 13;
  vague.addressing_mode = 0;
  auto one_sign = reading_of(answers_of(vague));
  for (auto* reading : {&unusable, &silent, &one_sign}) {
    ASSERT_EQ(reading->host_class, HostClass::unknown);
    settle_class(*reading, std::nullopt);
    ASSERT_TRUE(reading->no_starts) << reading->evidence;
    EXPECT_EQ(reading->no_starts->code, "host_class_unknown");
    EXPECT_THAT(reading->no_starts->message, HasSubstr(reading->evidence));
    EXPECT_THAT(reading->no_starts->hint, HasSubstr("`host_class`"));
  }
}

TEST(SettledClass, WhatAPersonSaysHoldsWhereNobodyElseCanTellAndNowhereElse) {
  NvmlAnswers answers;
  answers.driver_loaded = true;
  answers.load_error = "no library";
  auto given = interpret(answers, {});
  settle_class(given, parse_given_class("integrated"));
  EXPECT_EQ(given.host_class, HostClass::integrated);
  EXPECT_FALSE(given.no_starts);
  EXPECT_THAT(given.evidence, HasSubstr("by the setting host_class"));
  EXPECT_EQ(given.held_by_all(), std::nullopt) << "who holds what is as unknown as before";

  auto discrete = reading_of(answers_of(card("NVIDIA H100", gib(80))));
  settle_class(discrete, HostClass::none);
  EXPECT_EQ(discrete.host_class, HostClass::discrete);
  EXPECT_EQ(discrete.no_starts->code, "host_not_supported");

  answers.load_error.clear();
  answers.failed_call = "nvmlInit";
  answers.failed_code = 15;
  auto failed = interpret(answers, {});
  settle_class(failed, HostClass::integrated);
  EXPECT_EQ(failed.no_starts->code, "gpu_failed") << "a class mends no GPU";
  EXPECT_EQ(parse_given_class("auto"), std::nullopt);
}

TEST(ServedReadings, AFailedDeviceIsUnknownAtOnce) {
  const auto good = reading_of(answers_of(gb10()));
  auto answers = answers_of(gb10());
  answers.lists.front().front() = refused(15);
  EXPECT_EQ(serve(reading_of(answers), good, 1s, {}, {}).held_by_all(), std::nullopt);
}

// --- the namespace, and parents

TEST(PidNamespace, OnlyTheHostsOwnIsGood) {
  constexpr auto kHostNamespace = "pid:[4026531836]";
  EXPECT_EQ(pid_namespace_problem("Name:\tdgxmm\nNSpid:\t4242\n", kHostNamespace, kHostNamespace), "");
  EXPECT_EQ(pid_namespace_problem("NSpid:\t4242\n", kHostNamespace, ""), "") << "unreadable for ordinary users";
  EXPECT_EQ(pid_namespace_problem("", "", ""), "");
  EXPECT_THAT(pid_namespace_problem("NSpid:\t4242\t7\n", kHostNamespace, ""), HasSubstr("--pid=host"));
  EXPECT_THAT(pid_namespace_problem("NSpid:\t7\n", "pid:[4026532501]", "pid:[4026532501]"), HasSubstr("--pid=host"));
  EXPECT_THAT(pid_namespace_problem("NSpid:\t7\n", kHostNamespace, "pid:[4026532501]"), HasSubstr("--pid=host"));
}

TEST(PidNamespace, AttributionIsUnavailableInAnotherOne) {
  auto answers = answers_of(gb10());
  answers.pid_namespace_problem = "run it with --pid=host";
  const auto reading = reading_of(answers);
  EXPECT_EQ(reading.held_by_all(), std::nullopt);
  EXPECT_EQ(reading.unavailable, "run it with --pid=host");
  EXPECT_EQ(reading.host_class, HostClass::integrated);
}

TEST(Orphanhood, D1_AnEngineCoreThatOutlivedItsServer) {
  const ProcessStat core{.pid = 4242, .parent_pid = 1, .session = 4000, .comm = "VLLM::EngineCor"};
  const ProcessStat worker{.pid = 4243, .parent_pid = 1, .session = 4000, .comm = "VLLM::Worker_TP"};
  const ProcessStat init{.pid = 1, .parent_pid = 0, .session = 1};
  EXPECT_EQ(orphanhood_of(core, init, "", false), Orphanhood::certain);
  EXPECT_EQ(orphanhood_of(worker, init, "", false), Orphanhood::certain);
  EXPECT_EQ(orphanhood_of(core, std::nullopt, "session-3.scope", false), Orphanhood::certain);
  EXPECT_EQ(orphanhood_of(core, ProcessStat{.pid = 4000, .session = 4000}, "", false), Orphanhood::none)
      << "its server lives";
  EXPECT_EQ(orphanhood_of(core, init, "nvidia-mps.service", false), Orphanhood::none)
      << "its service manager watches it";
}

TEST(Orphanhood, D1_AJobInTheBackgroundAfterALogoutMayBeInUse) {
  const ProcessStat job{.pid = 4242, .parent_pid = 1, .session = 4000, .comm = "python3"};
  const ProcessStat init{.pid = 1, .parent_pid = 0, .session = 1};
  EXPECT_EQ(orphanhood_of(job, init, "session-3.scope", false), Orphanhood::possible);
  EXPECT_EQ(orphanhood_of(job, init, "", true), Orphanhood::certain) << "of an engine whose first process has ended";
  const ProcessStat service{.pid = 900, .parent_pid = 1, .session = 900, .comm = "ollama"};
  EXPECT_EQ(orphanhood_of(service, init, "ollama.service", false), Orphanhood::none);
}

TEST(FirstProcess, IsReadFromAnEnvironment) {
  using namespace std::string_view_literals;
  EXPECT_EQ(parse_first_process("A=1\0DGXMM_ENGINE=42:777\0B=2\0"sv),
            (ProcessIdentity{.pid = 42, .start_time_ticks = 777}));
  EXPECT_EQ(parse_first_process("A=1\0XDGXMM_ENGINE=42:777\0"sv), std::nullopt);
  EXPECT_EQ(parse_first_process("DGXMM_ENGINE=42\0"sv), std::nullopt);
  EXPECT_EQ(parse_first_process(""), std::nullopt);
}

}  // namespace
}  // namespace dgxmm::host
