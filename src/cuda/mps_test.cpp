// SPDX-License-Identifier: Apache-2.0
//
// Each test runs in a process of its own, which attaches to a node and meets an MPS server, whose
// part a thread of the process plays.
#include "gpemu/process/mps.hpp"

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gpemu/mps/pipe.hpp"
#include "gpemu/process/process.hpp"

namespace gpemu::cuda {
namespace {

class MpsTest : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  /// Makes this process use a node that is made now, and look for a daemon in its folder.
  void use_node(device::SharingPolicy policy, const std::string& faults = "") {
    folder_ = std::filesystem::path(testing::TempDir()) / fmt::format("gpemu_mps_{}", ::getpid());
    const device::DeviceConfig device{.gpu = "V100-PCIE-32GB", .memory_bytes = 4 * kGiB};
    node_ = device::Node::create({.name = "n",
                                  .devices = {device, device},
                                  .policy = policy,
                                  .slices = {},
                                  .topology = {},
                                  .faults = faults},
                                 folder_)
                .value();
    for (const char* name :
         {"GPEMU_GPU", "CUDA_VISIBLE_DEVICES", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
          "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "CUDA_MPS_CLIENT_PRIORITY", "GPEMU_DEVICES",
          "GPEMU_GPU_PRIORITY"}) {
      ::unsetenv(name);
    }
    ::setenv("GPEMU_PROFILES", GPEMU_TEST_PROFILES, 1);
    ::setenv("GPEMU_NODE_DIR", folder_.c_str(), 1);
    ::setenv("GPEMU_NODE", "n", 1);
    ::setenv("CUDA_MPS_PIPE_DIRECTORY", folder_.c_str(), 1);
  }

  /// Plays a daemon and its server: `answers` are what it says to messages, in order.
  void play(std::vector<mps::Message> answers) {
    FileDescriptor listener = mps::listen_on(mps::control_socket(folder_)).value();
    server_ = std::thread([this, answers = std::move(answers), listener = std::move(listener)] {
      std::optional<mps::Channel> client;
      for (const mps::Message& answer : answers) {
        if (!client) client = mps::accept_on(listener).value();
        const auto received = client->receive();
        if (!received) break;
        asked_.push_back(received->message);
        static_cast<void>(client->send(answer));
        if (answer.kind == "refused" && received->message.kind == "hello") client.reset();
      }
      // Then it waits for the next message, and ends.
      if (client) {
        const auto received = client->receive();
        if (received) asked_.push_back(received->message);
      }
    });
  }

  void end() {
    if (server_.joinable()) server_.join();
    std::filesystem::remove_all(folder_);
    ::_exit(HasFailure() ? 1 : 0);
  }
  /// As end(), for a server that still waits for messages.
  void end_at_once() {
    std::filesystem::remove_all(folder_);
    ::_exit(HasFailure() ? 1 : 0);
  }

  static mps::Message message(std::string kind, std::map<std::string, std::string> values = {}) {
    return {.kind = std::move(kind), .values = std::move(values), .text = {}};
  }
  static std::int32_t multiprocessors(int device) {
    const gpemu_cuda_device* info = nullptr;
    EXPECT_EQ(gpemu_cuda_get_device(device, &info), GPEMU_CUDA_SUCCESS);
    return info == nullptr ? 0 : info->multiprocessors;
  }
  /// Calls until the calls fail, for a while, and returns the status.
  static process::Status failure() {
    for (int i = 0; i < 100'000'000; ++i) {
      const process::Status status = gpemu_cuda_device_synchronize();
      if (status != GPEMU_CUDA_SUCCESS) return status;
      std::this_thread::yield();
    }
    return GPEMU_CUDA_SUCCESS;
  }

  std::filesystem::path folder_;
  std::shared_ptr<device::Node> node_;
  std::thread server_;
  std::vector<mps::Message> asked_;
};

TEST_F(MpsTest, WithoutADaemonAProcessIsNoClient) {
  const auto program = [&] {
    use_node(device::SharingPolicy::kTimeSlices);
    ::setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "50", 1);
    EXPECT_EQ(multiprocessors(0), 80);
    EXPECT_EQ(process::process().mps, nullptr);
    end();
  };
  EXPECT_EXIT(program(), testing::ExitedWithCode(0), "");
}

