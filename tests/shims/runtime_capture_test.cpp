// SPDX-License-Identifier: Apache-2.0
// The runtime's captures of streams: one good call of each function and one bad one.
#include <cstdint>
#include <vector>

#include "runtime_calls.hpp"

namespace {

constexpr int kRelaxed = 2, kUnknownMode = 3, kActive = 1, kNotCapturing = 401,
              kCaptureUnsupported = 900, kCaptureInvalidated = 901;
constexpr size_t kNone = 0;

class RuntimeCaptures : public RuntimeCalls {
 protected:
  void SetUp() override {
    RuntimeCalls::SetUp();
    ASSERT_EQ(call("cudaStreamCreateWithFlags", &stream_, 1U), kSuccess);
    memory_ = allocate(64);
  }
  void TearDown() override {
    EXPECT_EQ(call("cudaFree", memory_), kSuccess);
    EXPECT_EQ(call("cudaStreamDestroy", stream_), kSuccess);
  }

  /// Calls a function, or its twin for per-thread default streams.
  template <typename... Arguments>
  int on(const std::string& function, Arguments... arguments) {
    return call((twin_ ? twin_of(function) : function).c_str(), arguments...);
  }

  /// Expects one captured node on the stream, of each function that tells; returns the graph.
  void* check_capture() {
    int status = -1;
    uint64_t id = 0;
    size_t count = 0;
    void *graph = nullptr, *same = nullptr;
    void* const* dependencies = nullptr;
    const EdgeData plain{}, *edges = &plain;
    EXPECT_EQ(on("cudaStreamIsCapturing", stream_, &status), kSuccess);
    EXPECT_EQ(status, kActive);
    const std::string with_edges =
        GetParam() < 13 ? "cudaStreamGetCaptureInfo_v3" : "cudaStreamGetCaptureInfo";
    EXPECT_EQ(on(with_edges, stream_, &status, &id, &graph, &dependencies, &edges, &count),
              kSuccess);
    EXPECT_NE(id, 0U);
    EXPECT_EQ(count, 1U);
    EXPECT_EQ(edges, nullptr) << "all are plain";
    node_ = count == 1 ? dependencies[0] : nullptr;
    if (GetParam() < 13) {
      uint64_t again = 0;
      EXPECT_EQ(on("cudaStreamGetCaptureInfo", stream_, &status, &again), kSuccess);
      EXPECT_EQ(again, id);
      count = 0;
      EXPECT_EQ(
          on("cudaStreamGetCaptureInfo_v2", stream_, &status, &id, &same, &dependencies, &count),
          kSuccess);
      EXPECT_EQ(same, graph);
      EXPECT_EQ(count, 1U);
    }
    return graph;
  }

  /// Removes the node on which the next one depends and adds it again.
  void check_update() {
    const EdgeData plain{}, programmatic{{0, 0, 1}};
    const std::string update = "cudaStreamUpdateCaptureDependencies";
    const std::string with_edges = update + (GetParam() < 13 ? "_v2" : "");
    EXPECT_EQ(on(with_edges, stream_, none_, none_, kNone, 1U), kSuccess);
    EXPECT_EQ(on(with_edges, stream_, &node_, &plain, size_t{1}, 0U), kSuccess);
    EXPECT_EQ(on(with_edges, stream_, &node_, &programmatic, size_t{1}, 0U), kInvalidValue);
    if (GetParam() < 13) {
      EXPECT_EQ(on(update, stream_, &node_, size_t{1}, 1U), kSuccess);
      EXPECT_EQ(on(update, stream_, &node_, size_t{1}, 2U), kInvalidValue);
    }
  }

