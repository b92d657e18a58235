// SPDX-License-Identifier: Apache-2.0
// Convention 5 of gpemu.h: a required pointer that is NULL is an error. Of rendezvous, see there.
#include <cstdint>

#include <gtest/gtest.h>

#include "gpemu/gpemu.h"

namespace {

class CApiNull : public testing::Test {
 protected:
  void SetUp() override {
    gpemu_node_config config{.struct_size = sizeof(gpemu_node_config),
                             .gpu = "V100-PCIE-32GB",
                             .device_count = 1,
                             .clock = GPEMU_CLOCK_VIRTUAL};
    ASSERT_EQ(gpemu_node_create(&config, &node_), GPEMU_OK);
    ASSERT_EQ(gpemu_device_open(node_, 0, &device_), GPEMU_OK);
    ASSERT_EQ(gpemu_stream_default(device_, &stream_), GPEMU_OK);
    ASSERT_EQ(gpemu_event_create(&event_), GPEMU_OK);
    ASSERT_EQ(gpemu_database_open(nullptr, &database_), GPEMU_OK);
    ASSERT_EQ(gpemu_database_cost_model(database_, "resnet50", "V100-PCIE-32GB", nullptr, &costs_),
              GPEMU_OK);
  }

  void TearDown() override {
    gpemu_cost_model_destroy(costs_);
    gpemu_database_close(database_);
    gpemu_event_destroy(event_);
    gpemu_stream_destroy(stream_);
    gpemu_device_close(device_);
    gpemu_node_close(node_);
  }

  static void refused(gpemu_status status) { EXPECT_EQ(status, GPEMU_ERROR_INVALID_ARGUMENT); }

