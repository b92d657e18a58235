// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"

namespace gpemu::service {

/// What is refused, so that nobody can take the memory or the time of another: jobs, and their
/// workers and clients; the bytes of a name or an address.
inline constexpr std::size_t kMostJobs = 64;
inline constexpr std::size_t kMostWorkers = 256;
inline constexpr std::size_t kMostClients = 256;
inline constexpr std::size_t kMostName = 256;
/// The pixels of a batch. Source: gRPC's messages have less than 2 GiB.
inline constexpr Bytes kMostBatchBytes = kGiB;

/// What a client wants prepared.
struct JobSettings {
  std::int32_t batch = 1;  ///< samples of a split, which becomes one batch.
  std::int32_t epochs = 1;
  std::int32_t crop = 224;  ///< height and width of a sample.
  std::uint64_t seed = 0;

  bool operator==(const JobSettings&) const = default;
  /// Returns the bytes of a batch's pixels.
  [[nodiscard]] Bytes batch_bytes() const;
};

/// Errors: kInvalidArgument for settings that cannot be.
[[nodiscard]] Result<void> check(const JobSettings& settings);

/// A part of an epoch that one worker prepares: a batch.
struct Split {
  std::uint64_t number = 0;  ///< within the job.
  std::uint64_t epoch = 0;
  std::vector<std::uint32_t> samples;
};

/// Divides the work of jobs among workers, as the dispatcher of tf.data service does with dynamic
/// sharding: a worker asks for the next split whenever it can take one. Clients say which splits
/// they have received. What a worker held when it died goes to others, so each split is received:
/// once by a client that ignores those that it has had.
///
/// Jobs are named; clients that name the same job share it. If one of them disappears, what was on
/// its way is prepared again, so samples may then be received twice. An epoch begins when the one
/// before has been received.
///
/// Source: Audibert et al., "tf.data service", SoCC 2023. There, splits of a dead worker are lost.
/// Times are passed in; thread safety: none.
class Dispatcher {
 public:
  /// A worker that says nothing for so long is dead: some of its beats. So is a client.
  static constexpr Duration kWorkerPatience = std::chrono::seconds(3);
  static constexpr Duration kClientPatience = std::chrono::seconds(10);

  /// Returns the samples of an epoch in their order.
  using Order = std::function<std::vector<std::uint32_t>(std::uint64_t seed, std::uint64_t epoch)>;

  explicit Dispatcher(Order order) : order_(std::move(order)) {}

  struct OpenJob {
    std::uint64_t job = 0;
    JobSettings settings;
  };
  enum class Answer : std::uint8_t {
    kSplit,  ///< prepare this.
    kWait,   ///< there is none now.
    kEnded,  ///< the job needs no more.
  };
  struct Work {
    Answer answer = Answer::kWait;
    Split split;
  };
  struct Worker {
    std::uint64_t id = 0;
    std::string address;
  };
  struct Progress {
    bool ended = false;  ///< all epochs have been received.
    std::vector<Worker> workers;
  };
  struct Opened {
    std::uint64_t job = 0;
    std::uint64_t client = 0;
  };
  /// What a client has received, and whom it could not reach.
  struct Report {
    std::vector<std::uint64_t> received;
    std::vector<std::uint64_t> dead_workers;
  };

  /// A worker begins. Returns its number. Errors: kResourceLimit; kInvalidArgument for an address
  /// that is none.
  [[nodiscard]] Result<std::uint64_t> join(const std::string& address, TimePoint now);
  /// A worker lives; returns the jobs. Errors: kNotFound if it counts as dead: it may join again.
  [[nodiscard]] Result<std::vector<OpenJob>> beat(std::uint64_t worker, TimePoint now);
  /// A worker asks for a split. Errors: as beat().
  [[nodiscard]] Result<Work> work(std::uint64_t worker, std::uint64_t job, TimePoint now);

  /// Errors: kInvalidArgument if clients share a job with other settings, or for settings that
  /// cannot be; kResourceLimit.
  [[nodiscard]] Result<Opened> open(const std::string& name, const JobSettings& settings,
                                    TimePoint now);
  /// A client lives, and reports. Errors: kNotFound if it counts as dead.
  [[nodiscard]] Result<Progress> follow(std::uint64_t job, std::uint64_t client,
                                        const Report& report, TimePoint now);

 private:
  struct Member {
    std::string address;
    TimePoint heard;
  };
  struct Given {
    Split split;
    std::uint64_t worker = 0;
  };
  struct Job {
    std::string name;
    JobSettings settings;
    std::map<std::uint64_t, TimePoint> clients;
    std::uint64_t epoch = 0;
    std::vector<std::uint32_t> order;
    std::size_t next = 0;  ///< of the order.
    std::uint64_t splits = 0;
    std::deque<Split> again;               ///< splits whose worker has died.
    std::map<std::uint64_t, Given> given;  ///< by number: not received yet.
    bool ended = false;
  };

  void expire(TimePoint now);
  void bury(std::uint64_t worker);
  void receive(Job& job, std::uint64_t split);
  void end_epoch(Job& job);

  Order order_;
  std::uint64_t last_id_ = 0;
  std::map<std::uint64_t, Member> workers_;
  std::map<std::uint64_t, Job> jobs_;
};

}  // namespace gpemu::service
