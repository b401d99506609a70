#include "app/api/page.h"

#include "unit/app/support/daemon.h"

#include <algorithm>
#include <array>
#include <string>

namespace dgxmm::testing {
namespace {

constexpr std::array<api::PageFile, 3> kFiles{
    {{"/assets/main-BrT3x1aQ.js", "text/javascript; charset=utf-8", "d1", true, "plain script", "packed script"},
     {"/favicon.svg", "image/svg+xml", "d2", false, "<svg/>", ""},
     {"/index.html", "text/html; charset=utf-8", "d3", false, "plain page", "packed page"}}};

ports::HttpResponse ask(const std::string& path, const std::string& name = {}, const std::string& value = {}) {
  auto request = make_request("GET", path);
  if (!name.empty()) request.headers[name] = value;
  return api::Page{kFiles}.answer(request);
}

TEST(Page, HasItsFilesAndTheIndexAtTheRoot) {
  const api::Page page{kFiles};
  for (const auto* path : {"/", "/index.html", "/favicon.svg", "/assets/main-BrT3x1aQ.js"}) {
    EXPECT_TRUE(page.has(path)) << path;
  }
  for (const auto* path : {"", "/index", "/assets", "/assets/", "/assets/../index.html", "/assets/main-BrT3x1aQ.js/",
                           "//index.html", "/INDEX.HTML", "index.html"}) {
    EXPECT_FALSE(page.has(path)) << path;
  }
  EXPECT_EQ(ask("/").body, "plain page");
  EXPECT_EQ(ask("/index.html").body, "plain page");
  EXPECT_EQ(ask("/favicon.svg").body, "<svg/>");
  EXPECT_EQ(header(ask("/"), "Content-Type"), "text/html; charset=utf-8");
  EXPECT_EQ(header(ask("/favicon.svg"), "Content-Type"), "image/svg+xml");
}

TEST(Page, IsCompressedForThoseWhoTakeIt) {
  const auto packed = ask("/assets/main-BrT3x1aQ.js", "accept-encoding", "gzip, deflate, br");
  EXPECT_EQ(packed.body, "packed script");
  EXPECT_EQ(header(packed, "Content-Encoding"), "gzip");
  const auto plain = ask("/assets/main-BrT3x1aQ.js", "accept-encoding", "br");
  EXPECT_EQ(plain.body, "plain script");
  EXPECT_EQ(header(plain, "Content-Encoding"), "");
  for (const auto& response : {header(packed, "Vary"), header(plain, "Vary")}) EXPECT_EQ(response, "Accept-Encoding");
  EXPECT_NE(header(packed, "ETag"), header(plain, "ETag"));
  // What is not smaller when compressed is kept plain alone.
  const auto icon = ask("/favicon.svg", "accept-encoding", "gzip");
  EXPECT_EQ(icon.body, "<svg/>");
  EXPECT_EQ(header(icon, "Content-Encoding"), "");
}

TEST(Page, GzipIsTakenAsTheHeaderSays) {
  for (const auto* value : {"gzip", "deflate, gzip", "gzip;q=0.5", "br;q=1.0, gzip; q=0.8", "*", "x-gzip", "*;q=0.1",
                            " gzip ", "*;q=0, gzip"}) {
    EXPECT_TRUE(api::accepts_gzip(value)) << value;
  }
  for (const auto* value :
       {"", "br", "identity", "gzip;q=0", "gzip;q=0.000", "gzip; q=0, *", "*;q=0", "gzipped", "br;gzip", ",,", ";"}) {
    EXPECT_FALSE(api::accepts_gzip(value)) << value;
  }
}

TEST(Page, WhatABrowserHasIsNotSentAgain) {
  const auto tag = header(ask("/"), "ETag");
  for (const auto& known : {tag, "W/" + tag, "\"other\", " + tag, std::string{"*"}}) {
    const auto response = ask("/", "if-none-match", known);
    EXPECT_EQ(response.status, 304) << known;
    EXPECT_EQ(response.body, "") << known;
    EXPECT_EQ(header(response, "ETag"), tag) << known;
    EXPECT_EQ(header(response, "Cache-Control"), "no-cache") << known;
    EXPECT_EQ(header(response, "Vary"), "Accept-Encoding") << known;
  }
  const auto packed_tag = header(ask("/", "accept-encoding", "gzip"), "ETag");
  for (const auto& other : {packed_tag, header(ask("/favicon.svg"), "ETag"), std::string{"\"\""}, std::string{"d3"}}) {
    EXPECT_EQ(ask("/", "if-none-match", other).status, 200) << other;
  }
}

TEST(Page, OnlyWhatHasItsDigestInItsNameIsKeptWithoutAsking) {
  EXPECT_EQ(header(ask("/assets/main-BrT3x1aQ.js"), "Cache-Control"), "public, max-age=31536000, immutable");
  EXPECT_EQ(header(ask("/"), "Cache-Control"), "no-cache");
  EXPECT_EQ(header(ask("/favicon.svg"), "Cache-Control"), "no-cache");
}

TEST(Page, LoadsAndReachesNothingButThisDaemon) {
  for (const auto* path : {"/", "/assets/main-BrT3x1aQ.js"}) {
    EXPECT_EQ(header(ask(path), "Content-Security-Policy"),
              "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
              "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
  }
}

TEST(Page, IsReadOnly) {
  World world;
  Daemon daemon{world, {}, kFiles};
  for (const auto* method : {"POST", "DELETE", "PUT"}) {
    const auto response = daemon.request(method, "/");
    EXPECT_EQ(response.status, 405) << method;
    EXPECT_EQ(header(response, "Allow"), "GET") << method;
  }
}

TEST(Page, NeedsNoTokenButComesFromOurOwnHostAndOrigin) {
  World world;
  settings::Settings with_token;
  with_token.token = "secret";
  Daemon daemon{world, with_token, kFiles};
  for (const auto* path : {"/", "/index.html", "/favicon.svg", "/assets/main-BrT3x1aQ.js"}) {
    EXPECT_EQ(daemon.request("GET", path).status, 200) << path;
  }
  EXPECT_EQ(daemon.request("GET", "/assets/other-BrT3x1aQ.js").status, 401);
  auto foreign = make_request("GET", "/");
  foreign.headers["origin"] = "http://evil.example";
  EXPECT_EQ(daemon.handle(std::move(foreign)).status, 403);

  World other_world;
  Daemon open{other_world, {}, kFiles};
  auto rebound = make_request("GET", "/");
  rebound.headers["host"] = "evil.example";
  EXPECT_EQ(open.handle(std::move(rebound)).status, 403);
}

TEST(Page, WhereItWasNotBuiltTheRootSaysSoAndNamesTheApi) {
  World world;
  Daemon daemon{world};
  for (const auto* path : {"/", "/index.html"}) {
    const auto response = daemon.request("GET", path);
    EXPECT_EQ(response.status, 200) << path;
    EXPECT_EQ(header(response, "Content-Type"), "text/plain; charset=utf-8") << path;
    EXPECT_NE(response.body.find("without its page"), std::string::npos) << path;
    EXPECT_NE(response.body.find("/api/v1"), std::string::npos) << path;
  }
  EXPECT_EQ(daemon.request("GET", "/favicon.svg").status, 404);
}

TEST(Page, EveryAnswerProtectsItselfInABrowser) {
  World world;
  Daemon daemon{world, {}, kFiles};
  for (const auto* path : {"/", "/favicon.svg", "/healthz", "/metrics", "/api/v1/budget", "/api/v1/events", "/none"}) {
    const auto response = daemon.request("GET", path);
    for (const auto& [name, value] : ports::kProtectiveHeaders) {
      const auto has_name = [&](const auto& each) { return each.first == name; };
      EXPECT_EQ(std::ranges::count_if(response.headers, has_name), 1) << path << " " << name;
    }
    EXPECT_EQ(header(response, "X-Content-Type-Options"), "nosniff") << path;
    EXPECT_EQ(header(response, "Referrer-Policy"), "no-referrer") << path;
    EXPECT_EQ(header(response, "Content-Security-Policy").substr(0, 19), "default-src 'none';") << path;
  }
}

}  // namespace
}  // namespace dgxmm::testing
