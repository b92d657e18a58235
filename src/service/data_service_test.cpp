// SPDX-License-Identifier: Apache-2.0
// The processes of the service, as threads of one, over calls within the process. Over gRPC:
// tests/integration/service_test.py.
#include <algorithm>
#include <array>
#include <filesystem>
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

namespace gpemu::service {
namespace {

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
                         Duration) override {
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

  Result<std::unique_ptr<RpcServer>> serve(const std::string&, int, RpcHandler handler) override {
    const Lock lock(mutex_);
    handlers_[++last_] = std::make_shared<RpcHandler>(std::move(handler));
    return std::make_unique<Server>(*this, last_);
  }
  std::unique_ptr<RpcChannel> connect(const std::string& address) override {
    return std::make_unique<Channel>(*this, address);
  }

 private:
  Mutex mutex_;
  std::map<int, std::shared_ptr<RpcHandler>> handlers_ GPEMU_GUARDED_BY(mutex_);
  int last_ GPEMU_GUARDED_BY(mutex_) = 0;
};

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
  const auto client = DataClient::open(rpc_, options(), clock_).value();
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
  const auto client = DataClient::open(rpc_, options(), clock_).value();
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
    const auto first = DataClient::open(rpc_, options("both"), clock_).value();
    const auto second = DataClient::open(rpc_, options("both"), clock_).value();
    const std::jthread other([&] { received[1] = receive(*second)[0]; });
    received[0] = receive(*first)[0];
  }
  std::multiset<std::uint32_t> all = received[0];
  all.insert(received[1].begin(), received[1].end());
  EXPECT_EQ(all.size(), kServedImages);
  EXPECT_EQ(std::set(all.begin(), all.end()).size(), kServedImages);
}

TEST_F(DataServiceTest, AnswersWhatItDoesNotUnderstandWithAnError) {
  const auto channel = rpc_.connect(address_);
  for (const char* method :
       {"/gpemu.DataService/Join", "/gpemu.DataService/Beat", "/gpemu.DataService/Work",
        "/gpemu.DataService/Open", "/gpemu.DataService/Follow", "/gpemu.DataService/Next", ""}) {
    const auto reply = channel->call(method, {}, std::chrono::seconds(1));
    ASSERT_FALSE(reply) << method;
    EXPECT_EQ(reply.error().code, ErrorCode::kCorruptData);
  }
}

}  // namespace
}  // namespace gpemu::service
