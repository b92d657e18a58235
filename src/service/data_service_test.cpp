// SPDX-License-Identifier: Apache-2.0
// The processes of the service, as threads of one, over calls within the process. Over gRPC:
// tests/integration/service_test.py.
#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <thread>
#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gpemu/base/mutex.hpp"
#include "gpemu/data/make_dataset.hpp"
#include "gpemu/service/data_client.hpp"
#include "gpemu/service/data_dispatcher.hpp"
#include "gpemu/service/data_worker.hpp"

#include "messages.hpp"
#include "received_batch.hpp"

namespace gpemu::service {
namespace {

using namespace std::chrono_literals;

/// Calls of functions in this process.
class LocalRpc final : public Rpc {
 public:
  class Server final : public RpcServer {
   public:
    Server(LocalRpc& rpc, int port) : rpc_(rpc), port_(port) {}
    ~Server() override {
      const Lock lock(rpc_.mutex_);
      rpc_.handlers_.erase(port_);
    }
    [[nodiscard]] int port() const override { return port_; }

   private:
    LocalRpc& rpc_;
    int port_;
  };
  class Channel final : public RpcChannel {
   public:
    Channel(LocalRpc& rpc, const std::string& address)
        : rpc_(rpc), port_(std::stoi(address.substr(address.find(':') + 1))) {}
    Result<Message> call(std::string_view method, std::span<const std::byte> request,
                         const sim::Wait&) override {
      std::shared_ptr<RpcHandler> handler;
      {
        const Lock lock(rpc_.mutex_);
        const auto found = rpc_.handlers_.find(port_);
        if (found == rpc_.handlers_.end()) return fail(ErrorCode::kUnavailable, "nobody there");
        handler = found->second;
      }
      return (*handler)(method, request);
    }

   private:
    LocalRpc& rpc_;
    int port_;
  };

  Result<std::unique_ptr<RpcServer>> serve(const Serving&, RpcHandler handler) override {
    const Lock lock(mutex_);
    handlers_[++last_] = std::make_shared<RpcHandler>(std::move(handler));
    return std::make_unique<Server>(*this, last_);
  }
  std::unique_ptr<RpcChannel> connect(const std::string& address, Bytes) override {
    return std::make_unique<Channel>(*this, address);
  }

 private:
  Mutex mutex_;
  std::map<int, std::shared_ptr<RpcHandler>> handlers_ GPEMU_GUARDED_BY(mutex_);
  int last_ GPEMU_GUARDED_BY(mutex_) = 0;
};

/// Answers all calls as a test says. What it returns as kNotReady is silence.
class HostileRpc final : public Rpc {
 public:
  using Answer = std::function<Result<Message>(std::string_view method)>;
  explicit HostileRpc(Answer answer) : answer_(std::move(answer)) {}

  class Channel final : public RpcChannel {
   public:
    explicit Channel(const Answer& answer) : answer_(answer) {}
    Result<Message> call(std::string_view method, std::span<const std::byte>,
                         const sim::Wait& wait) override {
      auto reply = answer_(method);
      if (reply || reply.error().code != ErrorCode::kNotReady) return reply;
      // The clock is virtual: it is the time of this call that passes.
      if (!wait.is_stopped()) wait.clock.wait_until(wait.until);
      return fail(ErrorCode::kUnavailable, "there:1 does not answer: Deadline Exceeded");
    }

   private:
    const Answer& answer_;
  };
  class Server final : public RpcServer {
    [[nodiscard]] int port() const override { return 1; }
  };

  Result<std::unique_ptr<RpcServer>> serve(const Serving&, RpcHandler) override {
    return std::make_unique<Server>();
  }
  std::unique_ptr<RpcChannel> connect(const std::string&, Bytes) override {
    return std::make_unique<Channel>(answer_);
  }