  gpemu_node* node_ = nullptr;
  gpemu_device* device_ = nullptr;
  gpemu_stream* stream_ = nullptr;
  gpemu_event* event_ = nullptr;
  gpemu_database* database_ = nullptr;
  gpemu_cost_model* costs_ = nullptr;
  int32_t count_ = 0;
  int64_t time_ns_ = 0;
};

TEST_F(CApiNull, IsRefusedByNodes) {
  gpemu_node* node = nullptr;
  gpemu_node_config config{.struct_size = sizeof(gpemu_node_config), .gpu = "V100-PCIE-32GB"};
  refused(gpemu_node_create(nullptr, &node));
  refused(gpemu_node_create(&config, nullptr));
  refused(gpemu_node_open("name", nullptr));
  refused(gpemu_node_device_count(nullptr, &count_));
  refused(gpemu_node_device_count(node_, nullptr));
  refused(gpemu_node_now(nullptr, &time_ns_));
  refused(gpemu_node_now(node_, nullptr));
  refused(gpemu_node_wait_until(nullptr, 0));
  refused(gpemu_host_now(nullptr));
  gpemu_node_close(nullptr);
}

TEST_F(CApiNull, IsRefusedByDevices) {
  gpemu_device* device = nullptr;
  gpemu_device_info info{.struct_size = sizeof(gpemu_device_info)};
  uint64_t address = 0;
  refused(gpemu_device_open(nullptr, 0, &device));
  refused(gpemu_device_open(node_, 0, nullptr));
  refused(gpemu_device_get_info(nullptr, &info));
  refused(gpemu_device_get_info(device_, nullptr));
  refused(gpemu_device_synchronize(nullptr));
  EXPECT_EQ(gpemu_device_synchronize(device_), GPEMU_OK);
  refused(gpemu_device_allocate(nullptr, 1, &address));
  refused(gpemu_device_allocate(device_, 1, nullptr));
  refused(gpemu_device_free(nullptr, 1));
  refused(gpemu_device_memory(nullptr, &address, &address));
  refused(gpemu_pinned_allocate(1, nullptr));
  refused(gpemu_pinned_lock(nullptr, 1));
  gpemu_device_close(nullptr);
}

TEST_F(CApiNull, IsRefusedByStreams) {
  gpemu_stream* stream = nullptr;
  refused(gpemu_stream_create(nullptr, GPEMU_STREAM_BLOCKING, &stream));
  refused(gpemu_stream_create(device_, GPEMU_STREAM_BLOCKING, nullptr));
  refused(gpemu_stream_default(nullptr, &stream));
  refused(gpemu_stream_default(device_, nullptr));
  refused(gpemu_stream_launch(nullptr, 1, nullptr));
  refused(gpemu_stream_copy(nullptr, GPEMU_COPY_HOST_TO_DEVICE, 1, 1, nullptr));
  refused(gpemu_stream_query(nullptr));
  refused(gpemu_stream_synchronize(nullptr));
  refused(gpemu_stream_wait_event(nullptr, event_));
  refused(gpemu_stream_wait_event(stream_, nullptr));
  gpemu_stream_destroy(nullptr);
}

TEST_F(CApiNull, IsRefusedByEvents) {
  ASSERT_EQ(gpemu_event_record(event_, stream_), GPEMU_OK);
  refused(gpemu_event_create(nullptr));
  refused(gpemu_event_record(nullptr, stream_));
  refused(gpemu_event_record(event_, nullptr));
  refused(gpemu_event_query(nullptr));
  refused(gpemu_event_synchronize(nullptr));
  refused(gpemu_event_elapsed(nullptr, event_, &time_ns_));
  refused(gpemu_event_elapsed(event_, nullptr, &time_ns_));
  refused(gpemu_event_elapsed(event_, event_, nullptr));
  refused(gpemu_event_time(nullptr, &time_ns_));
  refused(gpemu_event_time(event_, nullptr));
  gpemu_event_destroy(nullptr);
}

TEST_F(CApiNull, IsRefusedByCosts) {
  gpemu_cost_model* costs = nullptr;
  gpemu_step_cost step{.struct_size = sizeof(gpemu_step_cost)};
  refused(gpemu_cost_model_create(nullptr, "V100-PCIE-32GB", nullptr, &costs));
  refused(gpemu_cost_model_create("resnet50", nullptr, nullptr, &costs));
  refused(gpemu_cost_model_create("resnet50", "V100-PCIE-32GB", nullptr, nullptr));
  refused(gpemu_cost_model_step(nullptr, 1, &step));
  refused(gpemu_cost_model_step(costs_, 1, nullptr));
  refused(gpemu_cost_model_largest_batch(nullptr, &count_));
  refused(gpemu_cost_model_largest_batch(costs_, nullptr));
  gpemu_cost_model_destroy(nullptr);
}

TEST_F(CApiNull, IsRefusedByDatabases) {
  gpemu_cost_model* costs = nullptr;
  gpemu_gpu_info gpu{.struct_size = sizeof(gpemu_gpu_info)};
  gpemu_model_info model{.struct_size = sizeof(gpemu_model_info)};
  refused(gpemu_database_open(nullptr, nullptr));
  refused(gpemu_database_gpu_count(nullptr, &count_));
  refused(gpemu_database_gpu_count(database_, nullptr));
  refused(gpemu_database_gpu(nullptr, 0, &gpu));
  refused(gpemu_database_gpu(database_, 0, nullptr));
  refused(gpemu_database_find_gpu(nullptr, "T4", &gpu));
  refused(gpemu_database_find_gpu(database_, nullptr, &gpu));
  refused(gpemu_database_find_gpu(database_, "T4", nullptr));
  refused(gpemu_database_model_count(nullptr, &count_));
  refused(gpemu_database_model_count(database_, nullptr));
  refused(gpemu_database_model(nullptr, 0, &model));
  refused(gpemu_database_model(database_, 0, nullptr));
  EXPECT_EQ(gpemu_database_model(database_, 0, &model), GPEMU_OK);
  refused(gpemu_database_find_model(nullptr, "resnet50", &model));
  refused(gpemu_database_find_model(database_, nullptr, &model));
  refused(gpemu_database_find_model(database_, "resnet50", nullptr));
  refused(gpemu_database_cost_model(nullptr, "resnet50", "T4", nullptr, &costs));
  refused(gpemu_database_cost_model(database_, nullptr, "T4", nullptr, &costs));
  refused(gpemu_database_cost_model(database_, "resnet50", nullptr, nullptr, &costs));
  refused(gpemu_database_cost_model(database_, "resnet50", "T4", nullptr, nullptr));
  gpemu_database_close(nullptr);
}

}  // namespace
