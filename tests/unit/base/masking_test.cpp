#include "base/masking.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace dgxmm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

using Arguments = std::vector<std::string>;

std::string masked(std::string argument) { return mask_arguments(Arguments{std::move(argument)}).front(); }

TEST(MaskArguments, AFlagMayTakeSeveralSecrets) {
  EXPECT_THAT(mask_arguments(Arguments{"vllm", "serve", "--api-key", "a", "b", "--port", "8000"}),
              ElementsAre("vllm", "serve", "--api-key", "***", "***", "--port", "8000"));
}

TEST(MaskArguments, ValuesBehindAnEqualsSignAreMasked) {
  EXPECT_EQ(masked("--hf-token=x"), "--hf-token=***");
  EXPECT_EQ(masked("--API_KEY=a b"), "--API_KEY=***");
  EXPECT_EQ(masked("--api-key="), "--api-key=***");
}

TEST(MaskArguments, EveryListedNameIsASecret) {
  for (const std::string name :
       {"api-key", "token", "hf-token", "password", "passwd", "secret", "secret-key", "access_key", "credentials",
        "authorization", "auth", "bearer", "cookie", "DB_PASSWORD", "aws-secret-access-key"}) {
    EXPECT_THAT(mask_arguments(Arguments{"--" + name, "v"}), ElementsAre("--" + name, "***"));
    EXPECT_EQ(masked(name + "=v"), name + "=***");
  }
  EXPECT_THAT(mask_arguments(Arguments{"-hft", "v"}), ElementsAre("-hft", "***"));
}

TEST(MaskArguments, OrdinaryFlagsStayReadable) {
  const Arguments arguments{"--max-num-batched-tokens",
                            "8192",
                            "--max-tokens",
                            "5",
                            "--eos-token-id",
                            "2",
                            "--tokenizer-mode",
                            "auto",
                            "--api-key-file",
                            "/run/keys",
                            "--token-path",
                            "/etc/t",
                            "--author",
                            "someone",
                            "MODEL=llama",
                            "http://127.0.0.1:8000/v1"};
  EXPECT_EQ(mask_arguments(arguments), arguments);
}

TEST(MaskArguments, EnvironmentArgumentsAreMasked) {
  EXPECT_THAT(mask_arguments(Arguments{"-e", "HF_TOKEN=a=b c", "--env", "PORT=1", "--env=HF_TOKEN=x"}),
              ElementsAre("-e", "HF_TOKEN=***", "--env", "PORT=1", "--env=HF_TOKEN=***"));
}

TEST(MaskArguments, HeadersAreMaskedToTheirEnd) {
  EXPECT_THAT(mask_arguments(Arguments{"-H", "Authorization: Digest username=\"u\", response=\"r\"", "--header",
                                       "X-API-Key: k", "-H", "Accept: text/html", "-H", "Cookie: a=1; b=2"}),
              ElementsAre("-H", "Authorization: ***", "--header", "X-API-Key: ***", "-H", "Accept: text/html", "-H",
                          "Cookie: ***"));
}

TEST(MaskArguments, PasswordsInUrlsAreMasked) {
  EXPECT_EQ(masked("postgres://u:p@h/db"), "postgres://u:***@h/db");
  EXPECT_EQ(masked("https://u:p@ss@h:1/x?q=a@b"), "https://u:***@h:1/x?q=a@b");
  EXPECT_EQ(masked("--proxy=http://u:p@h"), "--proxy=http://u:***@h");
  EXPECT_EQ(masked("http://h/a?api_key=k&b=c"), "http://h/a?api_key=***&b=c");
  EXPECT_EQ(masked("https://user@h/x"), "https://user@h/x");
  EXPECT_EQ(masked("http://h:80/@me"), "http://h:80/@me");
}