 private:
  Answer answer_;
};

const JobSettings kHostileJob = {.batch = 2, .epochs = 1, .crop = 1};

/// A client among others who say what none says.
class HostileServiceTest : public testing::Test {
 protected:
  static std::unexpected<Error> silence() { return fail(ErrorCode::kNotReady, "silence"); }
  static Message opened() {
    Packer packer;
    packer.add(std::uint64_t{1}).add(std::uint64_t{2});
    pack(packer, ServedData{.place = "photos", .images = 4, .bytes = 100});
    return packer.take();
  }
  static Message progress(std::uint32_t workers, std::uint32_t named) {
    Packer packer;
    packer.add(std::uint8_t{0}).add(workers);
    for (std::uint64_t i = 0; i < named; ++i) packer.add(i).add_text("there:1");
    return packer.take();
  }
  static Message nothing_now() {
    Message message;
    add_header(message, {.answer = NextAnswer::kNone});
    return message;
  }
  /// Returns the error of the first batch.
  Error error_among(HostileRpc::Answer answer) {
    HostileRpc rpc(std::move(answer));
    const DataClient::Options options{
        .dispatcher = "there:1", .job = "", .settings = kHostileJob, .patience = 10s};
    const auto client = DataClient::open(rpc, options, clock_, stop_);
    if (!client) return client.error();
    const auto batch = (*client)->next(stop_);
    EXPECT_FALSE(batch);
    return batch ? Error{} : batch.error();
  }

