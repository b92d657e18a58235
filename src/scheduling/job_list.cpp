// SPDX-License-Identifier: Apache-2.0
#include "job_list.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <span>

namespace gpemu::scheduling {
namespace {

/// Whether a text has the form, in which 'd' stands for any digit.
bool has_form(std::string_view text, std::string_view form) {
  return std::ranges::equal(text, form, [](char is, char wanted) {
    return wanted == 'd' ? is >= '0' && is <= '9' : is == wanted;
  });
}

/// Returns the digits of a text as a number. Requires: they are digits.
int number_at(std::string_view text, std::size_t begin, std::size_t count) {
  int value = 0;
  std::from_chars(text.data() + begin, text.data() + begin + count, value);
  return value;
}

/// Returns the seconds of "+08:00"; nothing if the text is no such offset.
std::optional<double> offset_of(std::string_view text) {
  if (text.empty()) return 0;
  if (!has_form(text, "+dd:dd") && !has_form(text, "-dd:dd")) return std::nullopt;
  const double seconds = 60.0 * (60 * number_at(text, 1, 2) + number_at(text, 4, 2));
  return text.front() == '+' ? seconds : -seconds;
}

/// Returns an error if the job asks for nothing; the demand of one without GPUs becomes what it is.
Result<void> settle_demand(Demand& demand, const JobList::Fault& fault) {
  if (demand.gpus != 0 && demand.gpu_share == 0) {
    return fault("it asks for GPUs, but for nothing of them");
  }
  if (demand.gpus != 0) return {};
  demand.gpu_share = kWholeGpu;
  demand.kinds = Demand().kinds;
  if (demand.host != HostShare{}) return {};
  return fault("it asks for nothing: no GPUs, no cores and no memory");
}

/// Divides speeds by the greatest, and returns it: 1 if there are none. Sets `same` to false if
/// they differ.
double scale(std::span<double> speeds, bool& same) {
  if (speeds.empty()) return 1;
  const double most = std::ranges::max(speeds);
  for (double& speed : speeds) {
    speed = most > 0 ? speed / most : 0;
    same = same && speed == 1;
  }
  return most;
}

/// The same for speeds with cores and memory, also if these are needed.
double scale_hosts(std::span<std::vector<SpeedProfile::WithHost>> kinds, bool& same) {
  std::vector<double> speeds;
  for (const auto& hosts : kinds) {
    for (const SpeedProfile::WithHost& host : hosts) {
      speeds.push_back(host.speed);
      same = same && host.per_gpu == HostShare{};
    }
  }
  const double most = scale(speeds, same);
  auto next = speeds.begin();
  for (auto& hosts : kinds) {
    for (SpeedProfile::WithHost& host : hosts) host.speed = *next++;
  }
  return most;
}

}  // namespace

std::optional<double> parse_date(std::string_view text) {
  constexpr std::string_view kForm = "dddd-dd-dd dd:dd:dd";
  if (text.size() < kForm.size() || !has_form(text.substr(0, kForm.size()), kForm)) {
    return std::nullopt;
  }
  const std::optional<double> offset = offset_of(text.substr(kForm.size()));
  const std::chrono::year_month_day day{
      std::chrono::year(number_at(text, 0, 4)),
      std::chrono::month(static_cast<unsigned>(number_at(text, 5, 2))),
      std::chrono::day(static_cast<unsigned>(number_at(text, 8, 2)))};
  const int hour = number_at(text, 11, 2);
  const int minute = number_at(text, 14, 2);
  const int second = number_at(text, 17, 2);
  if (!offset || !day.ok() || hour >= 24 || minute >= 60 || second >= 60) return std::nullopt;
  const auto days = std::chrono::sys_days(day).time_since_epoch().count();
  return static_cast<double>(((days * 24 + hour) * 60 + minute) * 60 + second) - *offset;
}

std::uint32_t JobList::user(const std::string& name) {
  return users_.try_emplace(name, static_cast<std::uint32_t>(users_.size())).first->second;
}

const JobList::Relative& JobList::relative(const std::shared_ptr<const SpeedProfile>& profile) {
  const auto [found, is_new] = relative_.try_emplace(profile);
  if (!is_new) return found->second;
  Relative& made = found->second;
  SpeedProfile scaled = *profile;
  bool same = scaled.by_kind_and_host.empty();
  made.speed = scale(scaled.by_kind, same);
  made.speed *= scale_hosts({&scaled.by_host, 1}, same);
  if (!scaled.by_kind_and_host.empty()) made.speed = scale_hosts(scaled.by_kind_and_host, same);
  if (!same) made.profile = std::make_shared<const SpeedProfile>(std::move(scaled));
  return made;
}

Result<void> JobList::add_speed(Job& job, const Fault& fault) {
  const bool is_timed = job.iteration_s > 0;
  if (options_->speeds == nullptr) {
    if (is_timed || options_->timeless) return {};
    return fault(fmt::format(
        "this format says what a job does, and not for how long; give a table of speeds with model "
        "\"{}\", in {} per second",
        job.model, job.iterations == 1 ? "trainings" : "steps"));
  }
  auto found = options_->speeds->find({job.model, job.demand.gpus});
  if (found == options_->speeds->end()) found = options_->speeds->find({job.model, kAnyGpus});
  if (found == options_->speeds->end()) {
    return fault(
        fmt::format("the speeds have no model \"{}\" with {} GPUs", job.model, job.demand.gpus));
  }
  job.speed = found->second;
  if (!is_timed) {
    const Relative& fastest = relative(job.speed);
    if (fastest.speed <= 0) return fault(fmt::format("model \"{}\" can run nowhere", job.model));
    job.iteration_s = options_->iteration_factor / fastest.speed;
    job.evidence = job.speed->evidence.empty() ? "stated speeds" : job.speed->evidence;
    job.speed = fastest.profile;
  }
  if (!job.speed) return {};
  const std::size_t kinds = std::max(job.speed->by_kind.size(), job.speed->by_kind_and_host.size());
  for (std::size_t kind = 0; kind < kinds; ++kind) {
    if (!job.speed->runs_on(kind)) job.demand.kinds &= ~(std::uint64_t{1} << kind);
  }
  return {};
}

Result<void> JobList::add(Job job, const Fault& fault) {
  if (job.id.empty()) job.id = std::to_string(jobs_.size());
  GPEMU_TRY(settle_demand(job.demand, fault));
  GPEMU_TRY(add_speed(job, fault));
  if (options_->restarts != nullptr) {
    const auto found = options_->restarts->find({job.model, job.demand.gpus});
    if (found == options_->restarts->end()) {
      return fault(fmt::format("the restart times have no model \"{}\" with {} GPUs", job.model,
                               job.demand.gpus));
    }
    job.restart_s = found->second;
  }
  jobs_.push_back(std::move(job));
  return {};
}

Result<std::vector<Job>> JobList::finish(bool from_first, const Fault& fault) {
  if (options_->left_out != nullptr) *options_->left_out = left_out_;
  if (jobs_.empty()) {
    return fault(left_out_ == 0 ? "no jobs follow" : "none of the jobs that follow ran on GPUs");
  }
  std::ranges::stable_sort(jobs_, {}, &Job::arrival_s);
  const double first_s = from_first ? jobs_.front().arrival_s : 0;
  std::map<std::uint32_t, std::uint32_t> numbers;
  for (Job& job : jobs_) {
    job.arrival_s -= first_s;
    job.user =
        numbers.try_emplace(job.user, static_cast<std::uint32_t>(numbers.size())).first->second;
  }
  return std::move(jobs_);
}

}  // namespace gpemu::scheduling
