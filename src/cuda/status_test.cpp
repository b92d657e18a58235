// SPDX-License-Identifier: Apache-2.0
#include "gpemu/process/status.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <limits>
#include <new>
#include <pthread.h>
#include <stdexcept>
#include <thread>

#include <gtest/gtest.h>

#include "test_gpu.hpp"

namespace {

constexpr int kNever = std::numeric_limits<int>::max();

/// How many more allocations of this thread succeed.
thread_local constinit int allocations_left = kNever;

void* allocate_or_null(std::size_t bytes) {
  if (allocations_left == 0) return nullptr;
  if (allocations_left != kNever) --allocations_left;
  return std::malloc(bytes == 0 ? 1 : bytes);
}

}  // namespace

// These replace the allocation functions of this test program. If the compiler saw into them, it
// would warn about memory of `new` that `free` gets.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  void* const memory = allocate_or_null(bytes);
  if (memory == nullptr) std::rethrow_exception(std::make_exception_ptr(std::bad_alloc()));
  return memory;
}
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return allocate_or_null(bytes);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace gpemu::cuda {
namespace {

/// What is logged is not shown.
class StatusTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { use_test_gpu(); }
  void SetUp() override { testing::internal::CaptureStderr(); }
  void TearDown() override { static_cast<void>(testing::internal::GetCapturedStderr()); }

  static std::uint64_t free_memory() {
    std::uint64_t free = 0, total = 0;
    EXPECT_EQ(gpemu_cuda_mem_info(&free, &total), GPEMU_CUDA_SUCCESS);
    return free;
  }

  /// Makes each allocation of a call fail, one in each run, until the call succeeds. Returns how
  /// many there are. Expects that a call that fails takes no memory of the GPU. Requires: without
  /// failures, the call succeeds.
  template <typename Call>
  static int failing_allocations(Call call, int line = __builtin_LINE()) {
    gpemu_cuda_status status = GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
    int allocations = -1;
    const std::uint64_t free_before = free_memory();
    while (status == GPEMU_CUDA_ERROR_OUT_OF_MEMORY && allocations < 1000) {
      allocations_left = ++allocations;
      status = call();
      allocations_left = kNever;
      if (status == GPEMU_CUDA_SUCCESS) break;
      EXPECT_EQ(free_memory(), free_before)
          << "line " << line << ", after the failure of allocation " << allocations;
    }
    EXPECT_EQ(status, GPEMU_CUDA_SUCCESS);
    return allocations;
  }
};

TEST_F(StatusTest, IsOutOfMemoryWhereTheHostHasNone) {
  gpemu_cuda_stream_handle stream = nullptr;
  EXPECT_GT(failing_allocations([&] { return gpemu_cuda_stream_create(1, 0, &stream); }), 0);
  gpemu_cuda_event_handle event = nullptr;
  // These may need no memory at all.
  failing_allocations([&] { return gpemu_cuda_event_create(0, &event); });
  EXPECT_NE(event, nullptr);
  failing_allocations([&] { return gpemu_cuda_event_record(event, stream, 0); });
  EXPECT_EQ(gpemu_cuda_event_synchronize(event), GPEMU_CUDA_SUCCESS);
  std::int64_t elapsed_ns = -1;
  EXPECT_EQ(gpemu_cuda_event_elapsed(event, event, &elapsed_ns), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(elapsed_ns, 0);
  std::uint64_t memory = 0, reserved = 0, physical = 0, from_pool = 0;
  void* host = nullptr;
  constexpr std::uint64_t kSize = 2 << 20;
  EXPECT_GT(failing_allocations([&] { return gpemu_cuda_malloc(kSize, &memory); }), 0);
  EXPECT_GT(failing_allocations([&] { return gpemu_cuda_host_alloc(kSize, 0, &host); }), 0);
  EXPECT_GT(failing_allocations([&] { return gpemu_cuda_vmm_reserve(kSize, 0, 0, &reserved); }), 0);
  EXPECT_GT(failing_allocations([&] { return gpemu_cuda_vmm_create(0, kSize, 1, &physical); }), 0);
  EXPECT_GT(failing_allocations(
                [&] { return gpemu_cuda_malloc_async(kSize, nullptr, stream, &from_pool); }),
            0);
  EXPECT_GT(failing_allocations([&] {
              return gpemu_cuda_memcpy(memory, reinterpret_cast<std::uint64_t>(host), kSize,
                                       GPEMU_CUDA_COPY_DEFAULT, stream, 0);
            }),
            0);
  gpemu_cuda_graph_handle graph = nullptr;
  failing_allocations([&] { return gpemu_cuda_graph_create(&graph); });
  EXPECT_NE(graph, nullptr);
  gpemu_cuda_node_parameters set{.kind = GPEMU_CUDA_NODE_SET};
  set.set_address = memory;
  set.set_element_bytes = 1;
  set.set_count = set.set_height = 1;
  gpemu_cuda_node_handle node = nullptr;
  EXPECT_GT(
      failing_allocations([&] { return gpemu_cuda_graph_add(graph, nullptr, 0, &set, &node); }), 0);
  gpemu_cuda_exec_handle exec = nullptr;
  EXPECT_GT(failing_allocations([&] { return gpemu_cuda_graph_instantiate(graph, &exec); }), 0);
  EXPECT_GT(failing_allocations([&] { return gpemu_cuda_graph_launch(exec, stream); }), 0);
  EXPECT_EQ(gpemu_cuda_stream_synchronize(stream), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_exec_destroy(exec), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_graph_destroy(graph), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_free_async(from_pool, stream), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_vmm_release(physical), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_vmm_unreserve(reserved, kSize), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_host_free(host), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_free(memory), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_event_destroy(event), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_stream_destroy(stream), GPEMU_CUDA_SUCCESS);
}

TEST_F(StatusTest, FunctionsThatReturnNothingLetNoExceptionOut) {
  static constexpr char kFunction = 0;
  gpemu_cuda_kernel_handle kernel = nullptr;
  allocations_left = 0;
  gpemu_cuda_register_kernel(&kFunction, "a name that is not stored within a string", nullptr);
  allocations_left = kNever;
  EXPECT_EQ(gpemu_cuda_registered_kernel(&kFunction, &kernel),
            GPEMU_CUDA_ERROR_INVALID_DEVICE_FUNCTION);
}

/// Creates an object of the program and releases it, which calls `destroy`.
gpemu_cuda_status release_object(void (*destroy)(void*)) {
  gpemu_cuda_user_object_handle object = nullptr;
  EXPECT_EQ(gpemu_cuda_user_object_create(nullptr, destroy, 1, &object), GPEMU_CUDA_SUCCESS);
  return gpemu_cuda_user_object_release(object, 1);
}

TEST_F(StatusTest, IsUnknownAfterOtherExceptions) {
  EXPECT_EQ(release_object([](void*) {
              std::rethrow_exception(std::make_exception_ptr(std::runtime_error("no luck")));
            }),
            GPEMU_CUDA_ERROR_UNKNOWN);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "gpemu: error: no luck\n");
  testing::internal::CaptureStderr();
}

TEST_F(StatusTest, ThreadsMayEndInACall) {
  bool returned = false;
  std::thread([&returned] {
    release_object([](void*) { ::pthread_exit(nullptr); });
    returned = true;
  }).join();
  EXPECT_FALSE(returned);
}

}  // namespace
}  // namespace gpemu::cuda