  bool twin_ = false;
  void *stream_ = nullptr, *memory_ = nullptr, *node_ = nullptr;
};

TEST_P(RuntimeCaptures, StreamsCaptureWork) {
  for (twin_ = false;; twin_ = true) {
    for (const bool into_graph : {false, true}) {
      void *into = nullptr, *captured = nullptr;
      ASSERT_EQ(call("cudaGraphCreate", &into, 0U), kSuccess);
      EXPECT_EQ(into_graph ? on("cudaStreamBeginCaptureToGraph", stream_, into, none_, none_, kNone,
                                kRelaxed)
                           : on("cudaStreamBeginCapture", stream_, kRelaxed),
                kSuccess);
      EXPECT_EQ(call("cudaMemsetAsync", memory_, 1, size_t{64}, stream_), kSuccess);
      void* const graph = check_capture();
      EXPECT_EQ(graph == into, into_graph);
      check_update();
      EXPECT_EQ(on("cudaStreamEndCapture", stream_, &captured), kSuccess);
      EXPECT_EQ(captured, graph);
      EXPECT_EQ(call("cudaGraphDestroy", into), kSuccess);
      if (!into_graph) {
        EXPECT_EQ(call("cudaGraphDestroy", captured), kSuccess);
      }
    }
    if (twin_) break;
  }
}

TEST_P(RuntimeCaptures, NothingWaitsForTheDeviceDuringACapture) {
  void* graph = nullptr;
  for (const char* wait : {"cudaDeviceSynchronize", "cudaThreadSynchronize"}) {
    if (GetParam() == 13 && wait == std::string("cudaThreadSynchronize")) continue;
    ASSERT_EQ(call("cudaStreamBeginCapture", stream_, 0), kSuccess);
    EXPECT_EQ(call(wait), kCaptureUnsupported) << wait;
    EXPECT_EQ(call("cudaStreamEndCapture", stream_, &graph), kCaptureInvalidated);
    EXPECT_EQ(call(wait), kSuccess) << wait;
  }
}

TEST_P(RuntimeCaptures, WrongArgumentsAreRefused) {
  void* graph = nullptr;
  int status = 0;
  for (twin_ = false;; twin_ = true) {
    EXPECT_EQ(on("cudaStreamBeginCapture", stream_, kUnknownMode), kInvalidValue);
    EXPECT_EQ(on("cudaStreamBeginCapture", dead_, kRelaxed), kInvalidHandle);
    EXPECT_EQ(on("cudaStreamBeginCaptureToGraph", stream_, none_, none_, none_, kNone, kRelaxed),
              kInvalidValue);
    EXPECT_EQ(on("cudaStreamEndCapture", stream_, &graph), kNotCapturing);
    EXPECT_EQ(on("cudaStreamEndCapture", stream_, none_), kNotCapturing);
    std::vector<std::string> getters{"cudaStreamIsCapturing", "cudaStreamGetCaptureInfo"};
    std::vector<std::string> updates{"cudaStreamUpdateCaptureDependencies"};
    if (GetParam() < 13) {
      getters.insert(getters.end(), {"cudaStreamGetCaptureInfo_v2", "cudaStreamGetCaptureInfo_v3"});
      updates.emplace_back("cudaStreamUpdateCaptureDependencies_v2");
    }
    for (const std::string& get : getters) {
      EXPECT_EQ(on(get, stream_, none_, none_, none_, none_, none_, none_), kInvalidValue) << get;
      EXPECT_EQ(on(get, dead_, &status, none_, none_, none_, none_, none_), kInvalidHandle) << get;
    }
    for (const std::string& update : updates) {
      EXPECT_NE(on(update, stream_, none_, none_, none_, none_), kSuccess) << update;
    }
    if (twin_) break;
  }
  EXPECT_EQ(call("cudaStreamCreateWithFlags", none_, 0U), kInvalidValue);
  int mode = kRelaxed;
  EXPECT_EQ(call("cudaThreadExchangeStreamCaptureMode", &mode), kSuccess);
  EXPECT_EQ(mode, 0);
  EXPECT_EQ(call("cudaThreadExchangeStreamCaptureMode", &mode), kSuccess);
  EXPECT_EQ(mode, kRelaxed);
  EXPECT_EQ(call("cudaThreadExchangeStreamCaptureMode", none_), kInvalidValue);
}

GPEMU_FOR_ALL_RUNTIMES(RuntimeCaptures);

}  // namespace