  sim::VirtualClock clock_;
  std::atomic<bool> stop_ = false;
};

TEST_F(HostileServiceTest, ASilentDispatcherHasThePatience) {
  const TimePoint begin = clock_.now();
  const Error error = error_among([](std::string_view) { return silence(); });
  EXPECT_EQ(error.code, ErrorCode::kUnavailable);
  EXPECT_EQ(clock_.now() - begin, 10s);
}

TEST_F(HostileServiceTest, ADispatcherThatFallsSilentHasThePatience) {
  const Error error = error_among([](std::string_view method) -> Result<Message> {
    if (method == kOpen) return opened();
    return silence();
  });
  EXPECT_EQ(error.code, ErrorCode::kUnavailable);
  EXPECT_NE(error.message.find("does not answer"), std::string::npos) << error.message;
}

TEST_F(HostileServiceTest, ADispatcherMayNotNameWorkersWithoutEnd) {
  for (const auto& [workers, named] : {std::pair(257U, 257U), std::pair(100'000U, 3U)}) {
    const Error error = error_among([&](std::string_view method) -> Result<Message> {
      return method == kOpen ? opened() : progress(workers, named);
    });
    EXPECT_EQ(error.code, ErrorCode::kCorruptData);
    EXPECT_NE(error.message.find(fmt::format("names {} workers, more than 256", workers)),
              std::string::npos)
        << error.message;
  }
}

TEST_F(HostileServiceTest, WorkersThatSendNoBatchHaveThePatience) {
  const auto answers = [this](Message next) {
    return [this, next = std::move(next)](std::string_view method) -> Result<Message> {
      if (method == kOpen) return opened();
      if (method == kFollow) return progress(1, 1);
      clock_.wait_until(clock_.now() + 1s);
      return next;
    };
  };
  Message beyond;  // A sample that is not in the data set.
  beyond.resize(2 * 3 * sizeof(float));
  add_header(beyond, {.answer = NextAnswer::kBatch, .split = {.samples = {0, 4}}});
  Message short_of;  // Fewer pixels than its samples have.
  short_of.resize(3 * sizeof(float));
  add_header(short_of, {.answer = NextAnswer::kBatch, .split = {.samples = {0, 1}}});
  for (const Message& next : {nothing_now(), beyond, short_of, Message(3)}) {
    const std::jthread moves([this](const std::stop_token& token) {
      while (!token.stop_requested()) clock_.wait_until(clock_.now() + 1ms);
    });
    const Error error = error_among(answers(next));
    EXPECT_EQ(error.code, ErrorCode::kUnavailable);
    EXPECT_NE(error.message.find("has sent a batch for 10 s (--patience)"), std::string::npos)
        << error.message;
  }
}

TEST_F(HostileServiceTest, AWorkerEndsIfItsDispatcherSaysWhatNoneSays) {
  const auto error_of = [this](HostileRpc::Answer answer) {
    HostileRpc rpc(std::move(answer));
    const auto totals = DataWorker::run(
        rpc, {.dispatcher = "there:1", .listen = "here:0", .patience = 10s},
        [](const std::string&) -> Result<std::unique_ptr<data::Dataset>> {
          return fail(ErrorCode::kNotFound, "no data here");
        },
        nullptr, clock_, stop_, [](const std::string&) {});
    EXPECT_FALSE(totals);
    return totals ? Error{} : totals.error();
  };
  const TimePoint begin = clock_.now();
  EXPECT_EQ(error_of([](std::string_view) { return silence(); }).code, ErrorCode::kUnavailable);
  EXPECT_EQ(clock_.now() - begin, 10s);
  EXPECT_EQ(error_of([](std::string_view) { return Message(5); }).code, ErrorCode::kCorruptData);
}

constexpr int kServedImages = 24;

class DataServiceTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(data::make_dataset(
        root_, {.images = kServedImages, .classes = 2, .sizes = {{50, 2}, {90, 3}}}));
    dataset_ = std::make_unique<data::Dataset>(data::Dataset::open(root_).value());
    dispatcher_ = DataDispatcher::start(rpc_, "", *dataset_, root_.string(), clock_).value();
    address_ = fmt::format("here:{}", dispatcher_->port());
  }
  void TearDown() override {
    stop_ = true;
    workers_.clear();
    std::filesystem::remove_all(root_);
  }

  void start_worker() {
    workers_.emplace_back([this] {
      const auto totals = DataWorker::run(
          rpc_, {.dispatcher = address_, .listen = "here:0", .threads = 1},
          [](const std::string& place) -> Result<std::unique_ptr<data::Dataset>> {
            return std::make_unique<data::Dataset>(data::Dataset::open(place).value());
          },
          nullptr, clock_, stop_, [](const std::string&) {});
      EXPECT_TRUE(totals) << totals.error().message;
    });
  }
  DataClient::Options options(const std::string& job = "") {
    return {.dispatcher = address_,
            .job = job,
            .settings = {.batch = 5, .epochs = 2, .crop = 8, .seed = 3}};
  }
  /// Returns the samples of each epoch, in order.
  std::map<std::uint64_t, std::multiset<std::uint32_t>> receive(DataClient& client) {
    std::map<std::uint64_t, std::multiset<std::uint32_t>> samples;
    while (const auto batch = client.next(stop_).value()) {
      EXPECT_EQ(batch->pixels.size(), batch->samples.size() * 3 * 8 * 8 * sizeof(float));
      samples[batch->epoch].insert(batch->samples.begin(), batch->samples.end());
    }
    return samples;
  }

  std::filesystem::path root_ =
      std::filesystem::path(testing::TempDir()) / fmt::format("gpemu_data_service_{}", ::getpid());
  sim::RealClock clock_;
  LocalRpc rpc_;
  std::atomic<bool> stop_ = false;
  std::unique_ptr<data::Dataset> dataset_;
  std::unique_ptr<DataDispatcher> dispatcher_;
  std::string address_;
  std::vector<std::jthread> workers_;
};

TEST_F(DataServiceTest, SendsEachSampleOfAnEpochOnce) {
  start_worker();
  start_worker();
  const auto client = DataClient::open(rpc_, options(), clock_, stop_).value();
  EXPECT_EQ(client->images(), kServedImages);
  const auto samples = receive(*client);
  ASSERT_EQ(samples.size(), 2);
  for (const auto& [epoch, received] : samples) {
    EXPECT_EQ(received.size(), kServedImages);
    EXPECT_EQ(std::set(received.begin(), received.end()).size(), kServedImages);
  }
}

TEST_F(DataServiceTest, PreparesSamplesAsTheLoaderDoes) {
  start_worker();
  data::Loader loader =
      data::Loader::create(*dataset_, {.batch = 5, .seed = 3, .crop = 8, .drop_last = false},
                           data::pageable_allocator(), clock_)
          .value();
  loader.start_epoch(0);
  std::map<std::uint32_t, std::vector<float>> expected;
  while (const auto batch = loader.next().value()) {
    for (std::size_t i = 0; i < batch->samples().size(); ++i) {
      const auto image = batch->images().subspan(i * 192, 192);
      expected[batch->samples()[i]] = {image.begin(), image.end()};
    }
  }
  const auto client = DataClient::open(rpc_, options(), clock_, stop_).value();
  while (const auto batch = client->next(stop_).value()) {
    if (batch->epoch > 0) continue;
    const auto* pixels = reinterpret_cast<const float*>(batch->pixels.data());
    for (std::size_t i = 0; i < batch->samples.size(); ++i) {
      EXPECT_TRUE(std::equal(pixels + i * 192, pixels + (i + 1) * 192,
                             expected[batch->samples[i]].begin()));
    }
  }
}

TEST_F(DataServiceTest, ClientsShareAJob) {
  start_worker();
  std::array<std::multiset<std::uint32_t>, 2> received;
  {
    const auto first = DataClient::open(rpc_, options("both"), clock_, stop_).value();
    const auto second = DataClient::open(rpc_, options("both"), clock_, stop_).value();
    const std::jthread other([&] { received[1] = receive(*second)[0]; });
    received[0] = receive(*first)[0];
  }
  std::multiset<std::uint32_t> all = received[0];
  all.insert(received[1].begin(), received[1].end());
  EXPECT_EQ(all.size(), kServedImages);
  EXPECT_EQ(std::set(all.begin(), all.end()).size(), kServedImages);
}

/// A dispatcher that knows this data set, and names a job or a split that cannot be.
TEST_F(DataServiceTest, AWorkerRefusesJobsAndSplitsThatCannotBe) {
  const auto error_of = [this](const JobSettings& settings, std::vector<std::uint32_t> samples) {
    HostileRpc rpc([&](std::string_view method) -> Result<Message> {
      Packer packer;
      if (method == kJoin) {
        packer.add(std::uint64_t{1});
        pack(packer, ServedData{.place = root_.string(),
                                .images = kServedImages,
                                .bytes = dataset_->total_bytes()});
      } else if (method == kBeat) {
        packer.add(std::uint32_t{1}).add(std::uint64_t{1});
        pack(packer, settings);
      } else {
        packer.add(Dispatcher::Answer::kSplit);
        pack(packer, Split{.samples = samples});
      }
      return packer.take();
    });
    const auto totals = DataWorker::run(
        rpc, {.dispatcher = "there:1", .listen = "here:0", .patience = 1h},
        [](const std::string& place) -> Result<std::unique_ptr<data::Dataset>> {
          return std::make_unique<data::Dataset>(data::Dataset::open(place).value());
        },
        nullptr, clock_, stop_, [](const std::string&) {});
    return totals ? ErrorCode::kInternal : totals.error().code;
  };
  EXPECT_EQ(error_of({.batch = 1 << 20, .crop = 4096}, {}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(error_of({.batch = 2, .crop = 8}, {0, kServedImages}), ErrorCode::kCorruptData);
  EXPECT_EQ(error_of({.batch = 2, .crop = 8}, {0, 1, 2}), ErrorCode::kCorruptData);
}

TEST_F(DataServiceTest, AnswersWhatItDoesNotUnderstandWithAnError) {
  const auto channel = rpc_.connect(address_, kMiB);
  for (const char* method :
       {"/gpemu.DataService/Join", "/gpemu.DataService/Beat", "/gpemu.DataService/Work",
        "/gpemu.DataService/Open", "/gpemu.DataService/Follow", "/gpemu.DataService/Next", ""}) {
    const auto reply =
        channel->call(method, {}, {.clock = clock_, .until = clock_.now() + 1s, .stop = stop_});
    ASSERT_FALSE(reply) << method;
    EXPECT_EQ(reply.error().code, ErrorCode::kCorruptData);
  }
}

}  // namespace
}  // namespace gpemu::service
