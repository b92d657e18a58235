// SPDX-License-Identifier: Apache-2.0
//
// What `gpemu-slurm schedule` and `replay` decide without Slurm. In a cluster:
// tests/cluster/slurm_replay_test.py.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "gpemu/base/file.hpp"
#include "gpemu/base/temporary_folder.hpp"
#include "gpemu/sim/clock.hpp"

#include "slurm/queue_facts.hpp"
#include "slurm/queue_replay.hpp"
#include "slurm/queue_scheduler.hpp"
#include "slurm/slurm_programs.hpp"

namespace gpemu::tools {
namespace {

using Lines = std::vector<std::string>;
using scheduling::Fleet;
using scheduling::Job;

constexpr const char* kMark = "mark";

/// Returns a line of squeue, with '|' where Slurm 22.05 printed the separator.
std::string squeue_line(const std::string& line) {
  std::string printed;
  for (const char c : line) printed += c == '|' ? std::string("\x1f") + kMark : std::string(1, c);
  return printed + "\n";
}

QueuedJob only_job(const std::string& line) {
  return parse_queue(squeue_line(line), kMark).value().at(0);
}

TEST(QueueFacts, ACommentCannotBeAnotherJob) {
  const std::string job = "7|PENDING|gpu|ann|None|0|1|N/A|N/A|gres:gpu:1|1|N/A|1|N/A|||(null)||";
  const std::string other =
      "8\x1fRUNNING\x1fgpu\x1f"
      "bob\x1f";
  const auto jobs = parse_queue(squeue_line(job + "{}\n" + other + "\n|"), kMark);
  ASSERT_TRUE(jobs) << jobs.error().message;
  ASSERT_EQ(jobs->size(), 1U);
  EXPECT_NE(jobs->at(0).fault.find("no JSON"), std::string::npos);
}

TEST(QueueFacts, AreThoseOfSqueue) {
  const std::vector<QueuedJob> jobs =
      parse_queue(
          squeue_line("7|PENDING|gpu|ann|JobHeldUser|0|1796064377|N/A|N/A|gres:gpu:a100:2|1|"
                      "N/A|1|N/A||||(null)|{\"seconds\": 60, \"speeds\": {\"a100\": 1}}|") +
              squeue_line("8|RUNNING|gpu|bob|None|42|1796064377|1796064378|gres:gpu:3|N/A|1|N/A|"
                          "1|N/A|n2||(null)|(null)|(null)|") +
              squeue_line("9|COMPLETED|gpu|bob|None|42|1|2|N/A|gres:shard:1|1|N/A|1|N/A|n[2-3]||"
                          "(null)|(null)|a \x1f b|"),
          kMark)
          .value();
  ASSERT_EQ(jobs.size(), 3U);
  EXPECT_TRUE(jobs[0].is_held && jobs[0].is_pending());
  EXPECT_EQ(jobs[0].gpus, 2U);
  EXPECT_EQ(jobs[0].gpu_type, "a100");
  EXPECT_EQ(jobs[0].notes().text("speeds"), "gpu,speed\na100,1\n");
  EXPECT_EQ(jobs[0].notes().number("seconds", 0).value(), 60);
  EXPECT_TRUE(jobs[1].has_nodes() && !jobs[1].is_held);
  EXPECT_EQ(jobs[1].nodes, Lines({"n2"}));
  EXPECT_EQ(jobs[1].started_s, 1796064378);
  EXPECT_EQ(jobs[1].gpus, 3U);
  EXPECT_TRUE(jobs[2].has_ended());
  EXPECT_EQ(jobs[2].shards, 1U);
  for (const QueuedJob& job : jobs) EXPECT_EQ(job.fault, "");
  EXPECT_FALSE(only_job("1|PENDING|gpu|ann|None|9|1|N/A|N/A|N/A|1|N/A|1|N/A|||(null)|(null)||")
                   .asks_for_gpus);
  EXPECT_FALSE(parse_queue("slurm_load_jobs error\n", kMark));
}

TEST(QueueFacts, NameWhatIsNotSupported) {
  const auto fault_of = [](const std::string& id, const std::string& gres, const std::string& nodes,
                           const std::string& rest) {
    return only_job(id + "|PENDING|gpu|ann|None|0|1|N/A|N/A|" + gres + "|" + nodes + "|N/A|1|N/A|" +
                    rest)
        .fault;
  };
  const std::string plain = "|||(null)|(null)|";
  EXPECT_EQ(fault_of("1", "gres:gpu:1", "1", plain), "");
  EXPECT_EQ(fault_of("1_[0-9]", "gres:gpu:1", "1", plain),
            "gpemu-slurm does not support job arrays and heterogeneous jobs");
  EXPECT_EQ(fault_of("1", "gres:gpu:1", "2", plain),
            "gpemu-slurm does not support jobs on several nodes");
  EXPECT_EQ(fault_of("1", "gres:gpu:1,gres:shard:1", "1", plain),
            "gpemu-slurm does not support GPUs beside shards");
  EXPECT_EQ(fault_of("1", "gres:gpu:a:1,gres:gpu:b:1", "1", plain),
            "gpemu-slurm does not support GPUs of several types");
  EXPECT_EQ(fault_of("1", "gres:mps:50", "1", plain),
            "gpemu-slurm does not support percentages of GPUs (mps)");
  EXPECT_EQ(fault_of("1", "gres:gpu:1", "1", "|n3||(null)|(null)|"),
            "gpemu-slurm does not support nodes to be excluded (--exclude)");
  EXPECT_EQ(fault_of("1", "gres:gpu:1", "1", "||fast|(null)|(null)|"),
            "gpemu-slurm does not support features of nodes (--constraint)");
  EXPECT_EQ(fault_of("1", "gres:gpu:1", "1", "|||afterok:3|(null)|"),
            "gpemu-slurm does not support jobs that depend on others (--dependency)");
  EXPECT_EQ(fault_of("1", "gres:gpu:1", "1", "|||(null)|{seconds}|"),
            "its comment is no JSON; write e.g. --comment='{\"seconds\": 3600}'");
  EXPECT_TRUE(fault_of("1", "gres:gpu:1", "1", "|||(null)|{\"second\": 1}|")
                  .starts_with("its comment has the unknown key \"second\"; there are seconds, "));
}

TEST(QueueFacts, OfNodesAreThoseOfSinfo) {
  const auto nodes = parse_nodes(
                         "n2\x1fgpu:v100:11(S:0-1)\x1fmixed-\n"
                         "n1\x1fgpu:a100:1,shard:a100:4\x1fidle\n"
                         "n3\x1f(null)\x1f"
                         "down*\n"
                         "n4\x1fgpu:a:1,gpu:b:1\x1fidle\n")
                         .value();
  EXPECT_EQ(nodes[0], (QueueNode{.name = "n1",
                                 .gpu_type = "a100",
                                 .gpus = 1,
                                 .shards = 4,
                                 .is_ready = true,
                                 .fault = ""}));
  EXPECT_EQ(nodes[1].gpus, 11U);
  EXPECT_TRUE(nodes[1].is_ready);
  EXPECT_FALSE(nodes[2].is_ready);
  EXPECT_EQ(nodes[3].fault, "it has GPUs of several types");
}

TEST(QueueFacts, CommentsSayWhatNotesDo) {
  const std::map<std::string, std::string> texts{{"seconds", "60"}, {"speeds", "gpu,speed\na,1\n"}};
  EXPECT_EQ(parse_comment(comment_of(texts)).value(), texts);
  EXPECT_EQ(comment_of(texts).find('\n'), std::string::npos);
}

/// A Slurm that does at once what it is told, except that jobs that are released start, and those
/// that are requeued leave, when the test says so.
class FakeSlurm {
 public:
  explicit FakeSlurm(const char* policy) : policy_(*scheduling::find_policy(policy)) { restart(); }