TEST(MaskArguments, JsonArgumentsAreMaskedByName) {
  EXPECT_EQ(masked(R"({"api_key": "k\"ey", "port": 1})"), R"({"api_key": "***", "port": 1})");
  EXPECT_EQ(masked(R"("{\"token\":\"abc def\",\"x\":1}")"), R"("{\"token\":\"***\",\"x\":1}")");
}

TEST(MaskArguments, ACommandLineInOneArgumentIsMaskedToo) {
  // A program that overwrote its title has one argument.
  EXPECT_EQ(masked("vllm serve --api-key a b --port 8000"), "vllm serve --api-key *** --port 8000");
  EXPECT_EQ(masked("env HF_TOKEN=abc run"), "env HF_TOKEN=*** run");
  EXPECT_EQ(masked("-x --api-key abc --port=1"), "-x --api-key *** --port=1");
  EXPECT_EQ(masked("--api-key abc --token"), "--api-key *** --token");
}

TEST(MaskArguments, TheirNumberStaysTheSame) {
  EXPECT_TRUE(mask_arguments({}).empty());
  EXPECT_THAT(mask_arguments(Arguments{"", "--token"}), ElementsAre("", "--token"));
}

TEST(MaskText, TokensAreKnownByTheirShape) {
  for (const std::string secret :
       {"hf_SECRET_VALUE_123", "sk-abcdefgh1234", "nvapi-0123456789ab", "ghp_0123456789abcdef", "github_pat_11ABCDEFG",
        "glpat-ABCDEFGH12", "xoxb-123456789012", "AKIAIOSFODNN7EXAMPLE", "eyJhbGciOi.eyJzdWIiOi.SflKxwRJ"}) {
    EXPECT_EQ(mask_text("before " + secret + " after"), "before *** after");
    EXPECT_EQ(mask_text("('" + secret + "')"), "('***')");
    EXPECT_EQ(masked("--x=" + secret), "--x=***");
  }
}

TEST(MaskText, WordsThatOnlyResembleTokensStayReadable) {
  for (const std::string_view text : {"hf_overrides",
                                      "hf_transfer_enabled",
                                      "sk-learn",
                                      "task-12345678",
                                      "disk-12345678",
                                      "eyJ",
                                      "eyJabcdefgh",
                                      "xox",
                                      "AKIA",
                                      "a.b.c",
                                      "risk_sk",
                                      "prompt eval time = 1 ms / 42 tokens ( 3.16 ms per token, 316.05 tokens)",
                                      "print_info: EOS token             = 2 '<|im_end|>'",
                                      "load: special tokens cache size = 17",
                                      "max_num_batched_tokens=8192",
                                      "the bearer of bad news",
                                      "'api_key': None, 'port': 8000",
                                      "api_key=None,",
                                      "token=",
                                      "--token",
                                      "--no-auth --port 1"}) {
    EXPECT_EQ(mask_text(text), text);
  }
}

TEST(MaskText, J1_TheKeysThatAnEngineLogsItselfAreMasked) {
  EXPECT_EQ(mask_text("args: {'hf_token': 'hf_SECRET_VALUE_123', 'api_key': ['a', 'b'], 'port': 8000}"),
            "args: {'hf_token': '***', 'api_key': [***], 'port': 8000}");
  EXPECT_EQ(mask_text("Namespace(api_key='abc def', seed=0)"), "Namespace(api_key='***', seed=0)");
}

TEST(MaskText, NamedValuesAreMasked) {
  EXPECT_EQ(mask_text("password: hunter2 ok"), "password: *** ok");
  EXPECT_EQ(mask_text("api_key = \"abc\""), "api_key = \"***\"");
  EXPECT_EQ(mask_text("HF_TOKEN=abc"), "HF_TOKEN=***");
  EXPECT_EQ(mask_text("--hf-token abc --port 1"), "--hf-token *** --port 1");
  EXPECT_EQ(mask_text("curl -H 'Authorization: Bearer abc' http://h"), "curl -H 'Authorization: ***' http://h");
  EXPECT_EQ(mask_text("Authorization: Bearer \"abc\" d\nnext"), "Authorization: ***\nnext");
  EXPECT_EQ(mask_text("got Bearer abcdefgh123"), "got Bearer ***");
}

TEST(MaskText, APemBlockIsReplacedAsAWhole) {
  EXPECT_EQ(mask_text("a -----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY----- b"), "a *** b");
  EXPECT_EQ(mask_text("-----BEGIN PRIVATE KEY-----\nMIIB"), "***");
}

TEST(MaskText, AnUnterminatedValueIsMaskedToTheEnd) {
  EXPECT_EQ(mask_text("{\"token\": \"abc"), "{\"token\": \"***");
  EXPECT_EQ(mask_text("{\"token\": \"abc\\"), "{\"token\": \"***");
  EXPECT_EQ(mask_text("api_key=[a, b"), "api_key=[***");
}

TEST(MaskText, MaskingTwiceChangesNothing) {
  const auto once = mask_text("--api-key a b --port 1 {'token': 'x'} postgres://u:p@h/db HF_TOKEN=x Bearer abcdefgh1");
  EXPECT_EQ(mask_text(once), once);
  EXPECT_THAT(once, Not(HasSubstr("'x'")));
}

TEST(MaskText, EveryCutOfAHostileTextIsSurvived) {
  const std::string text =
      "\\\"token\\\": \\\"a\\\" -----BEGIN x-----END xoxb-1 ://a:b@ eyJ.eyJ. 'auth' : [ --token \xff\xfe =:";
  for (std::size_t length = 0; length <= text.size(); ++length) {
    EXPECT_LE(mask_text(text.substr(0, length)).size(), text.size() + 16);
  }
}

TEST(MaskText, ALongHostileTextIsMaskedInFullWithoutQuadraticWork) {
  // Every start could be a token, and none is: work that grew with the square of this would not end.
  for (const std::string_view piece : {"-eyJ", ".eyJ", "-sk-", "token=None ", "://", "\"token\" "}) {
    std::string text;
    while (text.size() < 300'000) text += piece;
    EXPECT_EQ(mask_text(text + " hf_SECRET123"), text + " ***");
  }
}

TEST(Printable, ControlBytesAndInvalidUtf8AreEscaped) {
  EXPECT_EQ(printable("a\nb\tc\x7f"), "a\\x0ab\\x09c\\x7f");
  EXPECT_EQ(printable("\x1b[31mred"), "\\x1b[31mred");
  EXPECT_EQ(printable(std::string_view{"\0", 1}), "\\x00");
  EXPECT_EQ(printable("\xff\xc3\xa4\xe2\x82"), "\\xff\xc3\xa4\\xe2\\x82");
}

TEST(Printable, TextCannotReorderOrControlTheTerminal) {
  EXPECT_EQ(printable("\xc2\x9b"), "\\xc2\\x9b");  // CSI in C1
  EXPECT_EQ(printable("a\xe2\x80\xae"
                      "b"),
            "a\\xe2\\x80\\xae"
            "b");  // right-to-left override
  EXPECT_EQ(printable("\xe2\x81\xa6"), "\\xe2\\x81\\xa6");
  EXPECT_EQ(printable("\xe2\x80\x94 \xc2\xa0"), "\xe2\x80\x94 \xc2\xa0");  // a dash and a hard space are text
}

TEST(PrintableCommand, IsOneLine) {
  EXPECT_EQ(printable_command(Arguments{"a", "b c", "", "d\ne"}), "a 'b c' '' d\\x0ae");
  EXPECT_EQ(printable_command({}), "");
}

TEST(PrintableCommand, KeepsItsLimitAndCutsBetweenCharacters) {
  const Arguments arguments{"llama-server", "\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac", "tail"};
  EXPECT_EQ(printable_command(arguments, 20), "llama-server \xe2\x82\xac...");
  EXPECT_EQ(printable_command(arguments, 27), "llama-server \xe2\x82\xac\xe2\x82\xac\xe2\x82\xac tail");
  for (std::size_t limit = 0; limit < 40; ++limit) EXPECT_LE(printable_command(arguments, limit).size(), limit);
}

}  // namespace
}  // namespace dgxmm
