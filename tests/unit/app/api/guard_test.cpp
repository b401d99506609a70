#include "app/api/guard.h"

#include "unit/app/support/daemon.h"

#include <string>

namespace dgxmm::testing {
namespace {

std::string refused(const ports::HttpRequest& request, const settings::Settings& settings = {}) {
  const auto error = api::check_access(request, settings);
  return error ? error->code : std::string{};
}

ports::HttpRequest with_host(const std::string& host) {
  auto request = make_request("GET", "/api/v1/budget");
  request.headers["host"] = host;
  return request;
}

settings::Settings with_token(const std::string& token) {
  settings::Settings settings;
  settings.token = token;
  return settings;
}

TEST(Guard, LoopbackNamesPassWithAndWithoutPort) {
  for (const auto* host :
       {"127.0.0.1", "127.0.0.1:8484", "127.1.2.3:1", "localhost", "localhost:8484", "[::1]", "[::1]:8484"}) {
    EXPECT_EQ(refused(with_host(host)), "") << host;
  }
}

TEST(Guard, EveryOtherHostIsRefusedAsInDnsRebinding) {
  for (const auto* host : {"",
                           "evil.example",
                           "127.0.0.1.evil.example",
                           "127.0.0.1.evil.example:8484",
                           "localhost.evil.example",
                           "evil.localhost",
                           "localhost.",
                           "0.0.0.0",
                           "10.0.0.1:8484",
                           "128.0.0.1",
                           "1127.0.0.1",
                           "[::1].evil.example",
                           "[::1]evil",
                           "[::1",
                           "[::2]",
                           "::1",
                           "127.0.0.1:8484:evil",
                           "127.0.0.1:evil",
                           "localhost:8484@evil",
                           "127.0.0.1@evil.example",
                           " localhost",
                           "localhost ",
                           "localhost, evil.example",
                           ":8484",
                           "[]",
                           "[]:1"}) {
    EXPECT_EQ(refused(with_host(host)), "bad_host") << "'" << host << "'";
  }
  auto without = make_request("GET", "/healthz");
  without.headers.clear();
  EXPECT_EQ(refused(without), "bad_host");
}

TEST(Guard, PagesOfOtherOriginsAreRefused) {
  auto request = with_host("127.0.0.1:8484");
  for (const auto* origin : {"null", "http://evil.example", "http://127.0.0.1", "http://127.0.0.1:8485",
                             "http://127.0.0.1:8484.evil.example", "http://localhost:8484", "file://",
                             "http://127.0.0.1:8484/", "HTTP://127.0.0.1:8484", "ftp://127.0.0.1:8484"}) {
    request.headers["origin"] = origin;
    EXPECT_EQ(refused(request), "bad_origin") << origin;
  }
  for (const auto* origin : {"http://127.0.0.1:8484", "https://127.0.0.1:8484"}) {
    request.headers["origin"] = origin;
    EXPECT_EQ(refused(request), "") << origin;
  }
}

TEST(Guard, TokenIsNeededForEverythingButHealth) {
  const auto settings = with_token("secret");
  World world;
  Daemon daemon{world, settings};
  EXPECT_EQ(daemon.request("GET", "/healthz").status, 200);
  EXPECT_EQ(daemon.request("GET", "/metrics").status, 401);
  auto request = with_host("spark.lan:8484");
  EXPECT_EQ(refused(request, settings), "unauthorized");
  for (const auto* value :
       {"", "Bearer", "Bearer ", "Bearer wrong", "Bearer secre", "Bearer secrets", "Bearer secretsecret",
        "Bearer  secret", "Bearer secret ", "Basic secret", "secret", "bearer secret"}) {
    request.headers["authorization"] = value;
    EXPECT_EQ(refused(request, settings), "unauthorized") << "'" << value << "'";
  }
  request.headers["authorization"] = "Bearer secret";
  EXPECT_EQ(refused(request, settings), "");
  request.headers["origin"] = "http://evil.example";
  EXPECT_EQ(refused(request, settings), "bad_origin");
}

TEST(Guard, BodiesMustBeDeclaredAsJson) {
  for (const auto* method : {"POST", "PUT", "PATCH"}) {
    auto request = make_request(method, "/api/v1/deployments", "{}");
    for (const auto* type :
         {"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonx",
          "application/json, text/plain", "text/plain; application/json", "x-application/json"}) {
      request.headers["content-type"] = type;
      EXPECT_EQ(refused(request), "unsupported_media_type") << type;
    }
    for (const auto* type : {"application/json", "application/json; charset=utf-8", "application/json ;charset=utf-8",
                             "Application/JSON"}) {
      request.headers["content-type"] = type;
      EXPECT_EQ(refused(request), "") << type;
    }
    request.headers.erase("content-type");
    EXPECT_EQ(refused(request), "unsupported_media_type");
  }
}

TEST(Guard, IsAskedBeforeTheRoute) {
  World world;
  Daemon daemon{world};
  auto request = with_host("evil.example");
  request.path = "/there/is/none";
  const auto response = daemon.handle(std::move(request));
  EXPECT_EQ(response.status, 403);
  EXPECT_EQ(header(response, "Content-Type"), "application/problem+json");
}

TEST(Guard, RefusalForLackOfATokenSaysWhichSchemeIsWanted) {
  World world;
  Daemon daemon{world, with_token("secret")};
  const auto response = daemon.request("GET", "/api/v1/budget");
  EXPECT_EQ(response.status, 401);
  EXPECT_EQ(header(response, "WWW-Authenticate"), "Bearer");
  EXPECT_EQ(response.body.find("secret"), std::string::npos);
}

}  // namespace
}  // namespace dgxmm::testing
