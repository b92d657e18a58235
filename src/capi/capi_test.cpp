// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "gpemu/gpemu.h"
#include "gpemu/monitor.h"

namespace {

constexpr int64_t kMillisecond = 1'000'000;

/// A private node of two emulated V100s on a virtual clock, and the context on the first.
class CApi : public testing::Test {
 protected:
  void SetUp() override {
    const gpemu_node_config config{.struct_size = sizeof config,
                                   .name = nullptr,
                                   .gpu = "V100-PCIE-32GB",
                                   .device_count = 2,
                                   .clock = GPEMU_CLOCK_VIRTUAL};
    ASSERT_EQ(gpemu_node_create(&config, &node_), GPEMU_OK) << gpemu_last_error();
    ASSERT_EQ(gpemu_device_open(node_, 0, &device_), GPEMU_OK) << gpemu_last_error();
    ASSERT_EQ(gpemu_stream_create(device_, GPEMU_STREAM_BLOCKING, &stream_), GPEMU_OK);
  }
  void TearDown() override {
    gpemu_stream_destroy(stream_);
    gpemu_device_close(device_);
    gpemu_node_close(node_);
  }

  int64_t now() {
    int64_t ns = -1;
    EXPECT_EQ(gpemu_node_now(node_, &ns), GPEMU_OK);
    return ns;
  }

