// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <latch>
#include <limits>
#include <mutex>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "gpemu/base/mutex.hpp"
#include "gpemu/cuda.h"

#include "exec.hpp"
#include "test_gpu.hpp"

namespace gpemu::cuda {
namespace {

using Stream = gpemu_cuda_stream_handle;
using Event = gpemu_cuda_event_handle;
using Graph = gpemu_cuda_graph_handle;
using Node = gpemu_cuda_node_handle;
using Exec = gpemu_cuda_exec_handle;

/// These tests do not depend on the price of their operation: they compare times exactly with that
/// of one operation.
class GraphTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { use_test_gpu(); }
  void SetUp() override {
    stream_ = create_stream(1);
    other_ = create_stream(1);
    for (Event* const event : {&start_, &end_, &event_}) {
      ASSERT_EQ(gpemu_cuda_event_create(0, event), GPEMU_CUDA_SUCCESS);
    }
  }
  void TearDown() override {
    for (Stream each : {stream_, other_}) {
      EXPECT_EQ(gpemu_cuda_stream_destroy(each), GPEMU_CUDA_SUCCESS);
    }
    for (Event each : {start_, end_, event_}) {
      EXPECT_EQ(gpemu_cuda_event_destroy(each), GPEMU_CUDA_SUCCESS);
    }
    EXPECT_EQ(gpemu_cuda_device_synchronize(), GPEMU_CUDA_SUCCESS);
  }