TEST_F(MpsTest, OnANodeForItAllAreClients) {
  const auto program = [&] {
    use_node(device::SharingPolicy::kMps);
    ::setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "33", 1);
    ::setenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "1=1G", 1);
    EXPECT_EQ(multiprocessors(0), 26);
    std::uint64_t free = 0, total = 0;
    EXPECT_EQ(gpemu_cuda_mem_info(&free, &total), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(total, 4 * kGiB);
    EXPECT_EQ(gpemu_cuda_set_current_device(1), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(gpemu_cuda_mem_info(&free, &total), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(total, 4 * kGiB) << "the limit shows in what is free";
    EXPECT_LT(free, kGiB);
    std::uint64_t address = 0;
    EXPECT_EQ(gpemu_cuda_malloc(free + 512, &address), GPEMU_CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(gpemu_cuda_malloc(free, &address), GPEMU_CUDA_SUCCESS);
    EXPECT_TRUE(node_->device_snapshot(1, node_->clock().now()).processes[0].is_mps_client);
    end();
  };
  EXPECT_EXIT(program(), testing::ExitedWithCode(0), "");
}

TEST_F(MpsTest, AProcessTellsTheDaemonWhoItIsAndAsksForContexts) {
  const auto program = [&] {
    use_node(device::SharingPolicy::kTimeSlices);
    ::setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "80", 1);
    play({message("welcome", {{"server", "9"}, {"percentage", "50"}, {"memory", "0=1073741824"}}),
          message("granted"), message("refused", {{"status", "808"}})});
    EXPECT_EQ(multiprocessors(0), 40);
    EXPECT_EQ(gpemu_cuda_set_current_device(0), GPEMU_CUDA_SUCCESS);
    std::uint64_t free = 0, total = 0;
    EXPECT_EQ(gpemu_cuda_mem_info(&free, &total), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(total, 4 * kGiB);
    EXPECT_LT(free, kGiB);
    EXPECT_EQ(gpemu_cuda_set_current_device(1), GPEMU_CUDA_ERROR_MPS_MAX_CLIENTS_REACHED);
    process::process().mps->report(GPEMU_CUDA_ERROR_ILLEGAL_ADDRESS);
    server_.join();
    EXPECT_EQ(asked_.size(), 4U);
    EXPECT_EQ(asked_[0].number("pid"), ::getpid());
    EXPECT_EQ(asked_[0].value("percentage"), "80");
    EXPECT_EQ(asked_[0].value("machine"), mps::machine_key(folder_ / "n", ""));
    EXPECT_TRUE(asked_[1].value("uuid").starts_with("GPU-"));
    EXPECT_EQ(asked_[1].number("most_clients"), 60);
    EXPECT_EQ(asked_[1].number("number"), 0);
    EXPECT_FALSE(asked_[1].value("name").empty());
    EXPECT_EQ(asked_[3].kind, "fault");
    EXPECT_EQ(asked_[3].number("status"), 700);
    // The server has gone.
    EXPECT_EQ(failure(), GPEMU_CUDA_ERROR_MPS_RPC_FAILURE);
    end_at_once();
  };
  EXPECT_EXIT(program(), testing::ExitedWithCode(0), "server refuses");
}

TEST_F(MpsTest, AServerThatIsNotReadyIsAskedAgain) {
  const auto program = [&] {
    use_node(device::SharingPolicy::kTimeSlices);
    play({message("refused", {{"status", "807"}}), message("refused", {{"status", "807"}}),
          message("welcome", {{"server", "9"}, {"percentage", "100"}})});
    std::int32_t count = 0;
    EXPECT_EQ(gpemu_cuda_device_count(&count), GPEMU_CUDA_ERROR_MPS_SERVER_NOT_READY);
    EXPECT_EQ(gpemu_cuda_set_current_device(0), GPEMU_CUDA_ERROR_MPS_SERVER_NOT_READY);
    EXPECT_EQ(gpemu_cuda_device_count(&count), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(count, 2);
    end_at_once();
  };
  EXPECT_EXIT(program(), testing::ExitedWithCode(0), "not ready");
}

TEST_F(MpsTest, TheServerCanEndAClientThatWaits) {
  const auto program = [&] {
    use_node(device::SharingPolicy::kTimeSlices);
    play({message("welcome", {{"server", "9"}}), message("granted"),
          message("end", {{"status", "810"}})});
    EXPECT_EQ(gpemu_cuda_set_current_device(0), GPEMU_CUDA_SUCCESS);
    process::process().devices[0]->device->default_stream().launch(std::chrono::hours(1));
    process::process().mps->report(GPEMU_CUDA_ERROR_ILLEGAL_ADDRESS);  // The server answers "end".
    EXPECT_EQ(gpemu_cuda_device_synchronize(), GPEMU_CUDA_ERROR_MPS_CLIENT_TERMINATED);
    std::uint64_t address = 0;
    EXPECT_EQ(gpemu_cuda_malloc(1, &address), GPEMU_CUDA_ERROR_MPS_CLIENT_TERMINATED);
    end_at_once();
  };
  EXPECT_EXIT(program(), testing::ExitedWithCode(0), "terminated this client");
}

TEST_F(MpsTest, ADaemonOfAnotherNodeIsIgnored) {
  const auto program = [&] {
    use_node(device::SharingPolicy::kTimeSlices);
    play({message("elsewhere")});
    EXPECT_EQ(multiprocessors(0), 80);
    EXPECT_EQ(process::process().mps, nullptr);
    end();
  };
  EXPECT_EXIT(program(), testing::ExitedWithCode(0), "belongs to another node");
}

TEST_F(MpsTest, OtherPoliciesHaveNoClients) {
  const auto program = [&] {
    use_node(device::SharingPolicy::kFifo);
    play({message("welcome", {{"server", "9"}})});
    EXPECT_EQ(gpemu_cuda_set_current_device(0), GPEMU_CUDA_ERROR_NOT_SUPPORTED);
    end();
  };
  EXPECT_EXIT(program(), testing::ExitedWithCode(0),
              "MPS is not supported on the GPUs of node 'n'");
}

TEST_F(MpsTest, ValuesThatMeanNothingAreNamed) {
  const auto program = [&] {
    use_node(device::SharingPolicy::kMps);
    ::setenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "0=much", 1);
    EXPECT_EQ(gpemu_cuda_set_current_device(0), GPEMU_CUDA_ERROR_INVALID_VALUE);
    end();
  };
  EXPECT_EXIT(program(), testing::ExitedWithCode(0),
              "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT: \"much\" is no size");
}

TEST_F(MpsTest, TheHintOfALowClientPriorityHasNoEffect) {
  const auto program = [&] {
    use_node(device::SharingPolicy::kMps);
    ::setenv("CUDA_MPS_CLIENT_PRIORITY", "1", 1);
    EXPECT_EQ(gpemu_cuda_set_current_device(0), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(process::process().node->priority(), device::ProcessPriority::kNormal);
    end();
  };
  EXPECT_EXIT(program(), testing::ExitedWithCode(0), "");
}

TEST_F(MpsTest, AProcessHasAPriority) {
  const auto program = [&] {
    use_node(device::SharingPolicy::kTimeSlices);
    ::setenv("GPEMU_GPU_PRIORITY", "high", 1);
    EXPECT_EQ(gpemu_cuda_set_current_device(0), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(process::process().node->priority(), device::ProcessPriority::kHigh);
    end();
  };
  EXPECT_EXIT(program(), testing::ExitedWithCode(0), "");
}

TEST_F(MpsTest, AnIllegalAddressEndsTheContextOfAProcessByItself) {
  const auto program = [&] {
    use_node(device::SharingPolicy::kTimeSlices,
             "[[fault]]\nkind = \"illegal-address\"\ngpu = 0\nat_kernel = 2\n");
    std::uint64_t address = 0;
    EXPECT_EQ(gpemu_cuda_malloc(1024, &address), GPEMU_CUDA_SUCCESS);
    const auto fill = [&address] {
      return gpemu_cuda_set_memory(address, 1024, 0, 1, 1024, 1, nullptr);
    };
    EXPECT_EQ(fill(), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(gpemu_cuda_device_synchronize(), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(fill(), GPEMU_CUDA_SUCCESS) << "the launch itself succeeds";
    EXPECT_EQ(gpemu_cuda_device_synchronize(), GPEMU_CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT_EQ(fill(), GPEMU_CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT_EQ(gpemu_cuda_set_current_device(0), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(gpemu_cuda_context_reset(0), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(gpemu_cuda_malloc(1024, &address), GPEMU_CUDA_ERROR_DEVICE_UNAVAILABLE);
    EXPECT_EQ(gpemu_cuda_device_synchronize(), GPEMU_CUDA_ERROR_DEVICE_UNAVAILABLE);
    EXPECT_EQ(gpemu_cuda_set_current_device(1), GPEMU_CUDA_SUCCESS) << "the other GPU works";
    EXPECT_EQ(gpemu_cuda_device_synchronize(), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(node_->faults().xids(0, node_->clock().now()).at(0).number, 31);
    end();
  };
  EXPECT_EXIT(program(), testing::ExitedWithCode(0), "Xid .*: 31");
}

}  // namespace
}  // namespace gpemu::cuda
