// What a client may get wrong, and who may ask.
#include "e2e/support/daemon.h"

#include <gmock/gmock.h>

#include <regex>

namespace dgxmm::e2e {
namespace {

using ::testing::Contains;
using ::testing::EndsWith;
using ::testing::HasSubstr;

class Http : public EndToEnd {};

struct Refusal {
  std::string method;
  std::string path;
  std::string body;
  Headers headers;
  int status;
  std::string code;
};

TEST_F(Http, EveryRefusalIsAProblemDocumentWithAStableCode) {
  const Daemon daemon;
  const std::string too_large = R"({"model": ")" + std::string(std::size_t{64} * 1024, 'm') + "\"}";
  const std::vector<Refusal> refusals{
      {"POST", "/api/v1/deployments", "model: m.gguf", {}, 400, "bad_json"},
      {"POST", "/api/v1/deployments", R"({"model": "/m.gguf")", {}, 400, "bad_json"},
      {"POST", "/api/v1/deployments", "", {}, 400, "bad_json"},
      {"POST", "/api/v1/deployments", "[]", {}, 400, "bad_field"},
      {"POST", "/api/v1/deployments", "{}", {}, 400, "missing_field"},
      {"POST", "/api/v1/deployments", R"({"model": "/m.gguf", "ctx": 1})", {}, 400, "unknown_field"},
      {"POST", "/api/v1/deployments", R"({"model": "/m.gguf", "ctx_size": "8k"})", {}, 400, "bad_field"},
      {"POST", "/api/v1/deployments", R"({"model": "/m.gguf", "name": "../../etc"})", {}, 400, "bad_field"},
      {"POST", "/api/v1/deployments", too_large, {}, 413, "body_too_large"},
      {"POST",
       "/api/v1/deployments",
       R"({"model": "/m.gguf"})",
       {{"Content-Type", "text/plain"}},
       415,
       "unsupported_media_type"},
      {"GET", "/api/v1/budget", "", {{"Host", "evil.example"}}, 403, "bad_host"},
      {"GET", "/api/v1/budget", "", {{"Host", "127.0.0.1.evil.example"}}, 403, "bad_host"},
      {"GET", "/api/v1/budget", "", {{"Origin", "http://evil.example"}}, 403, "bad_origin"},
      {"POST", "/api/v1/deployments/1/stop", "", {{"Origin", "null"}}, 403, "bad_origin"},
      {"GET", "/api/v1/nothing", "", {}, 404, "not_found"},
      {"GET", "/api/v1/deployments/7", "", {}, 404, "deployment_not_found"},
      {"POST", "/api/v1/plans/7/stop:1/apply", "", {}, 404, "plan_not_found"},
      {"DELETE", "/api/v1/budget", "", {}, 405, "method_not_allowed"},
      {"GET", "/api/v1/events", "", {{"Last-Event-ID", "the last"}}, 400, "bad_field"},
  };
  for (const auto& refusal : refusals) {
    const auto what = refusal.method + " " + refusal.path + " " + refusal.body.substr(0, 80);
    const auto answer = http(daemon.port(), refusal.method, refusal.path, refusal.body, refusal.headers);
    EXPECT_EQ(answer.status, refusal.status) << what << "\n" << answer.body;
    EXPECT_EQ(answer.headers.at("content-type"), "application/problem+json") << what;
    const auto problem = answer.json();
    EXPECT_EQ(text(problem, "code"), refusal.code) << what;
    EXPECT_EQ(number(problem, "status"), refusal.status) << what;
    EXPECT_FALSE(text(problem, "detail").empty()) << what;
  }
  EXPECT_TRUE(daemon.document("/deployments").as_array().empty());
}

TEST_F(Http, TheFieldThatIsWrongIsNamed) {
  const Daemon daemon;
  const auto problem = daemon.post("/fit", R"({"model": "/m.gguf", "paralel": 2})").json();
  EXPECT_THAT(text(problem, "detail"), HasSubstr("paralel"));
  EXPECT_EQ(text(problem, "where"), "paralel");
  EXPECT_THAT(text(problem, "hint"), HasSubstr("parallel"));
}

TEST_F(Http, WithATokenEveryoneElseIsKeptOut) {
  const Daemon daemon{{.flags = {"--token", "correct-horse"}}};
  const auto ask = [&](const std::string& path, const Headers& headers) {
    return http(daemon.port(), "GET", path, {}, headers);
  };
  EXPECT_EQ(ask("/api/v1/budget", {}).status, 401);
  EXPECT_EQ(ask("/metrics", {}).status, 401);
  EXPECT_EQ(ask("/api/v1/budget", {{"Authorization", "Bearer correct-hors"}}).status, 401);
  EXPECT_EQ(ask("/api/v1/budget", {{"Authorization", "Bearer "}}).status, 401);
  const auto refused = ask("/api/v1/nothing", {{"Authorization", "Bearer wrong"}});
  EXPECT_EQ(refused.status, 401);
  EXPECT_EQ(refused.headers.at("www-authenticate"), "Bearer");
  EXPECT_EQ(ask("/healthz", {}).status, 200);

  const auto settings = ask("/api/v1/settings", {{"Authorization", "Bearer correct-horse"}});
  EXPECT_EQ(settings.status, 200);
  EXPECT_EQ(settings.body.find("correct-horse"), std::string::npos);
  EXPECT_EQ(daemon.log().find("correct-horse"), std::string::npos);

  EXPECT_EQ(daemon.run({"ps"}).exit_code, 1);
  EXPECT_THAT(daemon.run({"ps"}).err, HasSubstr("needs its token"));
  EXPECT_EQ(daemon.run({"ps", "--token", "correct-horse"}).exit_code, 0);
}

TEST_F(Http, HealthAndMetricsAreThereForMonitoring) {
  const Daemon daemon;
  const auto health = http(daemon.port(), "GET", "/healthz");
  EXPECT_EQ(health.status, 200);
  EXPECT_EQ(text(health.json(), "status"), "ok");
  const auto metrics = http(daemon.port(), "GET", "/metrics");
  EXPECT_EQ(metrics.status, 200);
  EXPECT_THAT(metrics.headers.at("content-type"), HasSubstr("text/plain; version=0.0.4"));
  EXPECT_THAT(metrics.body, HasSubstr("\n# TYPE dgxmm_"));
}

TEST_F(Http, TheHistoryBeginsWithTheDaemonAndItsPartsAreMemTotal) {
  const Daemon daemon;
  const auto history = daemon.document("/history");
  ASSERT_FALSE(at(history, "time_s").as_array().empty());
  std::int64_t sum = 0;
  for (const auto* part :
       {"deployments_bytes", "ready_gap_bytes", "external_bytes", "page_cache_bytes", "free_bytes"}) {
    sum += at(history, part).as_array().front().as_int64();
  }
  EXPECT_EQ(sum, number(history, "mem_total_bytes"));
  const auto budget = daemon.document("/budget");
  EXPECT_EQ(number(budget, "page_cache_bytes") + number(budget, "free_bytes"), number(budget, "mem_available_bytes"));
}

/// The files that a page names.
std::vector<std::string> files_of(const std::string& page) {
  std::vector<std::string> found;
  const std::regex reference{R"re((?:src|href)="(/[^"]+)")re"};
  for (std::sregex_iterator at{page.begin(), page.end(), reference}, end; at != end; ++at) found.push_back((*at)[1]);
  return found;
}

TEST_F(Http, ThePageAndItsFilesComeOutOfTheProgramWithoutAToken) {
  if (!DGXMM_WEB) GTEST_SKIP() << "built without the page: DGXMM_WEB";
  const Daemon daemon{{.flags = {"--token", "correct-horse"}}};
  const auto page = http(daemon.port(), "GET", "/");
  ASSERT_EQ(page.status, 200);
  EXPECT_EQ(page.headers.at("content-type"), "text/html; charset=utf-8");
  EXPECT_EQ(page.headers.at("cache-control"), "no-cache");
  EXPECT_THAT(page.headers.at("content-security-policy"), HasSubstr("script-src 'self';"));
  EXPECT_EQ(page.headers.at("x-content-type-options"), "nosniff");
  EXPECT_EQ(page.body.find("<style"), std::string::npos) << "the policy forbids it";
  EXPECT_EQ(page.body.find("<script>"), std::string::npos) << "the policy forbids it";

  const auto files = files_of(page.body);
  EXPECT_THAT(files, Contains(EndsWith(".js")));
  for (const auto& path : files) {
    const auto plain = http(daemon.port(), "GET", path);
    EXPECT_EQ(plain.status, 200) << path;
    EXPECT_EQ(plain.headers.count("content-encoding"), 0U) << path;
    EXPECT_EQ(plain.headers.at("content-length"), std::to_string(plain.body.size())) << path;
    if (path.starts_with("/assets/")) EXPECT_THAT(plain.headers.at("cache-control"), HasSubstr("immutable")) << path;
    const auto again = http(daemon.port(), "GET", path, {}, {{"If-None-Match", plain.headers.at("etag")}});
    EXPECT_EQ(again.status, 304) << path;
    EXPECT_EQ(again.body, "") << path;
    if (!path.ends_with(".js")) continue;
    EXPECT_EQ(plain.headers.at("content-type"), "text/javascript; charset=utf-8") << path;
    const auto packed = http(daemon.port(), "GET", path, {}, {{"Accept-Encoding", "gzip, deflate"}});
    EXPECT_EQ(packed.headers.at("content-encoding"), "gzip") << path;
    EXPECT_EQ(packed.body.substr(0, 2), "\x1f\x8b") << path;
    EXPECT_LT(packed.body.size(), plain.body.size()) << path;
    const auto head = http(daemon.port(), "HEAD", path);
    EXPECT_EQ(head.headers.at("content-length"), plain.headers.at("content-length")) << path;
    EXPECT_EQ(head.body, "") << path;
  }
  EXPECT_EQ(http(daemon.port(), "GET", "/", {}, {{"Origin", "http://evil.example"}}).status, 403);
}

TEST_F(Http, WithoutThePageTheRootSaysSo) {
  if (DGXMM_WEB) GTEST_SKIP() << "built with the page";
  const Daemon daemon;
  const auto answer = http(daemon.port(), "GET", "/");
  EXPECT_EQ(answer.status, 200);
  EXPECT_THAT(answer.body, HasSubstr("/api/v1"));
}

}  // namespace
}  // namespace dgxmm::e2e