  /// Another scheduler takes over.
  void restart() {
    scheduler_ = std::make_unique<QueueScheduler>(
        QueueSchedulerSettings{.partition = "gpu",
                               .decides = {.policy = policy_, .expected = {}, .round_s = {}}},
        1000);
  }
  void add_node(const std::string& name, std::uint32_t gpus, const std::string& type = "a100",
                std::uint32_t shards = 0) {
    nodes_.push_back({.name = name,
                      .gpu_type = type,
                      .gpus = gpus,
                      .shards = shards,
                      .is_ready = true,
                      .fault = ""});
  }
  QueuedJob& add_job(const std::string& id, std::uint32_t gpus,
                     std::map<std::string, std::string> texts = {}) {
    return jobs_[id] = {.id = id,
                        .state = "PENDING",
                        .partition = "gpu",
                        .user = "ann",
                        .is_held = true,
                        .submitted_s = 1000,
                        .asks_for_gpus = true,
                        .gpus = gpus,
                        .texts = std::move(texts)};
  }
  QueuedJob& job(const std::string& id) { return jobs_.at(id); }
  std::vector<QueueNode>& nodes() { return nodes_; }
  void end(const std::string& id) { jobs_.at(id).state = "COMPLETED"; }

  /// Lets the scheduler decide, and does what it wants. Returns that, e.g. "start 7 n1".
  Lines decide(double now_s) {
    Lines lines;
    tell(now_s);
    std::vector<QueueAction> actions = scheduler_->decide(now_s);
    // The policy sees a moment later which jobs have ended.
    const double again_s = scheduler_->ask_again_s();
    if (again_s > now_s && again_s < now_s + 0.2) {
      const std::vector<QueueAction> more = scheduler_->decide(again_s);
      actions.insert(actions.end(), more.begin(), more.end());
    }
    for (const QueueAction& action : actions) lines.push_back(act(action));
    for (const std::string& line : scheduler_->take_complaints()) lines.push_back(line);
    return lines;
  }
  void tell(double now_s) {
    scheduler_->nodes_listed(nodes_);
    std::vector<QueuedJob> all;
    for (const auto& [id, job] : jobs_) all.push_back(job);
    scheduler_->jobs_listed(all, now_s);
  }
  /// Jobs that are released run, and those that leave wait.
  void go_on(double now_s) {
    for (auto& [id, job] : jobs_) {
      if (job.is_leaving()) {
        job.state = "PENDING";
        job.nodes.clear();
      } else if (job.is_pending() && !job.is_held && !released_[id].empty()) {
        job.state = "RUNNING";
        job.started_s = now_s;
        job.nodes = {released_[id]};
      }
    }
    tell(now_s);
  }
  QueueScheduler& scheduler() { return *scheduler_; }

