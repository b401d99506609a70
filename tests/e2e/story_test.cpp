// The whole product in one go, as its user sees it.
#include "e2e/support/daemon.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <map>

namespace dgxmm::e2e {
namespace {

using boost::json::value;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Each step begins where the one before it left the daemon.
class Story : public EndToEnd {
 protected:
  void fit_says_that_it_fits_and_shows_the_six_parts();
  void deploy_shows_its_progress_and_the_model_answers();
  void the_footprint_is_learned_and_the_next_estimate_is_measured();
  void a_second_one_does_not_fit_and_nothing_changes();
  void applying_the_plan_stops_the_first_and_starts_the_second();
  void the_second_outlives_the_daemon();
  void stop_gives_its_memory_back();

  value first() { return host_->daemon->deployment("first"); }
  value second() { return host_->daemon->deployment("second"); }

  std::unique_ptr<MemoryForOne> host_;
  Request second_;
  std::string plan_;
};

void Story::fit_says_that_it_fits_and_shows_the_six_parts() {
  const auto fit = host_->daemon->run(host_->first.ask("fit", {"--json"}));
  ASSERT_EQ(fit.exit_code, 0) << fit.all();
  const auto document = boost::json::parse(fit.out);
  EXPECT_EQ(text(document, "verdict"), "fits");
  EXPECT_EQ(text(document, "confidence"), "estimated");
  std::vector<std::string> names;
  std::int64_t sum = 0;
  for (const auto& part : at(document, "parts").as_array()) {
    names.push_back(text(part, "name"));
    sum += number(part, "bytes");
    EXPECT_FALSE(text(part, "source").empty());
  }
  EXPECT_THAT(names, ElementsAre("weights", "kv", "state", "activations", "runtime", "margin"));
  EXPECT_EQ(sum, number(document, "total_bytes"));

  const auto shown = host_->daemon->run(host_->first.ask("fit"));
  ASSERT_EQ(shown.exit_code, 0);
  for (const auto& name : names) EXPECT_THAT(shown.out, HasSubstr("\n" + name + " "));
  EXPECT_THAT(shown.out, HasSubstr("fits: needs "));
}

void Story::deploy_shows_its_progress_and_the_model_answers() {
  const auto deploy = host_->daemon->run(host_->first.deploy());
  ASSERT_EQ(deploy.exit_code, 0) << deploy.all();
  EXPECT_THAT(deploy.err, HasSubstr("first: "));
  EXPECT_THAT(deploy.out, HasSubstr("first is ready"));
  EXPECT_EQ(number(first(), "reserved_bytes"), host_->first_bytes);

  const auto events = host_->daemon->run({"events", "--json"});
  EXPECT_THAT(events.out, HasSubstr("\"deployment.progress\""));

  const auto answer = chat(text(first(), "url"), "first");
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_FALSE(text(at(at(answer.json(), "choices").at(0), "message"), "content").empty());
}

void Story::the_footprint_is_learned_and_the_next_estimate_is_measured() {
  value records;
  ASSERT_TRUE(eventually([&] {
    records = at(host_->daemon->document("/calibration"), "records");
    return !records.as_array().empty();
  }));
  ASSERT_EQ(records.as_array().size(), 1U);
  const auto measured = number(records.at(0), "measured_bytes");
  EXPECT_EQ(number(records.at(0), "formula_bytes"), host_->first_bytes);
  EXPECT_EQ(number(first(), "footprint_bytes"), measured);
  const auto weights = std::filesystem::file_size(environment().model);
  EXPECT_GT(measured, static_cast<std::int64_t>(weights));
  EXPECT_LT(measured, host_->first_bytes);  // nobody has filled the prompt cache

  const auto fit = boost::json::parse(host_->daemon->run(host_->first.ask("fit", {"--json"})).out);
  EXPECT_EQ(text(fit, "confidence"), "measured");
  EXPECT_GE(number(fit, "total_bytes"), host_->first_bytes);  // C6: what was learned never lowers it
}

void Story::a_second_one_does_not_fit_and_nothing_changes() {
  second_ = host_->request_in_place_of_first("second", environment().model);
  const auto answer = host_->daemon->post("/deployments", second_.body());
  ASSERT_EQ(answer.status, 409) << answer.body;
  EXPECT_EQ(answer.headers.at("content-type"), "application/problem+json");
  const auto problem = answer.json();
  EXPECT_EQ(text(problem, "code"), "does_not_fit");

  const auto& plans = at(problem, "plans");
  const auto needed = number(plans, "needed_bytes");
  const auto free = number(plans, "free_for_new_bytes");
  EXPECT_EQ(number(plans, "shortfall_bytes"), needed - free);
  const value* stop_first = nullptr;
  for (const auto& plan : at(plans, "plans").as_array()) {
    EXPECT_EQ(number(plan, "free_before_bytes"), free);
    EXPECT_EQ(number(plan, "left_bytes"), number(plan, "free_after_bytes") - number(plan, "needed_bytes"));
    EXPECT_EQ(number(plan, "shortfall_bytes"), std::max<std::int64_t>(-number(plan, "left_bytes"), 0));
    EXPECT_EQ(at(plan, "fits").as_bool(), number(plan, "shortfall_bytes") == 0);
    if (text(plan, "id") == "stop:1") stop_first = &plan;
  }
  ASSERT_NE(stop_first, nullptr) << answer.body;
  EXPECT_TRUE(at(*stop_first, "fits").as_bool());
  EXPECT_EQ(at(*stop_first, "stops"), value(boost::json::array{number(first(), "id")}));
  EXPECT_EQ(number(*stop_first, "needed_bytes"), needed);

  const auto deploy = host_->daemon->run(second_.deploy());
  EXPECT_EQ(deploy.exit_code, 3) << deploy.all();
  EXPECT_THAT(deploy.out, HasSubstr("stop:1"));
  const auto command = deploy.out.find("dgxmm apply ");
  ASSERT_NE(command, std::string::npos) << deploy.out;

  EXPECT_EQ(text(first(), "state"), "ready");
  EXPECT_EQ(host_->daemon->get("/deployments/second").status, 404);
  plan_ = text(plans, "plan_set") + "/stop:1";
}

void Story::applying_the_plan_stops_the_first_and_starts_the_second() {
  const auto apply = host_->daemon->run({"apply", plan_});
  ASSERT_EQ(apply.exit_code, 0) << apply.all();
  EXPECT_THAT(apply.err, HasSubstr("stop first: done"));
  EXPECT_THAT(apply.out, HasSubstr("second is ready"));
  EXPECT_EQ(text(first(), "state"), "stopped");
  EXPECT_EQ(text(second(), "state"), "ready");
  EXPECT_THAT(host_->daemon->engines(), ElementsAre(number(second(), "pid")));
  EXPECT_EQ(chat(text(second(), "url"), "second").status, 200);
}

void Story::the_second_outlives_the_daemon() {
  const auto before = second();
  host_->daemon->kill_hard();
  EXPECT_EQ(chat(text(before, "url"), "second").status, 200) << "while there is no daemon";

  host_->daemon->start();
  ASSERT_TRUE(host_->daemon->becomes("second", "ready"));
  const auto after = second();
  for (const auto* member : {"id", "pid", "url", "reserved_bytes", "ready_at"}) {
    EXPECT_EQ(at(after, member), at(before, member)) << member;
  }
  EXPECT_EQ(chat(text(after, "url"), "second").status, 200);
  EXPECT_EQ(text(first(), "state"), "stopped");
  const auto budget = host_->daemon->document("/budget");
  EXPECT_EQ(number(budget, "committed_bytes"), number(before, "reserved_bytes"));
  ASSERT_EQ(at(budget, "deployments").as_array().size(), 1U);
}

void Story::stop_gives_its_memory_back() {
  const auto pid = static_cast<pid_t>(number(second(), "pid"));
  const auto cgroup = memory_cgroup_of(pid);
  const auto before = host_->daemon->document("/budget");
  const auto stop = host_->daemon->run({"stop", "second"});
  ASSERT_EQ(stop.exit_code, 0) << stop.all();
  EXPECT_THAT(stop.out, HasSubstr("its memory is back"));
  EXPECT_FALSE(process_runs(pid));
  if (cgroup) EXPECT_FALSE(std::filesystem::exists(*cgroup)) << *cgroup;

  const auto after = host_->daemon->document("/budget");
  EXPECT_EQ(number(after, "committed_bytes"), 0);
  EXPECT_TRUE(at(after, "deployments").as_array().empty());
  EXPECT_EQ(number(after, "free_for_new_bytes"), number(after, "usable_bytes") - number(after, "used_bytes"));
  // Other programs of the host go on as they like: half of what is expected is proof enough.
  const auto others =
      std::max<std::int64_t>(number(before, "used_bytes") - number(before, "measured_by_managed_bytes"), 0);
  const auto expected = number(before, "usable_bytes") - others - number(before, "free_for_new_bytes");
  EXPECT_GT(number(after, "free_for_new_bytes") - number(before, "free_for_new_bytes"), expected / 2);
}

TEST_F(Story, FromAModelFileToAMeasuredDeploymentAndAWayOutWhenTheNextDoesNotFit) {
  host_ = std::make_unique<MemoryForOne>();
  ASSERT_NO_FATAL_FAILURE(fit_says_that_it_fits_and_shows_the_six_parts());
  ASSERT_NO_FATAL_FAILURE(deploy_shows_its_progress_and_the_model_answers());
  ASSERT_NO_FATAL_FAILURE(the_footprint_is_learned_and_the_next_estimate_is_measured());
  ASSERT_NO_FATAL_FAILURE(a_second_one_does_not_fit_and_nothing_changes());
  ASSERT_NO_FATAL_FAILURE(applying_the_plan_stops_the_first_and_starts_the_second());
  ASSERT_NO_FATAL_FAILURE(the_second_outlives_the_daemon());
  ASSERT_NO_FATAL_FAILURE(stop_gives_its_memory_back());
  EXPECT_EQ(host_->daemon->end(), 0);
}

}  // namespace
}  // namespace dgxmm::e2e