  static Stream create_stream(std::uint32_t flags) {
    Stream stream = nullptr;
    EXPECT_EQ(gpemu_cuda_stream_create(flags, 0, &stream), GPEMU_CUDA_SUCCESS);
    return stream;
  }
  static gpemu_cuda_status submit(Stream stream) {
    const gpemu_operation operation{.struct_size = sizeof(operation),
                                    .kind = GPEMU_OPERATION_ELEMENTWISE,
                                    .type = GPEMU_TYPE_FP32,
                                    .shape = {1 << 20, 1 << 20, 1},
                                    .name = "operation"};
    return gpemu_cuda_submit(&operation, stream);
  }
  /// Returns the emulated time of work on the first stream.
  template <typename Work>
  std::int64_t time(Work&& work) {
    EXPECT_EQ(gpemu_cuda_device_synchronize(), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(gpemu_cuda_event_record(start_, stream_, 0), GPEMU_CUDA_SUCCESS);
    work();
    EXPECT_EQ(gpemu_cuda_event_record(end_, stream_, 0), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(gpemu_cuda_event_synchronize(end_), GPEMU_CUDA_SUCCESS);
    std::int64_t elapsed = -1;
    EXPECT_EQ(gpemu_cuda_event_elapsed(start_, end_, &elapsed), GPEMU_CUDA_SUCCESS);
    return elapsed;
  }
  std::int64_t time_of_one() {
    return time([this] { EXPECT_EQ(submit(stream_), GPEMU_CUDA_SUCCESS); });
  }
  std::int64_t time_of(Exec exec) {
    return time(
        [=, this] { EXPECT_EQ(gpemu_cuda_graph_launch(exec, stream_), GPEMU_CUDA_SUCCESS); });
  }
  template <typename Work>
  Exec captured(Work&& work) {
    EXPECT_EQ(gpemu_cuda_begin_capture(stream_, 0, nullptr), GPEMU_CUDA_SUCCESS);
    work();
    Graph graph = nullptr;
    EXPECT_EQ(gpemu_cuda_end_capture(stream_, &graph), GPEMU_CUDA_SUCCESS);
    return instantiated(graph);
  }
  /// Ends the graph as well.
  static Exec instantiated(Graph graph) {
    Exec exec = nullptr;
    EXPECT_EQ(gpemu_cuda_graph_instantiate(graph, &exec), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(gpemu_cuda_graph_destroy(graph), GPEMU_CUDA_SUCCESS);
    return exec;
  }
  /// Describes a node that sets `count` words to 7.
  static gpemu_cuda_node_parameters set_of(std::uint64_t address, std::uint64_t count) {
    gpemu_cuda_node_parameters set{.kind = GPEMU_CUDA_NODE_SET};
    set.set_address = address;
    set.set_count = count;
    set.set_height = 1;
    set.set_element_bytes = 4;
    set.set_value = 7;
    return set;
  }
  /// Describes the product of 1 x 1 matrices.
  static gpemu_cuda_product product_of_numbers() {
    gpemu_cuda_product product{};
    product.m = product.n = product.k = product.batch = 1;
    product.leading_a = product.leading_b = product.leading_c = 1;
    product.stride_a = product.stride_b = product.stride_c = 1;
    product.type = product.type_c = GPEMU_TYPE_FP32;
    product.known = 1;
    product.alpha = 1;
    return product;
  }
  gpemu_cuda_status end_capture() {
    Graph graph = nullptr;
    const gpemu_cuda_status status = gpemu_cuda_end_capture(stream_, &graph);
    EXPECT_EQ(graph == nullptr, status != GPEMU_CUDA_SUCCESS);
    if (graph != nullptr) {
      EXPECT_EQ(gpemu_cuda_graph_destroy(graph), GPEMU_CUDA_SUCCESS);
    }
    return status;
  }
  static std::int32_t capture_status(Stream stream) {
    gpemu_cuda_capture_info info{};
    EXPECT_EQ(gpemu_cuda_capture_get_info(stream, &info), GPEMU_CUDA_SUCCESS);
    return info.status;
  }

  /// The time that a kernel saves in a graph.
  static constexpr std::int64_t kSaved = 400;

  Stream stream_ = nullptr, other_ = nullptr;
  Event start_ = nullptr, end_ = nullptr, event_ = nullptr;
};

TEST_F(GraphTest, CapturedWorkTakesNoTimeUntilItIsLaunched) {
  const std::int64_t one = time_of_one();
  ASSERT_GT(one, kSaved);
  Exec exec = nullptr;
  const std::int64_t capture = time([&] {
    Graph graph = nullptr;
    ASSERT_EQ(gpemu_cuda_begin_capture(stream_, 0, nullptr), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(capture_status(stream_), 1);
    for (int i = 0; i < 3; ++i) ASSERT_EQ(submit(stream_), GPEMU_CUDA_SUCCESS);
    ASSERT_EQ(gpemu_cuda_end_capture(stream_, &graph), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(capture_status(stream_), 0);
    std::size_t nodes = 0, edges = 0;
    ASSERT_EQ(gpemu_cuda_graph_nodes(graph, nullptr, &nodes), GPEMU_CUDA_SUCCESS);
    ASSERT_EQ(gpemu_cuda_graph_edges(graph, nullptr, nullptr, &edges), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(nodes, 3U);
    EXPECT_EQ(edges, 2U);
    exec = instantiated(graph);
  });
  EXPECT_EQ(capture, 0);
  EXPECT_EQ(time_of(exec), 3 * (one - kSaved));
  EXPECT_EQ(time_of(exec), 3 * (one - kSaved));
  EXPECT_EQ(time([&] {
              EXPECT_EQ(submit(stream_), GPEMU_CUDA_SUCCESS);
              EXPECT_EQ(gpemu_cuda_graph_launch(exec, stream_), GPEMU_CUDA_SUCCESS);
              EXPECT_EQ(submit(stream_), GPEMU_CUDA_SUCCESS);
            }),
            2 * one + 3 * (one - kSaved))
      << "in the stream's order";
  EXPECT_EQ(gpemu_cuda_exec_destroy(exec), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_graph_launch(exec, stream_), GPEMU_CUDA_ERROR_INVALID_VALUE);
}

TEST_F(GraphTest, CapturedKernelsAreTold) {
  static constexpr int kHostFunction = 0;
  gpemu_cuda_kernel_handle kernel = nullptr;
  gpemu_cuda_register_kernel(&kHostFunction, "kernel", &kHostFunction);
  ASSERT_EQ(gpemu_cuda_registered_kernel(&kHostFunction, &kernel), GPEMU_CUDA_SUCCESS);
  const gpemu_cuda_launch launch{.grid = {3, 2, 1}, .block = {64, 1, 1}};
  Graph graph = nullptr;
  ASSERT_EQ(gpemu_cuda_begin_capture(stream_, 0, nullptr), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_launch_kernel(kernel, &launch, stream_), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_end_capture(stream_, &graph), GPEMU_CUDA_SUCCESS);
  Node node = nullptr;
  std::size_t number = 1;
  ASSERT_EQ(gpemu_cuda_graph_nodes(graph, &node, &number), GPEMU_CUDA_SUCCESS);
  gpemu_cuda_node_parameters parameters{};
  ASSERT_EQ(gpemu_cuda_node_get(node, &parameters), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(parameters.kind, GPEMU_CUDA_NODE_KERNEL);
  EXPECT_EQ(parameters.kernel, kernel);
  EXPECT_EQ(parameters.launch.grid[1], 2U);
  const std::int64_t alone = time(
      [&] { EXPECT_EQ(gpemu_cuda_launch_kernel(kernel, &launch, stream_), GPEMU_CUDA_SUCCESS); });
  const Exec exec = instantiated(graph);
  EXPECT_EQ(time_of(exec), alone - kSaved);
  EXPECT_EQ(gpemu_cuda_exec_destroy(exec), GPEMU_CUDA_SUCCESS);
  gpemu_cuda_unregister(&kHostFunction);
}

TEST_F(GraphTest, ForksAndJoinsAreEdgesAndBranchesOverlap) {
  constexpr std::uint64_t kBytes = 8 << 20;
  void* host = nullptr;
  std::uint64_t memory = 0;
  ASSERT_EQ(gpemu_cuda_host_alloc(kBytes, 0, &host), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_malloc(kBytes, &memory), GPEMU_CUDA_SUCCESS);
  const auto copy = [&](Stream stream) {
    EXPECT_EQ(gpemu_cuda_memcpy(memory, reinterpret_cast<std::uint64_t>(host), kBytes,
                                GPEMU_CUDA_COPY_HOST_TO_DEVICE, stream, 0),
              GPEMU_CUDA_SUCCESS);
  };
  const std::int64_t one = time_of_one();
  const std::int64_t one_copy = time([&] { copy(stream_); });
  ASSERT_GT(one_copy, one);
  const Exec exec = captured([&] {
    EXPECT_EQ(submit(stream_), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(gpemu_cuda_event_record(event_, stream_, 0), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(gpemu_cuda_stream_wait_event(other_, event_, 0), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(capture_status(other_), 1);
    copy(other_);
    EXPECT_EQ(submit(stream_), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(gpemu_cuda_event_record(event_, other_, 0), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(gpemu_cuda_stream_wait_event(stream_, event_, 0), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(submit(stream_), GPEMU_CUDA_SUCCESS);
  });
  EXPECT_EQ(time_of(exec), 2 * (one - kSaved) + one_copy) << "the copy hides one operation";
  EXPECT_EQ(capture_status(other_), 0);
  EXPECT_EQ(gpemu_cuda_exec_destroy(exec), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_free(memory), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_host_free(host), GPEMU_CUDA_SUCCESS);
}

TEST_F(GraphTest, UnjoinedWorkIsRefused) {
  ASSERT_EQ(gpemu_cuda_begin_capture(stream_, 0, nullptr), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_event_record(event_, stream_, 0), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_stream_wait_event(other_, event_, 0), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(submit(other_), GPEMU_CUDA_SUCCESS);
  Graph graph = nullptr;
  EXPECT_EQ(gpemu_cuda_end_capture(other_, &graph), GPEMU_CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  EXPECT_EQ(end_capture(), GPEMU_CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  EXPECT_EQ(capture_status(other_), 0) << "the capture has ended nevertheless";
  EXPECT_EQ(gpemu_cuda_end_capture(stream_, &graph), GPEMU_CUDA_ERROR_ILLEGAL_STATE);
  EXPECT_EQ(gpemu_cuda_stream_wait_event(other_, event_, 0), GPEMU_CUDA_ERROR_CAPTURED_EVENT);
}

TEST_F(GraphTest, WaitingForWhatIsCapturedInvalidatesTheCapture) {
  const auto breaks = [this](auto&& call, gpemu_cuda_status expected) {
    ASSERT_EQ(gpemu_cuda_begin_capture(stream_, 2, nullptr), GPEMU_CUDA_SUCCESS);
    ASSERT_EQ(gpemu_cuda_event_record(event_, stream_, 0), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(call(), expected);
    EXPECT_EQ(capture_status(stream_), 2);
    EXPECT_EQ(submit(stream_), GPEMU_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    EXPECT_EQ(end_capture(), GPEMU_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  };
  ASSERT_EQ(gpemu_cuda_event_record(start_, other_, 0), GPEMU_CUDA_SUCCESS);
  breaks([this] { return gpemu_cuda_stream_synchronize(stream_); },
         GPEMU_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  breaks([this] { return gpemu_cuda_stream_query(stream_); },
         GPEMU_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  breaks([this] { return gpemu_cuda_refuse_capture(stream_); },
         GPEMU_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  breaks([this] { return gpemu_cuda_event_synchronize(event_); }, GPEMU_CUDA_ERROR_CAPTURED_EVENT);
  breaks([this] { return gpemu_cuda_event_query(event_); }, GPEMU_CUDA_ERROR_CAPTURED_EVENT);
  breaks([this] { return gpemu_cuda_stream_wait_event(stream_, start_, 0); },
         GPEMU_CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  EXPECT_EQ(gpemu_cuda_event_record(event_, stream_, 0), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_event_query(event_), GPEMU_CUDA_SUCCESS) << "recorded anew, outside";
}

TEST_F(GraphTest, ModesSayWhoMayMakeUnsafeCalls) {
  const auto allocate = [] {
    std::uint64_t address = 0;
    const gpemu_cuda_status status = gpemu_cuda_malloc(1024, &address);
    if (status == GPEMU_CUDA_SUCCESS) {
      EXPECT_EQ(gpemu_cuda_free(address), GPEMU_CUDA_SUCCESS);
    }
    return status;
  };
  const auto elsewhere = [&allocate] {
    gpemu_cuda_status status = GPEMU_CUDA_SUCCESS;
    std::thread([&] { status = allocate(); }).join();
    return status;
  };
  // global, thread-local, relaxed: in the capturing thread, in another.
  const gpemu_cuda_status refused = GPEMU_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  const std::array<gpemu_cuda_status, 3> here_expected{refused, refused, GPEMU_CUDA_SUCCESS};
  const std::array<gpemu_cuda_status, 3> elsewhere_expected{refused, GPEMU_CUDA_SUCCESS,
                                                            GPEMU_CUDA_SUCCESS};
  for (std::int32_t mode = 0; mode < 3; ++mode) {
    const auto index = static_cast<std::size_t>(mode);
    ASSERT_EQ(gpemu_cuda_begin_capture(stream_, mode, nullptr), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(elsewhere(), elsewhere_expected[index]) << mode;
    EXPECT_EQ(capture_status(stream_), elsewhere_expected[index] == refused ? 2 : 1) << mode;
    EXPECT_EQ(allocate(), here_expected[index]) << mode;
    std::int32_t relaxed = 2;
    ASSERT_EQ(gpemu_cuda_exchange_capture_mode(&relaxed), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(relaxed, 0);
    EXPECT_EQ(allocate(), GPEMU_CUDA_SUCCESS) << mode;
    ASSERT_EQ(gpemu_cuda_exchange_capture_mode(&relaxed), GPEMU_CUDA_SUCCESS);
    gpemu_cuda_status ended = GPEMU_CUDA_SUCCESS;
    Graph graph = nullptr;
    std::thread([&] { ended = gpemu_cuda_end_capture(stream_, &graph); }).join();
    if (mode == 2) {
      EXPECT_EQ(ended, GPEMU_CUDA_SUCCESS);
      EXPECT_EQ(gpemu_cuda_graph_destroy(graph), GPEMU_CUDA_SUCCESS);
    } else {
      EXPECT_EQ(ended, GPEMU_CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
      EXPECT_EQ(end_capture(), GPEMU_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    }
  }
}

TEST_F(GraphTest, TheLegacyStreamNeitherCapturesNorWaitsForCaptures) {
  Graph graph = nullptr;
  EXPECT_EQ(gpemu_cuda_begin_capture(nullptr, 0, nullptr),
            GPEMU_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  ASSERT_EQ(gpemu_cuda_begin_capture(stream_, 0, nullptr), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(submit(nullptr), GPEMU_CUDA_SUCCESS) << "the capturing stream does not block";
  EXPECT_EQ(end_capture(), GPEMU_CUDA_SUCCESS);
  const Stream blocking = create_stream(0);
  ASSERT_EQ(gpemu_cuda_begin_capture(blocking, 0, nullptr), GPEMU_CUDA_SUCCESS);
  gpemu_cuda_capture_info info{};
  EXPECT_EQ(gpemu_cuda_capture_get_info(nullptr, &info), GPEMU_CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  EXPECT_EQ(capture_status(blocking), 1) << "asking is harmless";
  EXPECT_EQ(submit(nullptr), GPEMU_CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  EXPECT_EQ(gpemu_cuda_end_capture(blocking, &graph), GPEMU_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  ASSERT_EQ(gpemu_cuda_begin_capture(blocking, 0, nullptr), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_stream_destroy(blocking), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(submit(nullptr), GPEMU_CUDA_SUCCESS) << "the capture went with its stream";
}

TEST_F(GraphTest, CapturesDoNotMerge) {
  ASSERT_EQ(gpemu_cuda_begin_capture(stream_, 0, nullptr), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_begin_capture(stream_, 0, nullptr), GPEMU_CUDA_ERROR_ILLEGAL_STATE);
  ASSERT_EQ(gpemu_cuda_begin_capture(other_, 0, nullptr), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_event_record(event_, other_, 0), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_stream_wait_event(stream_, event_, 0),
            GPEMU_CUDA_ERROR_STREAM_CAPTURE_MERGE);
  EXPECT_EQ(end_capture(), GPEMU_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  Graph graph = nullptr;
  EXPECT_EQ(gpemu_cuda_end_capture(other_, &graph), GPEMU_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

void count(void* data) {
  ++*static_cast<int*>(data);
}

TEST_F(GraphTest, EachLaunchCopiesSetsAndCalls) {
  std::array<std::uint32_t, 4> source{1, 2, 3, 4}, result{};
  std::uint64_t memory = 0;
  ASSERT_EQ(gpemu_cuda_malloc(sizeof(source), &memory), GPEMU_CUDA_SUCCESS);
  const auto bits = [](void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); };
  int calls = 0;
  const Exec exec = captured([&] {
    EXPECT_EQ(
        gpemu_cuda_memcpy(memory, bits(source.data()), 16, GPEMU_CUDA_COPY_DEFAULT, stream_, 0),
        GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(gpemu_cuda_set_memory(memory, 0, 0xabcd, 2, 1, 1, stream_), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(
        gpemu_cuda_memcpy(bits(result.data()), memory, 16, GPEMU_CUDA_COPY_DEFAULT, stream_, 0),
        GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(gpemu_cuda_launch_host_function(stream_, count, &calls), GPEMU_CUDA_SUCCESS);
  });
  EXPECT_EQ(result[3], 0U);
  for (const std::uint32_t value : {4U, 5U}) {
    source[3] = value;
    ASSERT_EQ(gpemu_cuda_graph_launch(exec, stream_), GPEMU_CUDA_SUCCESS);
    ASSERT_EQ(gpemu_cuda_stream_synchronize(stream_), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(result, (std::array<std::uint32_t, 4>{0xabcd, 2, 3, value}));
  }
  EXPECT_EQ(calls, 2);
  ASSERT_EQ(gpemu_cuda_begin_capture(stream_, 2, nullptr), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_memcpy(memory, bits(source.data()), 16, GPEMU_CUDA_COPY_DEFAULT, stream_, 1),
            GPEMU_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(end_capture(), GPEMU_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_EQ(gpemu_cuda_exec_destroy(exec), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_free(memory), GPEMU_CUDA_SUCCESS);
}

TEST_F(GraphTest, BuildsGraphsByHand) {
  Graph graph = nullptr, clone = nullptr;
  ASSERT_EQ(gpemu_cuda_graph_create(&graph), GPEMU_CUDA_SUCCESS);
  std::uint64_t memory = 0;
  ASSERT_EQ(gpemu_cuda_malloc(64, &memory), GPEMU_CUDA_SUCCESS);
  gpemu_cuda_node_parameters set = set_of(memory, 8);
  const gpemu_cuda_node_parameters empty{.kind = GPEMU_CUDA_NODE_EMPTY};
  Node first = nullptr, second = nullptr, third = nullptr;
  ASSERT_EQ(gpemu_cuda_graph_add(graph, nullptr, 0, &set, &first), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_graph_add(graph, &first, 1, &set, &second), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_graph_add(graph, nullptr, 0, &empty, &third), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_graph_connect(graph, &second, &third, 1, 1), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_graph_connect(graph, &second, &third, 1, 1), GPEMU_CUDA_ERROR_INVALID_VALUE);
  const std::array<Node, 2> twice{first, first};
  EXPECT_EQ(gpemu_cuda_graph_add(graph, twice.data(), 2, &empty, &third),
            GPEMU_CUDA_ERROR_INVALID_VALUE);

  std::array<Node, 4> nodes{};
  std::size_t number = nodes.size();
  ASSERT_EQ(gpemu_cuda_graph_nodes(graph, nodes.data(), &number), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(number, 3U);
  EXPECT_EQ(nodes, (std::array<Node, 4>{first, second, third, nullptr}));
  number = nodes.size();
  ASSERT_EQ(gpemu_cuda_node_dependents(first, nodes.data(), &number), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(number, 1U);
  EXPECT_EQ(nodes[0], second);

  ASSERT_EQ(gpemu_cuda_graph_clone(graph, &clone), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_graph_connect(graph, &third, &first, 1, 1), GPEMU_CUDA_SUCCESS);
  Exec exec = nullptr;
  EXPECT_EQ(gpemu_cuda_graph_instantiate(graph, &exec), GPEMU_CUDA_ERROR_INVALID_VALUE) << "a ring";
  ASSERT_EQ(gpemu_cuda_graph_connect(graph, &third, &first, 1, 0), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_graph_instantiate(graph, &exec), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_exec_update(exec, clone), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_node_destroy(third), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_exec_update(exec, graph), GPEMU_CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);

  set.set_value = 9;
  ASSERT_EQ(gpemu_cuda_exec_set(exec, second, &set), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_exec_set(exec, third, &empty), GPEMU_CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(gpemu_cuda_graph_launch(exec, stream_), GPEMU_CUDA_SUCCESS);
  std::uint32_t value = 0;
  ASSERT_EQ(gpemu_cuda_peek(memory, &value, 4), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(value, 9U);
  ASSERT_EQ(gpemu_cuda_exec_set_enabled(exec, second, 0), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_graph_launch(exec, stream_), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_peek(memory, &value, 4), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(value, 7U);
  EXPECT_EQ(gpemu_cuda_exec_destroy(exec), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_graph_destroy(graph), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_graph_destroy(clone), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_graph_destroy(clone), GPEMU_CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(gpemu_cuda_free(memory), GPEMU_CUDA_SUCCESS);
}

TEST_F(GraphTest, ChildGraphsRunInPlaceOfTheirNode) {
  const std::int64_t one = time_of_one();
  gpemu_cuda_node_parameters inner{.kind = GPEMU_CUDA_NODE_GRAPH};
  ASSERT_EQ(gpemu_cuda_begin_capture(stream_, 0, nullptr), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(submit(stream_), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(submit(stream_), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_end_capture(stream_, &inner.child), GPEMU_CUDA_SUCCESS);
  Graph outer = nullptr;
  Node first = nullptr, second = nullptr;
  ASSERT_EQ(gpemu_cuda_graph_create(&outer), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_graph_add(outer, nullptr, 0, &inner, &first), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_graph_add(outer, &first, 1, &inner, &second), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_graph_destroy(inner.child), GPEMU_CUDA_SUCCESS);
  const Exec exec = instantiated(outer);
  EXPECT_EQ(time_of(exec), 4 * (one - kSaved));
  EXPECT_EQ(gpemu_cuda_exec_destroy(exec), GPEMU_CUDA_SUCCESS);
}

TEST_F(GraphTest, ExternalEventsAreNodes) {
  const std::int64_t one = time_of_one();
  const Exec exec = captured([&] {
    EXPECT_EQ(submit(stream_), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(gpemu_cuda_event_record(event_, stream_, 1), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(submit(stream_), GPEMU_CUDA_SUCCESS);
  });
  EXPECT_EQ(time_of(exec), 2 * (one - kSaved));
  std::int64_t elapsed = 0;
  ASSERT_EQ(gpemu_cuda_event_elapsed(start_, event_, &elapsed), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(elapsed, one - kSaved);
  EXPECT_EQ(gpemu_cuda_exec_destroy(exec), GPEMU_CUDA_SUCCESS);
  const Exec waits = captured([&] {
    EXPECT_EQ(gpemu_cuda_stream_wait_event(stream_, event_, 1), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(submit(stream_), GPEMU_CUDA_SUCCESS);
  });
  EXPECT_EQ(time([&] {
              EXPECT_EQ(submit(other_), GPEMU_CUDA_SUCCESS);
              EXPECT_EQ(submit(other_), GPEMU_CUDA_SUCCESS);
              EXPECT_EQ(gpemu_cuda_event_record(event_, other_, 0), GPEMU_CUDA_SUCCESS);
              EXPECT_EQ(gpemu_cuda_graph_launch(waits, stream_), GPEMU_CUDA_SUCCESS);
            }),
            3 * one - kSaved);
  EXPECT_EQ(gpemu_cuda_exec_destroy(waits), GPEMU_CUDA_SUCCESS);
}

TEST_F(GraphTest, CapturesIntoAGraphThatIsThere) {
  Graph graph = nullptr, ended = nullptr;
  const gpemu_cuda_node_parameters empty{.kind = GPEMU_CUDA_NODE_EMPTY};
  Node root = nullptr;
  ASSERT_EQ(gpemu_cuda_graph_create(&graph), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_graph_add(graph, nullptr, 0, &empty, &root), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_begin_capture(stream_, 0, graph), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_graph_destroy(graph), GPEMU_CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(gpemu_cuda_capture_set_dependencies(stream_, &root, 1, 1), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(submit(stream_), GPEMU_CUDA_SUCCESS);
  gpemu_cuda_capture_info info{};
  ASSERT_EQ(gpemu_cuda_capture_get_info(stream_, &info), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(info.graph, graph);
  ASSERT_EQ(info.dependency_count, 1U);
  Node dependency = nullptr;
  std::size_t number = 1;
  ASSERT_EQ(gpemu_cuda_node_dependencies(info.dependencies[0], &dependency, &number),
            GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(dependency, root);
  ASSERT_EQ(gpemu_cuda_end_capture(stream_, &ended), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(ended, graph);
  EXPECT_EQ(gpemu_cuda_graph_destroy(graph), GPEMU_CUDA_SUCCESS);
}

TEST_F(GraphTest, ObjectsLiveAsLongAsAnyGraphHoldsThem) {
  int destroyed = 0;
  gpemu_cuda_user_object_handle object = nullptr;
  ASSERT_EQ(gpemu_cuda_user_object_create(&destroyed, count, 1, &object), GPEMU_CUDA_SUCCESS);
  Graph graph = nullptr, clone = nullptr;
  Exec exec = nullptr;
  ASSERT_EQ(gpemu_cuda_graph_create(&graph), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_graph_retain_user_object(graph, object, 1, 1), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_graph_clone(graph, &clone), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_graph_instantiate(graph, &exec), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_graph_destroy(graph), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_graph_release_user_object(clone, object, 1), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_graph_destroy(clone), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(destroyed, 0);
  ASSERT_EQ(gpemu_cuda_exec_destroy(exec), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(destroyed, 1);
  EXPECT_EQ(gpemu_cuda_user_object_retain(object, 1), GPEMU_CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(GraphTest, ExecutableGraphsHoldTheObjectsOfChildGraphs) {
  int destroyed = 0;
  gpemu_cuda_user_object_handle object = nullptr;
  ASSERT_EQ(gpemu_cuda_user_object_create(&destroyed, count, 1, &object), GPEMU_CUDA_SUCCESS);
  Graph child = nullptr, graph = nullptr;
  Exec exec = nullptr;
  ASSERT_EQ(gpemu_cuda_graph_create(&child), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_graph_retain_user_object(child, object, 1, 1), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_graph_create(&graph), GPEMU_CUDA_SUCCESS);
  gpemu_cuda_node_parameters parameters{.kind = GPEMU_CUDA_NODE_GRAPH};
  parameters.child = child;
  Node node = nullptr;
  ASSERT_EQ(gpemu_cuda_graph_add(graph, nullptr, 0, &parameters, &node), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_graph_instantiate(graph, &exec), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_graph_destroy(child), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_graph_destroy(graph), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(destroyed, 0);
  ASSERT_EQ(gpemu_cuda_exec_destroy(exec), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(destroyed, 1);
}

TEST_F(GraphTest, UpdatesExchangeTheObjects) {
  std::array<int, 2> destroyed{};
  std::array<Graph, 2> graphs{};
  for (std::size_t i = 0; i < 2; ++i) {
    gpemu_cuda_user_object_handle object = nullptr;
    ASSERT_EQ(gpemu_cuda_user_object_create(&destroyed[i], count, 1, &object), GPEMU_CUDA_SUCCESS);
    ASSERT_EQ(gpemu_cuda_graph_create(&graphs[i]), GPEMU_CUDA_SUCCESS);
    ASSERT_EQ(gpemu_cuda_graph_retain_user_object(graphs[i], object, 1, 1), GPEMU_CUDA_SUCCESS);
  }
  const Exec exec = instantiated(graphs[0]);
  ASSERT_EQ(gpemu_cuda_exec_update(exec, graphs[1]), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(destroyed[0], 1);
  ASSERT_EQ(gpemu_cuda_graph_destroy(graphs[1]), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(destroyed[1], 0);
  ASSERT_EQ(gpemu_cuda_exec_destroy(exec), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(destroyed[1], 1);
}

TEST_F(GraphTest, LaunchesKeepTheObjectsOfWhatIsDestroyed) {
  std::latch destroyed{1}, open{1};
  gpemu_cuda_user_object_handle object = nullptr;
  const auto destroy = [](void* latch) { static_cast<std::latch*>(latch)->count_down(); };
  ASSERT_EQ(gpemu_cuda_user_object_create(&destroyed, destroy, 1, &object), GPEMU_CUDA_SUCCESS);
  Graph graph = nullptr;
  ASSERT_EQ(gpemu_cuda_begin_capture(stream_, 0, nullptr), GPEMU_CUDA_SUCCESS);
  const auto wait = [](void* latch) { static_cast<std::latch*>(latch)->wait(); };
  ASSERT_EQ(gpemu_cuda_launch_host_function(stream_, wait, &open), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_end_capture(stream_, &graph), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_graph_retain_user_object(graph, object, 1, 1), GPEMU_CUDA_SUCCESS);
  const Exec exec = instantiated(graph);
  ASSERT_EQ(gpemu_cuda_graph_launch(exec, stream_), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_exec_destroy(exec), GPEMU_CUDA_SUCCESS);
  EXPECT_FALSE(destroyed.try_wait());
  open.count_down();
  destroyed.wait();
}

TEST_F(GraphTest, WhatIsBeingLaunchedStaysUntilThen) {
  int destroyed = 0;
  gpemu_cuda_user_object_handle object = nullptr;
  ASSERT_EQ(gpemu_cuda_user_object_create(&destroyed, count, 1, &object), GPEMU_CUDA_SUCCESS);
  Graph graph = nullptr;
  ASSERT_EQ(gpemu_cuda_graph_create(&graph), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_graph_retain_user_object(graph, object, 1, 1), GPEMU_CUDA_SUCCESS);
  const Exec exec = instantiated(graph);
  gpemu_cuda_exec* const pinned = pin_exec(exec);
  ASSERT_NE(pinned, nullptr);
  EXPECT_EQ(gpemu_cuda_exec_destroy(exec), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_exec_destroy(exec), GPEMU_CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(gpemu_cuda_graph_launch(exec, stream_), GPEMU_CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(destroyed, 0);
  unpin_exec(*pinned);
  EXPECT_EQ(destroyed, 1);
}

TEST_F(GraphTest, OnlyReferencesThatTheProgramHasMoveToAGraph) {
  int destroyed = 0;
  gpemu_cuda_user_object_handle object = nullptr;
  ASSERT_EQ(gpemu_cuda_user_object_create(&destroyed, count, 1, &object), GPEMU_CUDA_SUCCESS);
  Graph graph = nullptr;
  ASSERT_EQ(gpemu_cuda_graph_create(&graph), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_graph_retain_user_object(graph, object, 0, 1),
            GPEMU_CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(gpemu_cuda_graph_retain_user_object(graph, object, 2, 1),
            GPEMU_CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(gpemu_cuda_graph_retain_user_object(graph, object, 1, 1), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_user_object_release(object, 1), GPEMU_CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(destroyed, 0);
  ASSERT_EQ(gpemu_cuda_graph_destroy(graph), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(destroyed, 1);
}

TEST_F(GraphTest, EachThreadHasADefaultStreamOfItsOwn) {
  const auto per_thread = reinterpret_cast<Stream>(std::uintptr_t{2});
  const auto id_of = [](Stream stream) {
    gpemu_cuda_stream_info info{};
    EXPECT_EQ(gpemu_cuda_stream_get_info(stream, &info), GPEMU_CUDA_SUCCESS);
    return info.id;
  };
  const std::uint64_t here = id_of(per_thread);
  std::uint64_t elsewhere = 0;
  std::thread([&] { elsewhere = id_of(per_thread); }).join();
  EXPECT_NE(here, elsewhere);
  EXPECT_NE(here, id_of(nullptr));
  EXPECT_EQ(here, id_of(per_thread));
  // It captures, and it and the legacy stream wait for each other.
  EXPECT_EQ(gpemu_cuda_begin_capture(per_thread, 0, nullptr), GPEMU_CUDA_SUCCESS);
  Graph graph = nullptr;
  EXPECT_EQ(gpemu_cuda_end_capture(per_thread, &graph), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_graph_destroy(graph), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(submit(nullptr), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_stream_query(per_thread), GPEMU_CUDA_ERROR_NOT_READY);
}

TEST_F(GraphTest, EventsTellWhatTheyCannotTime) {
  std::int64_t elapsed = 0;
  EXPECT_EQ(gpemu_cuda_event_elapsed(start_, end_, &elapsed), GPEMU_CUDA_ERROR_INVALID_HANDLE);
  ASSERT_EQ(gpemu_cuda_event_record(start_, stream_, 0), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(submit(stream_), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_event_record(end_, stream_, 0), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_event_elapsed(start_, end_, &elapsed), GPEMU_CUDA_ERROR_NOT_READY);
  Event untimed = nullptr;
  ASSERT_EQ(gpemu_cuda_event_create(2, &untimed), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_event_record(untimed, stream_, 0), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_event_synchronize(untimed), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_event_elapsed(start_, untimed, &elapsed), GPEMU_CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(gpemu_cuda_event_destroy(untimed), GPEMU_CUDA_SUCCESS);
}

TEST_F(GraphTest, WorkThatWaitsForACopyHoldsUpNoOtherStream) {
  constexpr std::uint64_t kBytes = 64 << 20;
  void* host = nullptr;
  std::uint64_t memory = 0;
  ASSERT_EQ(gpemu_cuda_host_alloc(kBytes, 0, &host), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_malloc(kBytes, &memory), GPEMU_CUDA_SUCCESS);
  const std::int64_t one = time_of_one();
  EXPECT_EQ(time([&] {
              EXPECT_EQ(gpemu_cuda_memcpy(memory, reinterpret_cast<std::uint64_t>(host), kBytes,
                                          GPEMU_CUDA_COPY_HOST_TO_DEVICE, other_, 0),
                        GPEMU_CUDA_SUCCESS);
              EXPECT_EQ(submit(other_), GPEMU_CUDA_SUCCESS);
              EXPECT_EQ(submit(stream_), GPEMU_CUDA_SUCCESS);
            }),
            one);
  ASSERT_EQ(gpemu_cuda_device_synchronize(), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_free(memory), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_host_free(host), GPEMU_CUDA_SUCCESS);
}

TEST_F(GraphTest, DisabledKernelsWriteNothing) {
  static constexpr int kHostFunction = 0;
  // template <> void at::native::vectorized_elementwise_kernel<4, FillFunctor<int>, ...>
  const char* const name =
      "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_"
      "11FillFunctorIiEESt5arrayIPcLm1EEEEviT0_"
      "T1_";
  gpemu_cuda_register_kernel(&kHostFunction, name, &kHostFunction);
  gpemu_cuda_node_parameters node{.kind = GPEMU_CUDA_NODE_KERNEL};
  ASSERT_EQ(gpemu_cuda_registered_kernel(&kHostFunction, &node.kernel), GPEMU_CUDA_SUCCESS);
  std::uint64_t memory = 0;
  ASSERT_EQ(gpemu_cuda_malloc(64, &memory), GPEMU_CUDA_SUCCESS);
  int elements = 1, value = 7, read = -1;
  std::array<void*, 3> arguments{&elements, &value, &memory};
  node.launch = {.grid = {1, 1, 1}, .block = {64, 1, 1}, .arguments = arguments.data()};
  Graph graph = nullptr;
  Node added = nullptr;
  ASSERT_EQ(gpemu_cuda_graph_create(&graph), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_graph_add(graph, nullptr, 0, &node, &added), GPEMU_CUDA_SUCCESS);
  Exec exec = nullptr;
  ASSERT_EQ(gpemu_cuda_graph_instantiate(graph, &exec), GPEMU_CUDA_SUCCESS);
  for (const int enabled : {0, 1}) {
    ASSERT_EQ(gpemu_cuda_exec_set_enabled(exec, added, enabled), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(gpemu_cuda_graph_launch(exec, stream_), GPEMU_CUDA_SUCCESS);
    ASSERT_EQ(gpemu_cuda_peek(memory, &read, sizeof(read)), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(read, enabled == 0 ? 0 : 7);
  }
  EXPECT_EQ(gpemu_cuda_exec_destroy(exec), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_graph_destroy(graph), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_free(memory), GPEMU_CUDA_SUCCESS);
  gpemu_cuda_unregister(&kHostFunction);
}

TEST_F(GraphTest, ProgramsAreToldOfWhatIsRefusedWithoutALock) {
  bool told = false;
  const auto callback = [](void* data, std::int32_t, char*, std::size_t) {
    // Only a thread other than the caller can find out whether a lock is free.
    std::thread([data] {
      const std::unique_lock lock(graph_mutex(), std::try_to_lock);
      *static_cast<bool*>(data) = lock.owns_lock();
    }).join();
  };
  gpemu_cuda_log_handle log = nullptr;
  ASSERT_EQ(gpemu_cuda_log_register(callback, &told, &log), GPEMU_CUDA_SUCCESS);
  Graph graph = nullptr;
  Node node = nullptr;
  ASSERT_EQ(gpemu_cuda_graph_create(&graph), GPEMU_CUDA_SUCCESS);
  const gpemu_cuda_node_parameters parameters{.kind = GPEMU_CUDA_NODE_ALLOCATE};
  EXPECT_EQ(gpemu_cuda_graph_add(graph, nullptr, 0, &parameters, &node),
            GPEMU_CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_TRUE(told);
  EXPECT_EQ(gpemu_cuda_graph_destroy(graph), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_log_unregister(log), GPEMU_CUDA_SUCCESS);
}

TEST_F(GraphTest, AThreadLaunchesWhatAnotherChanges) {
  constexpr int kTimes = 10000;
  Graph graph = nullptr;
  Node record = nullptr, set = nullptr;
  std::uint64_t memory = 0;
  ASSERT_EQ(gpemu_cuda_malloc(4, &memory), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_graph_create(&graph), GPEMU_CUDA_SUCCESS);
  gpemu_cuda_node_parameters parameters{.kind = GPEMU_CUDA_NODE_RECORD_EVENT};
  parameters.event = event_;
  ASSERT_EQ(gpemu_cuda_graph_add(graph, nullptr, 0, &parameters, &record), GPEMU_CUDA_SUCCESS);
  parameters = set_of(memory, 1);
  ASSERT_EQ(gpemu_cuda_graph_add(graph, nullptr, 0, &parameters, &set), GPEMU_CUDA_SUCCESS);
  Exec exec = nullptr;
  ASSERT_EQ(gpemu_cuda_graph_instantiate(graph, &exec), GPEMU_CUDA_SUCCESS);
  std::thread changer([=] {
    for (int i = 0; i < kTimes; ++i) {
      EXPECT_EQ(gpemu_cuda_exec_update(exec, graph), GPEMU_CUDA_SUCCESS);
      EXPECT_EQ(gpemu_cuda_exec_set(exec, set, &parameters), GPEMU_CUDA_SUCCESS);
      EXPECT_EQ(gpemu_cuda_exec_set_enabled(exec, set, i % 2), GPEMU_CUDA_SUCCESS);
    }
  });
  for (int i = 0; i < kTimes; ++i) {
    // The launch records an event that stands for work of a capture.
    Graph captured = nullptr;
    EXPECT_EQ(gpemu_cuda_begin_capture(stream_, 2, nullptr), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(gpemu_cuda_event_record(event_, stream_, 0), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(gpemu_cuda_end_capture(stream_, &captured), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(gpemu_cuda_graph_destroy(captured), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(gpemu_cuda_graph_launch(exec, stream_), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(gpemu_cuda_event_synchronize(event_), GPEMU_CUDA_SUCCESS);
  }
  changer.join();
  EXPECT_EQ(gpemu_cuda_exec_destroy(exec), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_graph_destroy(graph), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_free(memory), GPEMU_CUDA_SUCCESS);
}

TEST_F(GraphTest, AForkedChildEndsThoughAThreadHeldTheLockOfGraphs) {
  const auto per_thread = reinterpret_cast<Stream>(std::uintptr_t{2});
  Graph graph = nullptr, captured = nullptr;
  ASSERT_EQ(gpemu_cuda_graph_create(&graph), GPEMU_CUDA_SUCCESS);
  const Exec exec = instantiated(graph);
  int status = -1;
  pid_t child = -1;
  ASSERT_EQ(gpemu_cuda_begin_capture(per_thread, 0, nullptr), GPEMU_CUDA_SUCCESS);
  std::latch held{1}, forked{1};
  std::thread holder([&] {
    const Lock lock(graph_mutex());
    held.count_down();
    forked.wait();
  });
  held.wait();
  std::fflush(stdout);
  child = ::fork();
  if (child == 0) {
    ::alarm(10);  // Ends a child that waits for a lock that no thread can release.
    const bool refused =
        gpemu_cuda_graph_destroy(graph) == GPEMU_CUDA_ERROR_NOT_INITIALIZED &&
        gpemu_cuda_exec_destroy(exec) == GPEMU_CUDA_ERROR_NOT_INITIALIZED &&
        gpemu_cuda_user_object_retain(nullptr, 1) == GPEMU_CUDA_ERROR_NOT_INITIALIZED &&
        gpemu_cuda_module_unload(nullptr) == GPEMU_CUDA_ERROR_NOT_INITIALIZED;
    if (!refused) std::_Exit(1);
    // The thread's stream ends before this; everything left belongs to the parent.
    std::atexit([] { std::_Exit(0); });
    std::exit(0);
  }
  forked.count_down();
  holder.join();
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(gpemu_cuda_end_capture(per_thread, &captured), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_graph_destroy(captured), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_exec_destroy(exec), GPEMU_CUDA_SUCCESS);
}

TEST_F(GraphTest, BatchesOfProductsMayBeLarge) {
  gpemu_cuda_product product = product_of_numbers();
  product.batch = (1 << 20) + 1;
  EXPECT_EQ(gpemu_cuda_multiply(&product, "multiply", stream_), GPEMU_CUDA_SUCCESS);
  product.arrays = 1;
  EXPECT_EQ(gpemu_cuda_multiply(&product, "multiply", stream_), GPEMU_CUDA_ERROR_INVALID_VALUE);
}

TEST_F(GraphTest, ProductsBeyond64BitsAreRefused) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const auto refused = [this](std::int64_t gpemu_cuda_product::* size, std::int64_t value) {
    gpemu_cuda_product product = product_of_numbers();
    product.batch = product.n = product.k = 3;
    product.*size = value;
    return gpemu_cuda_multiply(&product, "multiply", stream_) == GPEMU_CUDA_ERROR_INVALID_VALUE;
  };
  for (const auto size :
       {&gpemu_cuda_product::m, &gpemu_cuda_product::leading_a, &gpemu_cuda_product::leading_b,
        &gpemu_cuda_product::leading_c, &gpemu_cuda_product::stride_a,
        &gpemu_cuda_product::stride_b, &gpemu_cuda_product::stride_c}) {
    EXPECT_TRUE(refused(size, kMost));
    EXPECT_TRUE(refused(size, -kMost));
    EXPECT_FALSE(refused(size, 1));
  }
  EXPECT_FALSE(refused(&gpemu_cuda_product::stride_a, -1)) << "the last product lies first";
}

TEST_F(GraphTest, ArraysOfAddressesAreReadWhenTheGraphRuns) {
  // One product of 1 x 1 matrices, whose array of results changes after the capture.
  constexpr std::uint64_t kBytes = 4096;
  std::uint64_t memory = 0;
  ASSERT_EQ(gpemu_cuda_malloc(kBytes, &memory), GPEMU_CUDA_SUCCESS);
  const auto poke = [memory](std::uint64_t at, const auto& value) {
    ASSERT_EQ(gpemu_cuda_poke(memory + at, &value, sizeof(value)), GPEMU_CUDA_SUCCESS);
  };
  const auto peek = [memory](std::uint64_t at) {
    float value = -1;
    EXPECT_EQ(gpemu_cuda_peek(memory + at, &value, sizeof(value)), GPEMU_CUDA_SUCCESS);
    return value;
  };
  poke(0, std::array<std::uint64_t, 3>{memory + 256, memory + 512, memory + 768});
  poke(256, 3.0F);
  poke(512, 5.0F);
  poke(768, 7.0F);
  poke(1024, 9.0F);
  gpemu_cuda_product product = product_of_numbers();
  product.a = memory;
  product.b = memory + 8;
  product.c = memory + 16;
  product.arrays = 1;
  const Exec exec = captured(
      [&] { EXPECT_EQ(gpemu_cuda_multiply(&product, "multiply", stream_), GPEMU_CUDA_SUCCESS); });
  poke(16, memory + 1024);
  EXPECT_EQ(gpemu_cuda_graph_launch(exec, stream_), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_stream_synchronize(stream_), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(peek(768), 7);
  EXPECT_EQ(peek(1024), 15);
  EXPECT_EQ(gpemu_cuda_exec_destroy(exec), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_free(memory), GPEMU_CUDA_SUCCESS);
}

TEST_F(GraphTest, ANodeDoesInLaterInstancesWhatItWasSetTo) {
  std::uint64_t memory = 0;
  ASSERT_EQ(gpemu_cuda_malloc(64, &memory), GPEMU_CUDA_SUCCESS);
  gpemu_cuda_node_parameters set = set_of(memory, 16);
  Graph graph = nullptr;
  Node node = nullptr;
  Exec before = nullptr;
  ASSERT_EQ(gpemu_cuda_graph_create(&graph), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_graph_add(graph, nullptr, 0, &set, &node), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_graph_instantiate(graph, &before), GPEMU_CUDA_SUCCESS);
  set.set_value = 9;
  ASSERT_EQ(gpemu_cuda_node_set(node, &set), GPEMU_CUDA_SUCCESS);
  const Exec after = instantiated(graph);
  const auto written_by = [&](Exec exec) {
    std::uint32_t value = 0;
    EXPECT_EQ(gpemu_cuda_graph_launch(exec, stream_), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(gpemu_cuda_peek(memory, &value, sizeof(value)), GPEMU_CUDA_SUCCESS);
    return value;
  };
  EXPECT_EQ(written_by(after), 9U);
  EXPECT_EQ(written_by(before), 7U);
  EXPECT_EQ(gpemu_cuda_node_set(node, &set), GPEMU_CUDA_ERROR_INVALID_VALUE) << "its graph ended";
  EXPECT_EQ(gpemu_cuda_exec_destroy(before), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_exec_destroy(after), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_free(memory), GPEMU_CUDA_SUCCESS);
}

TEST_F(GraphTest, ANodeStaysWhatItIsWhenItCannotBeSet) {
  gpemu_cuda_node_parameters set{.kind = GPEMU_CUDA_NODE_SET}, wrong = set, found{};
  set.set_element_bytes = 4;
  set.set_value = 7;
  wrong.set_element_bytes = 3;
  const gpemu_cuda_node_parameters empty{.kind = GPEMU_CUDA_NODE_EMPTY};
  gpemu_cuda_node_parameters nested{.kind = GPEMU_CUDA_NODE_GRAPH};
  Graph graph = nullptr;
  Node node = nullptr, child = nullptr;
  ASSERT_EQ(gpemu_cuda_graph_create(&graph), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_graph_create(&nested.child), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_graph_add(graph, nullptr, 0, &set, &node), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_graph_add(graph, nullptr, 0, &nested, &child), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_node_set(node, &empty), GPEMU_CUDA_ERROR_INVALID_VALUE) << "another kind";
  EXPECT_EQ(gpemu_cuda_node_set(node, &wrong), GPEMU_CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(gpemu_cuda_node_set(node, nullptr), GPEMU_CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(gpemu_cuda_node_set(child, &nested), GPEMU_CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(gpemu_cuda_node_get(node, &found), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(found.kind, GPEMU_CUDA_NODE_SET);
  EXPECT_EQ(found.set_element_bytes, 4U);
  EXPECT_EQ(found.set_value, 7U);
  EXPECT_EQ(gpemu_cuda_graph_destroy(nested.child), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_graph_destroy(graph), GPEMU_CUDA_SUCCESS);
}

TEST_F(GraphTest, UploadsTakeNoTimeAndChangeNone) {
  const Exec exec = captured([this] { EXPECT_EQ(submit(stream_), GPEMU_CUDA_SUCCESS); });
  const std::int64_t launch = time_of(exec);
  EXPECT_EQ(time([&] { EXPECT_EQ(gpemu_cuda_graph_upload(exec, stream_), GPEMU_CUDA_SUCCESS); }),
            0);
  EXPECT_EQ(time_of(exec), launch);
  const Stream ended = create_stream(1);
  ASSERT_EQ(gpemu_cuda_stream_destroy(ended), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_graph_upload(exec, ended), GPEMU_CUDA_ERROR_INVALID_HANDLE);
  ASSERT_EQ(gpemu_cuda_exec_destroy(exec), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_graph_upload(exec, stream_), GPEMU_CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace gpemu::cuda