 private:
  std::string act(const QueueAction& action) {
    QueuedJob& job = jobs_.at(action.job);
    switch (action.kind) {
      case QueueAction::Kind::kHold:
        job.is_held = true;
        return "hold " + job.id;
      case QueueAction::Kind::kStart:
        job.is_held = false;
        released_[job.id] = action.node;
        return "start " + job.id + " " + action.node;
      case QueueAction::Kind::kRequeue:
        job.is_held = true;
        job.state = "COMPLETING";
        return "requeue " + job.id;
      case QueueAction::Kind::kPace:
        return "pace " + job.id;
      case QueueAction::Kind::kExplain:
        return job.id + ": " + action.message;
    }
    return "";
  }

  const scheduling::PolicyEntry* policy_;
  std::vector<QueueNode> nodes_;
  std::map<std::string, QueuedJob> jobs_;
  std::map<std::string, std::string> released_;
  std::unique_ptr<QueueScheduler> scheduler_;
};

TEST(QueueScheduler, StartsWhatFitsAndGivesGpusOnWhenJobsEnd) {
  FakeSlurm slurm("fifo");
  slurm.add_node("n", 4);
  slurm.add_job("9", 3);
  slurm.add_job("10", 2);
  EXPECT_EQ(slurm.decide(1000), Lines({"start 9 n"})) << "9 was submitted before 10";
  slurm.go_on(1001);
  EXPECT_EQ(slurm.decide(1002), Lines());
  // It gives its GPUs back, but has them still.
  slurm.job("9").state = "COMPLETING";
  EXPECT_EQ(slurm.decide(1003), Lines());
  slurm.end("9");
  EXPECT_EQ(slurm.decide(1004), Lines({"start 10 n"}));
}

TEST(QueueScheduler, AJobThatIsNotHeldIsHeldFirst) {
  FakeSlurm slurm("sjf");
  slurm.add_node("n", 1);
  slurm.add_job("1", 1).is_held = false;
  EXPECT_EQ(slurm.decide(1000), Lines({"hold 1"}));
  EXPECT_EQ(slurm.decide(1001), Lines({"start 1 n"}));
}

TEST(QueueScheduler, AJobThatWaitsIsToldWhyOnce) {
  FakeSlurm slurm("fifo");
  slurm.add_node("n", 2);
  slurm.add_job("1", 2);
  slurm.add_job("2", 1);
  EXPECT_EQ(slurm.decide(1000), Lines({"start 1 n"}));
  slurm.go_on(1001);
  EXPECT_EQ(slurm.decide(1004), Lines());
  EXPECT_EQ(slurm.decide(1006),
            Lines({"2: the policy fifo lets it wait: 0 of 2 GPUs are free, and it needs 1"}));
  EXPECT_EQ(slurm.decide(1020), Lines());
}

TEST(QueueScheduler, APreemptedJobIsRequeuedAndGoesOn) {
  FakeSlurm slurm("srtf");
  slurm.add_node("n", 1);
  slurm.add_job("1", 1, {{"seconds", "1000"}});
  EXPECT_EQ(slurm.decide(1000), Lines({"start 1 n"}));
  slurm.go_on(1000);
  slurm.add_job("2", 1, {{"seconds", "10"}});
  EXPECT_EQ(slurm.decide(1100), Lines({"requeue 1"}));
  // The GPU is not free before the job has left.
  EXPECT_EQ(slurm.decide(1100.1), Lines());
  slurm.go_on(1100.2);
  EXPECT_EQ(slurm.decide(1100.3), Lines({"start 2 n"}));
  slurm.go_on(1101);
  slurm.end("2");
  EXPECT_EQ(slurm.decide(1112), Lines({"start 1 n"}));
  slurm.go_on(1113);
  // 100 s of it were done, and 787 s are: this one is longer than what is left.
  slurm.add_job("3", 1, {{"seconds", "120"}});
  EXPECT_EQ(slurm.decide(1800 + 100), Lines());
}

TEST(QueueScheduler, WhatARequeuedJobHasDoneIsWhatItsCommentSays) {
  FakeSlurm slurm("srtf");
  slurm.add_node("n", 1);
  slurm.add_job("1", 1, {{"seconds", "1000"}});
  slurm.decide(1000);
  slurm.go_on(1000);
  slurm.add_job("2", 1, {{"seconds", "10"}});
  EXPECT_EQ(slurm.decide(1100), Lines({"requeue 1"}));
  slurm.go_on(1100.2);
  slurm.decide(1100.3);
  slurm.go_on(1101);
  slurm.job("1").texts["done-seconds"] = "95";
  slurm.end("2");
  EXPECT_EQ(slurm.decide(1112), Lines({"start 1 n"}));
  slurm.go_on(1200);
  // 905 s of it were left when it started anew: 5 s are.
  slurm.add_job("3", 1, {{"seconds", "6"}});
  EXPECT_EQ(slurm.decide(2100), Lines());
  slurm.add_job("4", 1, {{"seconds", "4"}});
  EXPECT_EQ(slurm.decide(2100), Lines({"requeue 1"}));
}

TEST(QueueScheduler, ARequeuedJobDoesNotStartInTheSameSecond) {
  FakeSlurm slurm("fifo");
  slurm.add_node("n", 1);
  slurm.add_job("1", 1);
  slurm.decide(1000);
  slurm.go_on(1000);
  // Somebody else requeues it.
  slurm.job("1").state = "COMPLETING";
  slurm.job("1").is_held = true;
  slurm.decide(1010.1);
  slurm.go_on(1010.2);
  EXPECT_EQ(slurm.decide(1010.3), Lines());
  EXPECT_EQ(slurm.decide(1011), Lines({"start 1 n"}));
}

TEST(QueueScheduler, WhatSlurmRefusesIsTriedAgain) {
  FakeSlurm slurm("fifo");
  slurm.add_node("n", 1);
  slurm.add_job("1", 1);
  slurm.tell(1000);
  const std::vector<QueueAction> actions = slurm.scheduler().decide(1000);
  ASSERT_EQ(actions.size(), 1U);
  slurm.scheduler().action_failed(actions[0], 1000);
  EXPECT_EQ(slurm.decide(1001), Lines());
  EXPECT_EQ(slurm.decide(1002), Lines({"start 1 n"}));
}

TEST(QueueScheduler, WhatCanNeverRunIsRefusedByName) {
  FakeSlurm slurm("allox");
  slurm.add_node("n", 2);
  slurm.add_job("1", 2);
  slurm.add_job("2", 1, {{"seconds", "-1"}});
  slurm.add_job("3", 1).gpu_type = "h100";
  slurm.add_job("4", 1).fault = "gpemu-slurm does not support percentages of GPUs (mps)";
  slurm.add_job("5", 1).shards = 1;
  EXPECT_EQ(
      slurm.decide(1000),
      Lines({"1: the policy allox is for jobs of one GPU, and job 1 needs 2",
             "2: the comment's seconds is '-1'; it must be a number from 0 on",
             "3: no node of the partition gpu has GPUs of the type h100",
             "4: gpemu-slurm does not support percentages of GPUs (mps)",
             "5: it asks for shards, and the node n has 2 GPUs: Slurm, not the policy, chooses "
             "between GPUs that are shared, so that each node may have one"}));
  // It is looked at anew when its comment is corrected.
  slurm.job("2").texts["seconds"] = "1";
  EXPECT_EQ(slurm.decide(1001), Lines({"start 2 n"}));
}

TEST(QueueScheduler, JobsThatShareAGpuRunTogether) {
  FakeSlurm slurm("muri-s");
  slurm.add_node("n", 1, "a100", 4);
  const auto job_with = [&](const char* id, const char* stages) {
    slurm
        .add_job(id, 1,
                 {{"seconds", "100"},
                  {"iterations", "100"},
                  {"stage-seconds", stages},
                  {"together", "2/both"}})
        .shards = 1;
  };
  slurm.add_job("1", 1);
  job_with("2", "0.8,0.2,0");
  job_with("3", "0.2,0.8,0");
  EXPECT_EQ(slurm.decide(1000),
            Lines({"1: the policy muri-s lets jobs share GPUs: ask for a shard in place of a GPU "
                   "(--gres=shard:1)",
                   "start 2 n", "start 3 n"}));
  slurm.go_on(1001);
  slurm.end("2");
  EXPECT_EQ(slurm.decide(1050), Lines({"requeue 3"})) << "Muri forms its groups anew";
}

TEST(QueueScheduler, OpportunisticJobsRunBesideOthers) {
  FakeSlurm slurm("antman");
  slurm.add_node("n", 1, "a100", 2);
  slurm.add_job("1", 1).shards = 1;
  slurm.add_job("2", 1, {{"opportunistic", "true"}}).shards = 1;
  slurm.add_job("3", 1).shards = 1;
  EXPECT_EQ(slurm.decide(1000), Lines({"start 1 n", "start 2 n"}));
}

TEST(QueueScheduler, AJobThatWasReleasedAndHasNotStartedIsHeldAgain) {
  FakeSlurm slurm("srtf");
  slurm.add_node("n", 1);
  slurm.add_job("1", 1, {{"seconds", "1000"}});
  EXPECT_EQ(slurm.decide(1000), Lines({"start 1 n"}));
  slurm.add_job("2", 1, {{"seconds", "10"}});
  EXPECT_EQ(slurm.decide(1001), Lines({"hold 1"}));
  EXPECT_EQ(slurm.decide(1001.1), Lines({"start 2 n"}));
}

TEST(QueueScheduler, AJobThatStartsBeforeItIsHeldIsRequeued) {
  FakeSlurm slurm("srtf");
  slurm.add_node("n", 1);
  slurm.add_job("1", 1, {{"seconds", "1000"}});
  slurm.decide(1000);
  slurm.add_job("2", 1, {{"seconds", "10"}});
  EXPECT_EQ(slurm.decide(1001), Lines({"hold 1"}));
  slurm.job("1").is_held = false;  // Slurm was faster.
  slurm.go_on(1001);
  EXPECT_EQ(slurm.decide(1001.1), Lines({"requeue 1"}));
}

TEST(QueueScheduler, AnotherSchedulerKnowsWhatRuns) {
  FakeSlurm slurm("srtf");
  slurm.add_node("n", 2);
  slurm.add_job("1", 1, {{"seconds", "100"}});
  slurm.decide(1000);
  slurm.go_on(1000);
  slurm.add_job("2", 2, {{"seconds", "50"}});
  slurm.restart();
  EXPECT_EQ(slurm.decide(1090), Lines({"pace 1"})) << "10 s of the first are left";
  slurm.end("1");
  EXPECT_EQ(slurm.decide(1100), Lines({"start 2 n"}));
}

TEST(QueueScheduler, OthersGpusAndNodesThatFailAreNotGivenAway) {
  FakeSlurm slurm("fifo");
  slurm.add_node("m", 2);
  slurm.add_node("n", 2);
  QueuedJob& other = slurm.add_job("1", 2);
  other.partition = "other";
  other.state = "RUNNING";
  other.nodes = {"m"};
  slurm.add_job("2", 1);
  EXPECT_EQ(slurm.decide(1000), Lines({"start 2 n"}));
  slurm.go_on(1001);
  slurm.nodes()[1].is_ready = false;
  slurm.add_job("3", 1);
  slurm.decide(1002);
  slurm.end("1");
  EXPECT_EQ(slurm.decide(1004), Lines({"start 3 m"}));
}

Job job_of_table(double seconds, std::uint32_t gpus) {
  Job job{.id = "j", .demand = {.gpus = gpus, .host = {}}};
  job.iterations = seconds;
  job.iteration_s = 1;
  return job;
}

TEST(QueueReplay, AJobIsAScriptThatGoesOnWhereItWas) {
  const Fleet fleet = Fleet::uniform(2, 4, "a100").value();
  const QueueReplayOptions options{.partition = "gpu",
                                   .run = "r",
                                   .folder = "/shared folder",
                                   .gpemu = "/opt/gpemu",
                                   .speed = 2,
                                   .shares_gpus = false};
  Job job = job_of_table(60, 2);
  job.stages_s = {0.5, 0.25, 0.25};
  EXPECT_EQ(script_of(job, 3, options),
            "#!/bin/sh\nexec /opt/gpemu jobs run --iterations 60 --iteration 0.5 --gpus 2 "
            "--progress '/shared folder/r/3.done' --resume --pace '/shared "
            "folder'/$SLURM_JOB_ID.pace --stages 0.25,0.125,0.125\n");
  const BatchJob batch = batch_job_of(fleet, job, 3, 5, options).value();
  EXPECT_EQ(batch.name, "r-3");
  EXPECT_EQ(batch.gres, "gpu:2");
  const auto notes = parse_comment(batch.comment).value();
  EXPECT_EQ(notes.at("seconds"), "60");
  EXPECT_EQ(notes.at("together"), "5/r at 0");
  const auto fault = [&](const Job& wrong) {
    return batch_job_of(fleet, wrong, 0, 1, options).error().message;
  };
  EXPECT_EQ(fault(job_of_table(1, 5)),
            "job j has 5 GPUs, more than a node: jobs on several nodes are not replayed");
  Job part = job_of_table(1, 1);
  part.demand.gpu_share = 500;
  EXPECT_EQ(fault(part), "job j has no whole GPUs; only jobs that have are replayed");
}

TEST(QueueReplay, KnowsWhenJobsStartEndAndAreRequeued) {
  QueueReplayedJobs jobs(1, 1000, 10);
  QueuedJob facts{.id = "7", .state = "PENDING"};
  const auto listed = [&](const char* state, double now_s) {
    facts.state = state;
    return jobs.listed(0, facts, now_s);
  };
  EXPECT_FALSE(listed("PENDING", 1001).value());
  EXPECT_FALSE(listed("RUNNING", 1002).value());
  EXPECT_FALSE(listed("COMPLETING", 1003).value());
  EXPECT_TRUE(listed("PENDING", 1004).value());
  EXPECT_FALSE(listed("RUNNING", 1005).value());
  EXPECT_FALSE(listed("COMPLETING", 1006).value());
  EXPECT_FALSE(listed("COMPLETED", 1007).value());
  EXPECT_EQ(jobs.ended(), 1U);
  EXPECT_EQ(jobs.jobs()[0].start_s, 20);
  EXPECT_EQ(jobs.jobs()[0].end_s, 60) << "when it began to leave";
  EXPECT_EQ(jobs.jobs()[0].evictions, 1);
  QueueReplayedJobs failing(1, 1000, 1);
  facts.state = "FAILED";
  EXPECT_EQ(failing.listed(0, facts, 1001).error().message, "job 7 of Slurm ended as FAILED");
}

/// Slurm's programs, as scripts that write what they were told.
class SlurmProgramsTest : public testing::Test {
 protected:
  void SetUp() override {
    world_.environment = [this] { return Lines{"PATH=" + bin_.string(), "SQUEUE_STATES=RUNNING"}; };
    std::filesystem::create_directory(bin_);
  }
  void make(const std::string& name, const std::string& script) {
    const std::filesystem::path file = bin_ / name;
    ASSERT_TRUE(write_file_atomically(file, "#!/bin/sh\n" + script));
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  }
  [[nodiscard]] std::string told() const { return read_file(log(), kMiB).value(); }
  [[nodiscard]] std::string log() const { return (folder_.path() / "told").string(); }

