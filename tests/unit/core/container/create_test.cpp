#include "core/container/create.h"

#include "base/json_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dgxmm::container {
namespace {

CreateRequest request() {
  return {.settings = {.image = "llama:1",
                       .mounts = {{"/models/a.gguf", "/models/a.gguf"}},
                       .gpu = true,
                       .shm_size = mib(64),
                       .host_port = 18999,
                       .container_port = 8080},
          .owner = "dgxmm-1234-",
          .name = "dgxmm-1234-7",
          .deployment = {7},
          .arguments = {"/app/llama-server", "--port", "8080"},
          .environment = {{"A", "b=c"}},
          .image_id = "sha256:f24b",
          .gpu = GpuAccess::none,
          .log_limit = mib(8),
          .network = {}};
}

json::bj::value body(const CreateRequest& wanted) { return *json::parse(create_body(wanted)); }
json::bj::value at(const CreateRequest& wanted, std::string_view pointer) { return body(wanted).at_pointer(pointer); }

TEST(CreateBody, TheImageByIdAndTheCommandWithoutAShell) {
  EXPECT_EQ(at(request(), "/Image"), "sha256:f24b");
  EXPECT_EQ(at(request(), "/Entrypoint"), (json::bj::array{"/app/llama-server"}));
  EXPECT_EQ(at(request(), "/Cmd"), (json::bj::array{"--port", "8080"}));
  EXPECT_EQ(at(request(), "/Env"), json::bj::array{"A=b=c"});
  EXPECT_EQ(at(request(), "/Tty"), false);
}

TEST(CreateBody, AnEmptyProgramIsTheImagesOwnEntrypoint) {
  auto wanted = request();
  wanted.arguments.front().clear();
  EXPECT_FALSE(body(wanted).as_object().contains("Entrypoint"));
  EXPECT_EQ(at(wanted, "/Cmd"), (json::bj::array{"--port", "8080"}));
}

TEST(CreateBody, D2_ItHasAnInit) { EXPECT_EQ(at(request(), "/HostConfig/Init"), true); }

TEST(CreateBody, C8_DockerNeverRestartsIt) { EXPECT_EQ(at(request(), "/HostConfig/RestartPolicy/Name"), "no"); }

TEST(CreateBody, C10_NoMemoryLimitIsSet) {
  const auto document = body(request());
  const auto& host = document.at("HostConfig").as_object();
  for (const auto* name : {"Memory", "MemorySwap", "MemoryReservation", "KernelMemory"})
    EXPECT_FALSE(host.contains(name)) << name;
}

TEST(CreateBody, MemoryMayBeLockedWhereThatIsAskedFor) {
  EXPECT_FALSE(body(request()).at("HostConfig").as_object().contains("Ulimits"));
  auto wanted = request();
  wanted.lock_memory = true;
  EXPECT_EQ(at(wanted, "/HostConfig/Ulimits"),
            (json::bj::array{json::bj::object{{"Name", "memlock"}, {"Soft", -1}, {"Hard", -1}}}));
}

TEST(CreateBody, PortsAreOnLoopbackOnly) {
  EXPECT_EQ(at(request(), "/HostConfig/PortBindings/8080~1tcp"),
            (json::bj::array{json::bj::object{{"HostIp", "127.0.0.1"}, {"HostPort", "18999"}}}));
}

TEST(CreateBody, ModelsAreMountedReadOnlyAndTheRootIsToo) {
  EXPECT_EQ(at(request(), "/HostConfig/Mounts/0/ReadOnly"), true);
  EXPECT_EQ(at(request(), "/HostConfig/Mounts/0/Source"), "/models/a.gguf");
  EXPECT_EQ(at(request(), "/HostConfig/ReadonlyRootfs"), true);
}

TEST(CreateBody, IpcIsPrivateAndTheSharedMemoryBounded) {
  EXPECT_EQ(at(request(), "/HostConfig/IpcMode"), "private");
  EXPECT_EQ(at(request(), "/HostConfig/ShmSize"), 64 * 1024 * 1024);
}

TEST(CreateBody, TheLogCannotFillTheDisk) {
  EXPECT_EQ(at(request(), "/HostConfig/LogConfig/Type"), "json-file");
  EXPECT_EQ(at(request(), "/HostConfig/LogConfig/Config/max-size"), "8388608");
  EXPECT_EQ(at(request(), "/HostConfig/LogConfig/Config/max-file"), "2");
}

TEST(CreateBody, ItGetsFewRights) {
  EXPECT_EQ(at(request(), "/HostConfig/CapDrop"), json::bj::array{"ALL"});
  EXPECT_EQ(at(request(), "/HostConfig/SecurityOpt"), json::bj::array{"no-new-privileges"});
  EXPECT_FALSE(body(request()).at("HostConfig").as_object().contains("Privileged"));
}

TEST(CreateBody, TheLabelsSayWhoseItIs) {
  const auto labels = at(request(), "/Labels");
  EXPECT_EQ(labels.at(kOwnerLabel), "dgxmm-1234-");
  EXPECT_EQ(labels.at(kNameLabel), "dgxmm-1234-7");
  EXPECT_EQ(labels.at(kDeploymentLabel), "7");
  EXPECT_EQ(labels.at(kSpecLabel), json::bj::string{spec_digest(request())});
}

TEST(CreateBody, AnyTextGivesAValidDocument) {
  auto wanted = request();
  wanted.arguments.emplace_back("\xff\xfe\"\\\n");
  EXPECT_TRUE(json::parse(create_body(wanted)));
}

TEST(SpecDigest, D8_ChangesWithWhatTheContainerIsMadeFromAndNothingElse) {
  const auto same = spec_digest(request());
  EXPECT_EQ(same.size(), 16U);
  EXPECT_EQ(spec_digest(request()), same);
  auto other = request();
  other.image_id = "sha256:0000";
  EXPECT_NE(spec_digest(other), same);
  other = request();
  other.arguments.emplace_back("--x");
  EXPECT_NE(spec_digest(other), same);
  other = request();
  other.settings.host_port = 19000;
  EXPECT_NE(spec_digest(other), same);
}

TEST(SpecDigest, D8_LeavesOutWhatDiffersFromStartToStart) {
  auto wanted = request();
  wanted.lasting_arguments = wanted.arguments;
  const auto same = spec_digest(wanted);
  wanted.arguments.emplace_back("--gpu-memory-utilization=0.41");
  EXPECT_EQ(spec_digest(wanted), same);
  EXPECT_EQ(at(wanted, "/Cmd").as_array().back(), "--gpu-memory-utilization=0.41");
  wanted.lasting_arguments.emplace_back("--x");
  EXPECT_NE(spec_digest(wanted), same);
}

TEST(CreateBody, WhatIsCompiledIsKeptInAVolumeOfTheInstallation) {
  EXPECT_EQ(at(request(), "/HostConfig/Mounts").as_array().size(), 1U);
  auto wanted = request();
  wanted.settings.cache_folder = "/var/cache/dgxmm";
  const auto mount = at(wanted, "/HostConfig/Mounts/1");
  EXPECT_EQ(mount.at("Type"), "volume");
  EXPECT_EQ(mount.at("Source"), "dgxmm-1234-cache");
  EXPECT_EQ(mount.at("Target"), "/var/cache/dgxmm");
  EXPECT_FALSE(mount.as_object().contains("ReadOnly"));
}

TEST(GpuRequest, ByCdiWhereTheEngineFoundNvidiasDevices) {
  const EngineInfo info{.runtimes = {"nvidia", "runc"}, .cdi_devices = {"nvidia.com/gpu=0", "nvidia.com/gpu=all"}};
  EXPECT_EQ(gpu_access(info), GpuAccess::cdi);
  auto wanted = request();
  wanted.gpu = GpuAccess::cdi;
  EXPECT_EQ(
      at(wanted, "/HostConfig/DeviceRequests"),
      (json::bj::array{json::bj::object{{"Driver", "cdi"}, {"DeviceIDs", json::bj::array{"nvidia.com/gpu=all"}}}}));
  EXPECT_FALSE(body(wanted).at("HostConfig").as_object().contains("Runtime"));
}

TEST(GpuRequest, ElseByNvidiasRuntime) {
  EXPECT_EQ(gpu_access({.runtimes = {"nvidia", "runc"}, .cdi_devices = {"vendor.com/nic=0"}}),
            GpuAccess::nvidia_runtime);
  auto wanted = request();
  wanted.gpu = GpuAccess::nvidia_runtime;
  EXPECT_EQ(at(wanted, "/HostConfig/Runtime"), "nvidia");
  EXPECT_EQ(at(wanted, "/Env"),
            (json::bj::array{"A=b=c", "NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_DRIVER_CAPABILITIES=compute,utility"}));
}

TEST(GpuRequest, NoneOnAHostWithout) {
  EXPECT_EQ(gpu_access({.runtimes = {"runc", "crun"}}), GpuAccess::none);
  const auto document = body(request());
  EXPECT_FALSE(document.at("HostConfig").as_object().contains("DeviceRequests"));
  EXPECT_FALSE(document.at("HostConfig").as_object().contains("Runtime"));
}

TEST(Ownership, GoesByTheLabelNotByTheName) {
  EXPECT_TRUE(is_owned({{"dgxmm.instance", "dgxmm-1-"}}, "dgxmm-1-"));
  EXPECT_FALSE(is_owned({{"dgxmm.instance", "dgxmm-2-"}}, "dgxmm-1-"));
  EXPECT_FALSE(is_owned({}, "dgxmm-1-"));
  EXPECT_FALSE(is_owned({{"dgxmm.name", "dgxmm-1-7"}}, "dgxmm-1-"));
}

TEST(StartError, IsRecognisedInTheEnginesWords) {
  EXPECT_EQ(classify_start_error(
                "driver failed programming external connectivity on endpoint x: Bind for 127.0.0.1:1 failed: "
                "port is already allocated"),
            StartProblem::port_taken);
  EXPECT_EQ(
      classify_start_error("Error starting userland proxy: listen tcp4 127.0.0.1:1: bind: address already in use"),
      StartProblem::port_taken);
  EXPECT_EQ(classify_start_error(R"(could not select device driver "nvidia" with capabilities: [[gpu]])"),
            StartProblem::no_gpu_driver);
  EXPECT_EQ(classify_start_error(R"(exec: "/x": stat /x: no such file or directory: unknown)"),
            StartProblem::program_missing);
  EXPECT_EQ(classify_start_error("something else"), StartProblem::other);
}

}  // namespace
}  // namespace dgxmm::container