  gpemu_node* node_ = nullptr;
  gpemu_device* device_ = nullptr;
  gpemu_stream* stream_ = nullptr;
};

TEST_F(CApi, DescribesTheDevice) {
  gpemu_device_info info{.struct_size = sizeof info};
  ASSERT_EQ(gpemu_device_get_info(device_, &info), GPEMU_OK);
  EXPECT_STREQ(info.gpu, "V100-PCIE-32GB");
  EXPECT_EQ(info.memory_bytes, 32510ULL << 20);
  EXPECT_EQ(std::string(info.uuid).substr(0, 4), "GPU-");
  EXPECT_EQ(info.struct_size, sizeof info);
  int32_t count = 0;
  ASSERT_EQ(gpemu_node_device_count(node_, &count), GPEMU_OK);
  EXPECT_EQ(count, 2);
}

TEST_F(CApi, FillsNoMoreOfAnOlderStructureThanItHas) {
  gpemu_device_info info{.struct_size = offsetof(gpemu_device_info, uuid)};
  std::memset(info.uuid, 'x', sizeof info.uuid);
  ASSERT_EQ(gpemu_device_get_info(device_, &info), GPEMU_OK);
  EXPECT_STREQ(info.gpu, "V100-PCIE-32GB");
  EXPECT_EQ(info.uuid[0], 'x');
  info.struct_size = 0;
  EXPECT_EQ(gpemu_device_get_info(device_, &info), GPEMU_ERROR_INVALID_ARGUMENT);
}

TEST_F(CApi, RunsWorkOnTheTimeline) {
  gpemu_interval kernel{};
  gpemu_interval copy{};
  ASSERT_EQ(gpemu_stream_launch(stream_, 5 * kMillisecond, &kernel), GPEMU_OK);
  ASSERT_EQ(gpemu_stream_copy(stream_, GPEMU_COPY_DEVICE_TO_HOST, 4096, kMillisecond, &copy),
            GPEMU_OK);
  EXPECT_EQ(kernel.start_ns, 0);
  EXPECT_EQ(copy.start_ns, 5 * kMillisecond);
  EXPECT_EQ(gpemu_stream_query(stream_), GPEMU_ERROR_NOT_READY);
  EXPECT_EQ(now(), 0);
  ASSERT_EQ(gpemu_stream_synchronize(stream_), GPEMU_OK);
  EXPECT_EQ(now(), 6 * kMillisecond);
  EXPECT_EQ(gpemu_stream_query(stream_), GPEMU_OK);
  EXPECT_EQ(gpemu_stream_launch(stream_, -1, nullptr), GPEMU_ERROR_INVALID_ARGUMENT);
}

TEST_F(CApi, WorkThatEndsNeverIsNotDone) {
  gpemu_interval kernel{};
  ASSERT_EQ(gpemu_stream_launch(stream_, 1, nullptr), GPEMU_OK);
  ASSERT_EQ(gpemu_stream_launch(stream_, INT64_MAX, &kernel), GPEMU_OK);
  EXPECT_EQ(kernel.start_ns, 1);
  EXPECT_EQ(kernel.end_ns, INT64_MAX);
  EXPECT_EQ(gpemu_stream_query(stream_), GPEMU_ERROR_NOT_READY);
}

TEST_F(CApi, EventsTimeAndOrderWork) {
  gpemu_event* start = nullptr;
  gpemu_event* end = nullptr;
  ASSERT_EQ(gpemu_event_create(&start), GPEMU_OK);
  ASSERT_EQ(gpemu_event_create(&end), GPEMU_OK);
  int64_t elapsed = 0;
  EXPECT_EQ(gpemu_event_elapsed(start, end, &elapsed), GPEMU_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpemu_event_query(end), GPEMU_OK) << "never recorded: nothing to wait for";

  ASSERT_EQ(gpemu_event_record(start, stream_), GPEMU_OK);
  EXPECT_EQ(gpemu_event_elapsed(start, end, &elapsed), GPEMU_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(gpemu_last_error(), "the end event was never recorded");
  EXPECT_EQ(gpemu_event_elapsed(end, start, &elapsed), GPEMU_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(gpemu_last_error(), "the start event was never recorded");
  ASSERT_EQ(gpemu_stream_launch(stream_, 3 * kMillisecond, nullptr), GPEMU_OK);
  ASSERT_EQ(gpemu_event_record(end, stream_), GPEMU_OK);
  EXPECT_EQ(gpemu_event_elapsed(start, end, &elapsed), GPEMU_ERROR_NOT_READY);

  gpemu_stream* other = nullptr;
  ASSERT_EQ(gpemu_stream_create(device_, GPEMU_STREAM_NON_BLOCKING, &other), GPEMU_OK);
  ASSERT_EQ(gpemu_stream_wait_event(other, end), GPEMU_OK);
  gpemu_interval copy{};
  ASSERT_EQ(gpemu_stream_copy(other, GPEMU_COPY_HOST_TO_DEVICE, 1, kMillisecond, &copy), GPEMU_OK);
  EXPECT_EQ(copy.start_ns, 3 * kMillisecond);

  ASSERT_EQ(gpemu_event_synchronize(end), GPEMU_OK);
  EXPECT_EQ(now(), 3 * kMillisecond);
  ASSERT_EQ(gpemu_event_elapsed(start, end, &elapsed), GPEMU_OK);
  EXPECT_EQ(elapsed, 3 * kMillisecond);
  gpemu_stream_destroy(other);
  gpemu_event_destroy(start);
  gpemu_event_destroy(end);
}

TEST_F(CApi, RunsOutOfMemoryWhereTheDeviceDoes) {
  uint64_t address = 0;
  EXPECT_EQ(gpemu_device_allocate(device_, 33ULL << 30, &address), GPEMU_ERROR_OUT_OF_MEMORY);
  EXPECT_NE(std::string(gpemu_last_error()).find("V100"), std::string::npos);
  EXPECT_EQ(address, 0U) << "untouched on failure";
  ASSERT_EQ(gpemu_device_allocate(device_, 1ULL << 30, &address), GPEMU_OK);
  EXPECT_STREQ(gpemu_last_error(), "");
  uint64_t free_bytes = 0;
  uint64_t total_bytes = 0;
  ASSERT_EQ(gpemu_device_memory(device_, &free_bytes, &total_bytes), GPEMU_OK);
  EXPECT_EQ(total_bytes - free_bytes, 1ULL << 30);
  EXPECT_EQ(gpemu_device_free(device_, address), GPEMU_OK);
  EXPECT_EQ(gpemu_device_free(device_, address), GPEMU_ERROR_INVALID_ARGUMENT);
}

TEST_F(CApi, HandlesKeepAliveWhatTheyStandOn) {
  gpemu_stream* stream = nullptr;
  ASSERT_EQ(gpemu_stream_default(device_, &stream), GPEMU_OK);
  gpemu_device_close(device_);
  gpemu_node_close(node_);
  device_ = nullptr;
  node_ = nullptr;
  EXPECT_EQ(gpemu_stream_launch(stream, 1, nullptr), GPEMU_OK);
  EXPECT_EQ(gpemu_stream_synchronize(stream), GPEMU_OK);
  gpemu_stream_destroy(stream);
}

TEST_F(CApi, AForkedChildCannotUseTheDeviceOfItsParent) {
  gpemu_event* event = nullptr;
  ASSERT_EQ(gpemu_event_create(&event), GPEMU_OK);
  const pid_t child = ::fork();
  if (child == 0) {
    uint64_t bytes = 0;
    const gpemu_status answers[] = {
        gpemu_stream_launch(stream_, kMillisecond, nullptr),
        gpemu_stream_copy(stream_, GPEMU_COPY_HOST_TO_DEVICE, 1, kMillisecond, nullptr),
        gpemu_stream_query(stream_),
        gpemu_stream_synchronize(stream_),
        gpemu_stream_wait_event(stream_, event),
        gpemu_event_record(event, stream_),
        gpemu_device_synchronize(device_),
        gpemu_device_memory(device_, &bytes, &bytes)};
    const bool refused = std::ranges::all_of(
        answers, [](gpemu_status answer) { return answer == GPEMU_ERROR_UNAVAILABLE; });
    ::_exit(refused ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  gpemu_interval kernel{};
  ASSERT_EQ(gpemu_stream_launch(stream_, kMillisecond, &kernel), GPEMU_OK);
  EXPECT_EQ(kernel.start_ns, 0) << "the child's work is on the timeline";
  gpemu_event_destroy(event);
}

TEST_F(CApi, AnswersNullWithAnError) {
  uint64_t address = 0;
  EXPECT_EQ(gpemu_node_create(nullptr, &node_), GPEMU_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpemu_device_open(nullptr, 0, &device_), GPEMU_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpemu_device_allocate(nullptr, 1, &address), GPEMU_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpemu_device_allocate(device_, 1, nullptr), GPEMU_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpemu_stream_launch(nullptr, 1, nullptr), GPEMU_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpemu_event_record(nullptr, stream_), GPEMU_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(std::string(gpemu_last_error()).find("gpemu_event_record"), std::string::npos);
  gpemu_stream_destroy(nullptr);
  gpemu_event_destroy(nullptr);
  gpemu_cost_model_destroy(nullptr);
}

TEST(CApiNode, RefusesBadConfigurations) {
  gpemu_node* node = nullptr;
  gpemu_node_config config{.struct_size = sizeof config,
                           .name = nullptr,
                           .gpu = "no-such-gpu",
                           .device_count = 1,
                           .clock = GPEMU_CLOCK_REAL};
  EXPECT_EQ(gpemu_node_create(&config, &node), GPEMU_ERROR_NOT_FOUND);
  config.gpu = "T4";
  config.device_count = 0;
  EXPECT_EQ(gpemu_node_create(&config, &node), GPEMU_ERROR_INVALID_ARGUMENT);
  config.device_count = 1;
  config.name = "virtual";
  config.clock = GPEMU_CLOCK_VIRTUAL;
  EXPECT_EQ(gpemu_node_create(&config, &node), GPEMU_ERROR_INVALID_ARGUMENT);
  config.struct_size = 1;
  EXPECT_EQ(gpemu_node_create(&config, &node), GPEMU_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(node, nullptr);
}

TEST(CApiPinned, GivesBackByAddress) {
  void* memory = nullptr;
  ASSERT_EQ(gpemu_pinned_allocate(65536, &memory), GPEMU_OK) << gpemu_last_error();
  static_cast<char*>(memory)[65536 - 1] = 1;
  EXPECT_EQ(gpemu_pinned_free(static_cast<char*>(memory) + 1), GPEMU_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpemu_pinned_free(memory), GPEMU_OK);
  EXPECT_EQ(gpemu_pinned_free(memory), GPEMU_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpemu_pinned_free(nullptr), GPEMU_OK);
}

TEST(CApiPinned, LocksMemoryOfTheCaller) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizers' runtimes make mlock do nothing";
#endif
  const auto locked_kib = [] {
    std::ifstream status("/proc/self/status");
    std::string word;
    while (status >> word && word != "VmLck:") {
    }
    long kib = -1;
    status >> kib;
    return kib;
  };
  constexpr std::size_t kBytes = 65536;
  void* const memory =
      ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const long before = locked_kib();
  ASSERT_EQ(gpemu_pinned_lock(memory, kBytes), GPEMU_OK) << gpemu_last_error();
  EXPECT_EQ(locked_kib() - before, 64);
  ::munmap(memory, kBytes);
  EXPECT_EQ(locked_kib(), before);
  EXPECT_EQ(gpemu_pinned_lock(memory, 0), GPEMU_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpemu_pinned_lock(nullptr, kBytes), GPEMU_ERROR_INVALID_ARGUMENT);
}

TEST(CApiCost, AnswersFromTheProfiles) {
  gpemu_cost_model* model = nullptr;
  ASSERT_EQ(gpemu_cost_model_create("resnet50", "V100-PCIE-32GB", nullptr, &model), GPEMU_OK)
      << gpemu_last_error();
  gpemu_step_cost cost{.struct_size = sizeof cost};
  ASSERT_EQ(gpemu_cost_model_step(model, 64, &cost), GPEMU_OK);
  // GPEmu's table for ResNet-50 at batch 64 on a V100: 61.16 ms forward, 145.12 ms backward.
  const int64_t step_ns = cost.forward.time_ns + cost.backward_optimizer.time_ns;
  EXPECT_NEAR(static_cast<double>(step_ns), 206.28e6, 0.02 * 206.28e6);
  EXPECT_LE(cost.forward.evidence, GPEMU_EVIDENCE_INTERPOLATED);
  EXPECT_GT(cost.peak_bytes, cost.persistent_bytes);

  int32_t largest = 0;
  ASSERT_EQ(gpemu_cost_model_largest_batch(model, &largest), GPEMU_OK);
  EXPECT_EQ(gpemu_cost_model_step(model, largest, &cost), GPEMU_OK);
  EXPECT_EQ(gpemu_cost_model_step(model, largest + 1, &cost), GPEMU_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(gpemu_cost_model_step(model, 0, &cost), GPEMU_ERROR_INVALID_ARGUMENT);
  gpemu_cost_model_destroy(model);
}

TEST(CApiStatus, HasWordsForEachStatus) {
  EXPECT_STREQ(gpemu_status_name(GPEMU_OK), "success");
  EXPECT_STREQ(gpemu_status_name(GPEMU_ERROR_UNSUPPORTED), "not supported");
  EXPECT_STREQ(gpemu_version(), GPEMU_VERSION);
}

TEST_F(CApi, WaitsForATimeOnTheNodesClock) {
  ASSERT_EQ(gpemu_node_wait_until(node_, 7 * kMillisecond), GPEMU_OK);
  EXPECT_EQ(now(), 7 * kMillisecond);
  ASSERT_EQ(gpemu_node_wait_until(node_, kMillisecond), GPEMU_OK) << "passed: nothing to wait for";
  EXPECT_EQ(now(), 7 * kMillisecond);
  EXPECT_EQ(gpemu_node_wait_until(nullptr, 0), GPEMU_ERROR_INVALID_ARGUMENT);
}

TEST(CApiHost, WaitsNoShorterThanAsked) {
  int64_t start = 0;
  int64_t end = 0;
  ASSERT_EQ(gpemu_host_now(&start), GPEMU_OK);
  ASSERT_EQ(gpemu_host_wait_until(start + 1000), GPEMU_OK);
  ASSERT_EQ(gpemu_host_now(&end), GPEMU_OK);
  EXPECT_GE(end, start + 1000);
}

TEST(CApiDatabase, FindsGpusAndModels) {
  gpemu_database* database = nullptr;
  ASSERT_EQ(gpemu_database_open(nullptr, &database), GPEMU_OK) << gpemu_last_error();
  gpemu_gpu_info gpu{.struct_size = sizeof gpu};
  ASSERT_EQ(gpemu_database_find_gpu(database, "Tesla_V100-PCIE-32GB", &gpu), GPEMU_OK);
  EXPECT_STREQ(gpu.name, "V100-PCIE-32GB") << "an alias yields gpemu's own name";
  EXPECT_EQ(gpu.compute_capability_major, 7);
  EXPECT_EQ(gpemu_database_find_gpu(database, "V1000", &gpu), GPEMU_ERROR_NOT_FOUND);

  int32_t count = 0;
  ASSERT_EQ(gpemu_database_gpu_count(database, &count), GPEMU_OK);
  ASSERT_GT(count, 0);
  EXPECT_EQ(gpemu_database_gpu(database, count - 1, &gpu), GPEMU_OK);
  EXPECT_EQ(gpemu_database_gpu(database, count, &gpu), GPEMU_ERROR_NOT_FOUND);
  EXPECT_EQ(gpemu_database_gpu(database, -1, &gpu), GPEMU_ERROR_NOT_FOUND);

  gpemu_model_info model{.struct_size = sizeof model};
  ASSERT_EQ(gpemu_database_find_model(database, "resnet50", &model), GPEMU_OK);
  EXPECT_EQ(model.input_shape[0], 3);
  ASSERT_EQ(gpemu_database_model_count(database, &count), GPEMU_OK);
  EXPECT_EQ(gpemu_database_model(database, count, &model), GPEMU_ERROR_NOT_FOUND);
  EXPECT_STREQ(model.name, "resnet50") << "untouched on failure";
  gpemu_database_close(database);
}

TEST(CApiDatabase, CostModelsOutliveIt) {
  gpemu_database* database = nullptr;
  ASSERT_EQ(gpemu_database_open(nullptr, &database), GPEMU_OK) << gpemu_last_error();
  gpemu_cost_model* cost_model = nullptr;
  ASSERT_EQ(gpemu_database_cost_model(database, "resnet18", "Tesla_M40", nullptr, &cost_model),
            GPEMU_OK)
      << gpemu_last_error();
  gpemu_database_close(database);
  gpemu_step_cost cost{.struct_size = sizeof cost};
  ASSERT_EQ(gpemu_cost_model_step(cost_model, 64, &cost), GPEMU_OK);
  EXPECT_GT(cost.backward_optimizer.time_ns, cost.forward.time_ns);
  gpemu_cost_model_destroy(cost_model);
}

TEST(CApiDatabase, RefusesAFileThatIsNotThere) {
  gpemu_database* database = nullptr;
  EXPECT_EQ(gpemu_database_open("/nonexistent/profiles.db", &database), GPEMU_ERROR_NOT_FOUND);
  EXPECT_EQ(database, nullptr);
}

TEST(CApiMonitor, AForkedChildInheritsNoLock) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a forked child inherits locks of the sanitizer's allocator";
#endif
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / ("gpemu_capi_" + std::to_string(::getpid()));
  ASSERT_EQ(::setenv("GPEMU_NODE_DIR", folder.c_str(), 1), 0);
  const gpemu_node_config config{
      .struct_size = sizeof config, .name = "n", .gpu = "V100-PCIE-32GB", .device_count = 1};
  gpemu_node* node = nullptr;
  ASSERT_EQ(gpemu_node_create(&config, &node), GPEMU_OK) << gpemu_last_error();
  std::atomic<bool> stop = false;
  std::thread reader([&stop] {
    while (!stop) {
      gpemu_monitor_attach();
      gpemu_monitor_detach();
    }
  });
  int status = 0;
  for (int i = 0; i < 100 && status == 0; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(10);
      int32_t count = 0;
      gpemu_monitor_attach();
      ::_exit(gpemu_monitor_device_count(&count) == GPEMU_OK ? 0 : 1);
    }
    EXPECT_EQ(::waitpid(child, &status, 0), child);
  }
  stop = true;
  reader.join();
  EXPECT_EQ(status, 0) << "a child waited for a lock until its alarm";
  gpemu_node_close(node);
  std::filesystem::remove_all(folder);
  ::unsetenv("GPEMU_NODE_DIR");
}

}  // namespace