  TemporaryFolder folder_ = TemporaryFolder::create("/tmp", "gpemu_queue_test").value();
  std::filesystem::path bin_ = folder_.path() / "bin";
  sim::RealClock clock_;
  World world_ = real_world(clock_);
};

TEST_F(SlurmProgramsTest, AreToldWhatTheirManualsSay) {
  for (const char* name : {"scontrol", "scancel"}) {
    make(name, std::string("echo ") + name + " \"$@\" >>" + log() + "\n");
  }
  make("sbatch", "echo sbatch \"$@\" >>" + log() + "; echo '41;here'\n");
  const SlurmPrograms slurm(world_);
  ASSERT_TRUE(slurm.place("7", "n1"));
  ASSERT_TRUE(slurm.release({"7", "9"}));
  ASSERT_TRUE(slurm.requeue_held("7"));
  ASSERT_TRUE(slurm.set("7", "Comment", "a b"));
  EXPECT_EQ(slurm
                .submit_held({.name = "n",
                              .partition = "p",
                              .gres = "gpu:1",
                              .comment = "{}",
                              .script = "s",
                              .folder = "f",
                              .output = "o"})
                .value(),
            "41");
  ASSERT_TRUE(slurm.cancel({"7", "8"}));
  ASSERT_TRUE(slurm.cancel({}));
  EXPECT_EQ(told(),
            "scontrol update JobId=7 ReqNodeList=n1 StartTime=now\nscontrol release 7,9\n"
            "scontrol requeuehold 7\nscontrol update JobId=7 Comment=a b\n"
            "sbatch --parsable --hold --requeue --job-name=n --partition=p --gres=gpu:1 --ntasks=1 "
            "--nodes=1 --comment={} --chdir=f --output=o --open-mode=append s\n"
            "scancel 7 8\n");
}

TEST_F(SlurmProgramsTest, PrintTimesInSecondsWhateverUsersSet) {
  make("squeue", "/usr/bin/env >" + log() + "\n");
  EXPECT_TRUE(SlurmPrograms(world_).jobs().value().empty());
  EXPECT_NE(told().find("SLURM_TIME_FORMAT=%s\n"), std::string::npos);
  EXPECT_EQ(told().find("SQUEUE_STATES"), std::string::npos);
}

TEST_F(SlurmProgramsTest, SayWhatFailed) {
  make("scontrol", "echo 'slurm_update error: Invalid job id specified' >&2; exit 1\n");
  make("sinfo", ":\n");
  const SlurmPrograms slurm(world_);
  EXPECT_EQ(slurm.hold("7").error().message,
            "scontrol: slurm_update error: Invalid job id specified");
  EXPECT_EQ(slurm.nodes("p").error().message,
            "Slurm has no partition p with nodes; `sinfo` shows those that there are");
  EXPECT_EQ(slurm.jobs().error().code, ErrorCode::kNotFound) << "squeue is not installed";
}

}  // namespace
}  // namespace gpemu::tools
