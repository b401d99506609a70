#include "core/container/documents.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dgxmm::container {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

constexpr std::string_view kRunning =
    R"({"Id":"ef93","Created":"2026-11-30T02:08:06.951445146Z","State":{"Status":"running",
  "Running":true,"OOMKilled":false,"Pid":17628,"ExitCode":0,"Error":"","StartedAt":"2026-11-30T02:08:07.34885045Z",
  "FinishedAt":"0001-01-01T00:00:00Z"},"Image":"sha256:f24b","Name":"/x1","Config":{"Tty":false,"Labels":{"a":"b","n":3}},
  "NetworkSettings":{"Ports":{"8080/tcp":[{"HostIp":"::1","HostPort":"1"},{"HostIp":"127.0.0.1","HostPort":"18999"}],
  "9/tcp":null}},"NewField":{}})";

TEST(ContainerDocument, ARunningOne) {
  const auto container = parse_container(kRunning);
  ASSERT_TRUE(container) << container.error().message;
  EXPECT_EQ(container->id, "ef93");
  EXPECT_EQ(container->name, "x1");
  EXPECT_EQ(container->image, "sha256:f24b");
  EXPECT_EQ(container->status, Status::running);
  EXPECT_TRUE(container->alive());
  EXPECT_EQ(container->pid, 17628);
  EXPECT_FALSE(container->exit_code) << "it has not ended: the 0 means nothing";
  EXPECT_TRUE(container->started_at);
  EXPECT_FALSE(container->finished_at) << "Go's zero time means never";
  EXPECT_THAT(container->labels, ElementsAre(Pair("a", "b")));
  EXPECT_THAT(container->published, ElementsAre(Pair("8080/tcp", 18999)));
}

TEST(ContainerDocument, OneThatWasKilled) {
  const auto container = parse_container(
      R"({"Id":"1","State":{"Status":"exited","OOMKilled":true,"Pid":0,"ExitCode":137,"StartedAt":"2026-11-30T02:08:07Z",
          "FinishedAt":"2026-11-30T02:09:07Z"}})");
  ASSERT_TRUE(container);
  EXPECT_TRUE(container->ended());
  EXPECT_EQ(container->exit_code, 137);
  EXPECT_TRUE(container->oom_killed);
  EXPECT_FALSE(container->pid);
}

TEST(ContainerDocument, D6_OneThatNeverStartedHasNoExitCode) {
  const auto container = parse_container(
      R"({"Id":"1","State":{"Status":"created","ExitCode":128,"Error":"driver failed: port is already allocated",
          "StartedAt":"0001-01-01T00:00:00Z"}})");
  ASSERT_TRUE(container);
  EXPECT_FALSE(container->exit_code);
  EXPECT_FALSE(container->alive());
  EXPECT_FALSE(container->ended());
  EXPECT_THAT(container->error, HasSubstr("port is already allocated"));
}

TEST(ContainerDocument, PausedIsAliveAndAnUnknownStatusIsNeither) {
  const auto status = [](std::string_view name) {
    return parse_container(R"({"Id":"1","State":{"Status":")" + std::string{name} + R"("}})");
  };
  EXPECT_TRUE(status("paused")->alive());
  EXPECT_TRUE(status("dead")->ended());
  EXPECT_EQ(status("hibernating")->status, Status::other);
  EXPECT_FALSE(status("hibernating")->alive() || status("hibernating")->ended());
}

TEST(ContainerDocument, ValuesOfAnotherKindAreAbsent) {
  const auto container = parse_container(
      R"({"Id":"1","Name":7,"State":{"Status":[],"Pid":"17","ExitCode":1e99,"OOMKilled":"yes","StartedAt":{}},
          "Config":{"Labels":[1],"Tty":null},"NetworkSettings":{"Ports":{"8080/tcp":[7,{"HostIp":"127.0.0.1","HostPort":"99999"}]}}})");
  ASSERT_TRUE(container);
  EXPECT_EQ(container->status, Status::other);
  EXPECT_FALSE(container->pid || container->exit_code || container->oom_killed || container->started_at);
  EXPECT_THAT(container->published, IsEmpty());
}

