// SPDX-License-Identifier: Apache-2.0
#include "gpemu/scheduling/job_generator.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "gpemu/scheduling/job.hpp"
#include "gpemu/scheduling/job_table.hpp"
#include "gpemu/scheduling/job_writer.hpp"

namespace gpemu::scheduling {
namespace {

std::string table_of(const JobGeneratorOptions& options) {
  return job_table_text(generate_jobs(options).value()).value();
}

TEST(JobGeneratorTest, TheSameSeedGivesTheSameBytesWhichReadAsTheSameJobs) {
  const JobGeneratorOptions options{
      .jobs = 500, .models = {{"bert", 1}, {"vgg16", 3}}, .like = {}, .seed = 7};
  const std::string text = table_of(options);
  EXPECT_EQ(table_of(options), text);
  EXPECT_EQ(job_table_text(parse_jobs(text, "t").value()).value(), text);
  EXPECT_NE(table_of({.jobs = 500, .models = options.models, .like = {}, .seed = 8}), text);
}

/// The first jobs of a seed are a promise: who notes the seed can make them again.
TEST(JobGeneratorTest, TheFirstJobsOfASeed) {
  EXPECT_EQ(table_of({.jobs = 3, .models = {}, .like = {}, .seed = 1}),
            "job,arrival_s,gpus,duration_s\n0,0,4,1698.663\n1,143.314,1,14604.288\n"
            "2,634.464,1,5500.678\n");
}

TEST(JobGeneratorTest, NumbersAreAsOftenAsTheirWeightsSay) {
  const JobGeneratorOptions options{.jobs = 20000,
                                    .jobs_per_hour = 60,
                                    .gpus = {{1, 3}, {16, 1}},
                                    .models = {{"bert", 1}, {"vgg16", 4}},
                                    .median_s = 100,
                                    .sigma = 1,
                                    .like = {},
                                    .seed = 3};
  const std::vector<Job> jobs = generate_jobs(options).value();
  std::map<std::uint32_t, double> gpus;
  std::map<std::string, double> models;
  std::vector<double> logarithms;
  for (const Job& job : jobs) {
    ++gpus[job.demand.gpus];
    ++models[job.model];
    logarithms.push_back(std::log(job.work_s() / 100));
  }
  EXPECT_NEAR(gpus[16] / gpus[1], 1.0 / 3, 0.02);
  EXPECT_NEAR(models["vgg16"] / models["bert"], 4, 0.2);
  std::ranges::sort(logarithms);
  // Of a standard normal distribution, 15.87 % are below -1 and above 1.
  EXPECT_NEAR(logarithms[10000], 0, 0.03);
  EXPECT_NEAR(logarithms[3173], -1, 0.03);
  EXPECT_NEAR(logarithms[16827], 1, 0.03);
  EXPECT_NEAR(jobs.back().arrival_s / 20000, 60, 1);
}

TEST(JobGeneratorTest, FewJobsArriveWhenADayBegins) {
  const std::vector<Job> jobs = generate_jobs({.jobs = 24000,
                                               .jobs_per_hour = 100,
                                               .arrivals = ArrivalPattern::kDiurnal,
                                               .swing = 0.5,
                                               .models = {},
                                               .like = {}})
                                    .value();
  std::vector<double> in_hour(24);
  for (const Job& job : jobs) ++in_hour[static_cast<std::size_t>(job.arrival_s / 3600) % 24];
  // Ten days; in the first and the last hour, and the twelfth and thirteenth, close to the
  // extremes.
  EXPECT_NEAR((in_hour[0] + in_hour[23]) / 2, 500, 60);
  EXPECT_NEAR((in_hour[11] + in_hour[12]) / 2, 1500, 100);
  EXPECT_NEAR(jobs.back().arrival_s / 3600, 240, 5);
}

TEST(JobGeneratorTest, BurstsArriveAtOnce) {
  const std::vector<Job> jobs = generate_jobs({.jobs = 20000,
                                               .jobs_per_hour = 100,
                                               .arrivals = ArrivalPattern::kBursts,
                                               .burst_jobs = 8,
                                               .models = {},
                                               .like = {}})
                                    .value();
  double bursts = 1;
  for (std::size_t i = 1; i < jobs.size(); ++i) {
    if (jobs[i].arrival_s != jobs[i - 1].arrival_s) ++bursts;
  }
  EXPECT_NEAR(20000 / bursts, 8, 0.4);
  EXPECT_NEAR(jobs.back().arrival_s / 3600, 200, 20);
}

TEST(JobGeneratorTest, JobsAreLikeThoseOfAnotherTable) {
  const std::vector<Job> like =
      parse_jobs("job,arrival_s,gpus,duration_s,model\na,0,1,5,x\nb,0,8,77,y\n", "t").value();
  double large = 0;
  const auto jobs = generate_jobs({.jobs = 2000, .models = {}, .like = like}).value();
  for (const Job& job : jobs) {
    const Job& wanted = like[job.demand.gpus == 8 ? 1 : 0];
    EXPECT_EQ(job.demand, wanted.demand);
    EXPECT_EQ(job.work_s(), wanted.work_s());
    EXPECT_EQ(job.model, wanted.model);
    large += job.demand.gpus == 8 ? 1 : 0;
  }
  EXPECT_NEAR(large, 1000, 70);
}

TEST(JobGeneratorTest, NamesWhatIsOutOfRange) {
  EXPECT_EQ(generate_jobs({.jobs = 0, .models = {}, .like = {}}).error().message,
            "0 jobs; there may be 1 to 100000000");
  EXPECT_EQ(generate_jobs({.gpus = {{0, 1}}, .models = {}, .like = {}}).error().message,
            "a job has 1 to 16777216 GPUs");
  EXPECT_EQ(generate_jobs({.gpus = {{1, 0}}, .models = {}, .like = {}}).error().message,
            "weights are numbers above 0");
}

}  // namespace
}  // namespace gpemu::scheduling