TEST(ContainerDocument, WithoutAnIdItIsNone) {
  for (const auto* text : {"", "{", "[]", "null", "{}", R"({"Id":""})", R"({"Id":5})", R"({"Id":"1"} x)", "\xff"}) {
    EXPECT_FALSE(parse_container(text)) << text;
    EXPECT_FALSE(parse_created(text)) << text;
    EXPECT_FALSE(parse_image(text)) << text;
  }
  EXPECT_FALSE(parse_container(std::string(100'000, '[')));
}

TEST(ContainerList, NamesWithoutTheirSlash) {
  const auto rows =
      parse_container_list(R"([{"Id":"1","Names":["/a","/b/a"],"Labels":{"k":"v"}},{"Id":"2","Labels":null}])");
  ASSERT_TRUE(rows);
  ASSERT_EQ(rows->size(), 2U);
  EXPECT_THAT((*rows)[0].names, ElementsAre("a", "b/a"));
  EXPECT_THAT((*rows)[0].labels, ElementsAre(Pair("k", "v")));
  EXPECT_THAT((*rows)[1].names, IsEmpty());
  EXPECT_FALSE(parse_container_list("{}"));
  EXPECT_FALSE(parse_container_list("[5]"));
}

TEST(Info, WhatTheEngineSaysAboutItself) {
  const auto info = parse_info(
      R"({"ServerVersion":"29.2.0","CgroupDriver":"systemd","CgroupVersion":"2","DockerRootDir":"/var/lib/docker",
          "Driver":"overlay2","DefaultRuntime":"runc","Runtimes":{"runc":{"path":"runc"},"nvidia":{}},
          "DiscoveredDevices":[{"Source":"cdi","ID":"nvidia.com/gpu=all"},{"Source":"x","ID":"y"}],
          "SecurityOptions":["name=seccomp,profile=builtin","name=rootless"],"LiveRestoreEnabled":true})");
  ASSERT_TRUE(info);
  EXPECT_EQ(info->server_version, "29.2.0");
  EXPECT_EQ(info->cgroup_driver, "systemd");
  EXPECT_EQ(info->cgroup_version, 2);
  EXPECT_EQ(info->root_dir, "/var/lib/docker");
  EXPECT_THAT(info->runtimes, ElementsAre("nvidia", "runc"));
  EXPECT_THAT(info->cdi_devices, ElementsAre("nvidia.com/gpu=all"));
  EXPECT_TRUE(info->rootless);
  EXPECT_TRUE(info->live_restore);
}

TEST(Info, OfAnEngineWithoutTheNewerFields) {
  const auto info = parse_info(R"({"CgroupDriver":"cgroupfs","Runtimes":null,"SecurityOptions":["name=seccomp"]})");
  ASSERT_TRUE(info);
  EXPECT_EQ(info->cgroup_version, 0);
  EXPECT_THAT(info->cdi_devices, IsEmpty());
  EXPECT_FALSE(info->rootless);
}

TEST(Events, AnActionMayHaveASuffix) {
  const auto event = parse_event(
      R"({"status":"die","id":"old","Type":"container","Action":"exec_create: sh -c x","Actor":{"ID":"ef93",
          "Attributes":{"exitCode":"137"}},"time":1796004487,"timeNano":1796004487393163128})");
  ASSERT_TRUE(event);
  EXPECT_EQ(event->type, "container");
  EXPECT_EQ(event->action, "exec_create");
  EXPECT_EQ(event->id, "ef93");
  EXPECT_EQ(event->exit_code, 137);
  EXPECT_EQ(since_parameter(*event->time), "1796004487.393163128");
}

TEST(Events, OfAnotherKindAreReadTooAndGarbageIsAnError) {
  EXPECT_EQ(parse_event(R"({"Type":"image","Action":"pull"})")->id, "");
  for (const auto* text : {"", "{}", R"({"Type":null})", "[1]", R"({"Type":"container")"})
    EXPECT_FALSE(parse_event(text));
}

TEST(Images, TheIdIsADigestOfTheirConfiguration) {
  const auto image = parse_image(
      R"({"Id":"sha256:f24b","RepoTags":["dgxmm-test:1"],"RepoDigests":["r@sha256:1"],"Config":{"Entrypoint":["/app/llama-server"]}})");
  ASSERT_TRUE(image);
  EXPECT_EQ(image->id, "sha256:f24b");
  EXPECT_THAT(image->tags, ElementsAre("dgxmm-test:1"));
  EXPECT_THAT(image->digests, ElementsAre("r@sha256:1"));
  EXPECT_THAT(image->entrypoint, ElementsAre("/app/llama-server"));
  EXPECT_THAT(parse_image_list(R"([{"Id":"sha256:f24b","RepoTags":null}])")->front().entrypoint, IsEmpty());
  EXPECT_EQ(image->python_path, "");
  EXPECT_EQ(
      parse_image(R"({"Id":"x","Config":{"Env":["PYTHONPATHS=/no","PYTHONPATH=/opt/a:/opt/b","A=b"]}})")->python_path,
      "/opt/a:/opt/b");
}

TEST(ErrorMessage, IsWhatTheEngineSaysMadeSafe) {
  EXPECT_EQ(error_message(R"({"message":"no such image: x"})"), "no such image: x");
  EXPECT_EQ(error_message("page not found\n"), "page not found");
  EXPECT_EQ(error_message("{\"message\":5}"), "{\"message\":5}");
  EXPECT_EQ(error_message(R"({"message":"a\u001b[31mb"})"), "a\\x1b[31mb");
  EXPECT_EQ(error_message(std::string(5000, 'x')).size(), 1000U);
}

TEST(Time, OfTheEngine) {
  EXPECT_EQ(since_parameter(*parse_time("2026-11-30T02:08:07.34885045Z")), "1796004487.348850450");
  EXPECT_EQ(parse_time("2026-11-30T04:08:07+02:00"), parse_time("2026-11-30T02:08:07Z"));
  EXPECT_EQ(parse_time("2026-11-29T21:08:07-05:00"), parse_time("2026-11-30T02:08:07Z"));
  for (const auto* text :
       {"", "0001-01-01T00:00:00Z", "2026-13-30T02:08:07Z", "2026-02-30T02:08:07Z", "2026-11-30 02:08:07Z",
        "2026-11-30T02:08:07", "2026-11-30T02:08:07.Z", "2026-11-30T24:08:07Z", "2026-11-30T02:08:07Zx",
        "9999-11-30T02:08:07Z", "+026-11-30T02:08:07Z", "2026-11-30T02:08:07.1+", "2026-11-30T02:08:07+0200"}) {
    EXPECT_FALSE(parse_time(text)) << text;
  }
}

}  // namespace
}  // namespace dgxmm::container
