// SPDX-License-Identifier: Apache-2.0
// The driver's captures, executable graphs, objects of graphs, and tensor maps: one good call of
// each function and one bad one.
#include <array>
#include <cstring>

#include "driver_test.hpp"

namespace {

TEST_F(Driver, StreamsCaptureWork) {
  constexpr int kRelaxed = 2, kUnknownMode = 3, kActive = 1;
  void *stream = nullptr, *into = nullptr;
  ASSERT_EQ(call("cuStreamCreate", &stream, 1U), kSuccess);
  const Address memory = allocate(64);
  const EdgeData plain{}, programmatic{{0, 0, 1}};
  for (const std::string suffix : {"", "_ptsz"}) {
    const auto on = [&](const char* function, auto... arguments) {
      return call((function + suffix).c_str(), arguments...);
    };
    ASSERT_EQ(call("cuGraphCreate", &into, 0U), kSuccess);
    for (const int kind : {1, 2, 3}) {
      int status = -1;
      uint64_t id = 0;
      void *graph = nullptr, *captured = nullptr;
      void* const* dependencies = nullptr;
      const EdgeData* edges = &plain;
      size_t count = 0;
      EXPECT_EQ(kind == 1   ? on("cuStreamBeginCapture", stream)
                : kind == 2 ? on("cuStreamBeginCapture_v2", stream, kRelaxed)
                            : on("cuStreamBeginCaptureToGraph", stream, into, none_, none_,
                                 size_t{0}, kRelaxed),
                kSuccess);
      EXPECT_EQ(on("cuMemsetD8Async", memory, 1U, size_t{64}, stream), kSuccess);
      EXPECT_EQ(on("cuStreamIsCapturing", stream, &status), kSuccess);
      EXPECT_EQ(status, kActive) << suffix;
      status = -1;
      EXPECT_EQ(on("cuStreamGetCaptureInfo", stream, &status, &id), kSuccess);
      EXPECT_EQ(status, kActive) << suffix;
      EXPECT_NE(id, 0U);
      EXPECT_EQ(
          on("cuStreamGetCaptureInfo_v2", stream, &status, none_, &graph, &dependencies, &count),
          kSuccess);
      EXPECT_EQ(count, 1U);
      void* const node = count == 1 ? dependencies[0] : nullptr;
      if (kind == 3) {
        EXPECT_EQ(graph, into);
      }
      count = 0;
      EXPECT_EQ(on("cuStreamGetCaptureInfo_v3", stream, &status, none_, &captured, &dependencies,
                   &edges, &count),
                kSuccess);
      EXPECT_EQ(captured, graph);
      EXPECT_EQ(edges, nullptr);
      EXPECT_EQ(count, 1U);
      const char* const update = "cuStreamUpdateCaptureDependencies";
      const char* const update_v2 = "cuStreamUpdateCaptureDependencies_v2";
      EXPECT_EQ(on(update, stream, none_, size_t{0}, 1U), kSuccess);
      EXPECT_EQ(on("cuStreamGetCaptureInfo_v2", stream, &status, none_, none_, none_, &count),
                kSuccess);
      EXPECT_EQ(count, 0U);
      EXPECT_EQ(on(update_v2, stream, &node, &plain, size_t{1}, 0U), kSuccess);
      EXPECT_EQ(on(update, stream, &node, size_t{1}, 2U), kInvalidValue);
      EXPECT_EQ(on(update_v2, stream, &node, &programmatic, size_t{1}, 0U), kInvalidValue);
      EXPECT_EQ(on("cuStreamEndCapture", stream, &captured), kSuccess);
      EXPECT_EQ(captured, graph);
      EXPECT_EQ(call("cuGraphDestroy", graph), kSuccess);
    }
    void* none = nullptr;
    int status = 0;
    EXPECT_EQ(on("cuStreamEndCapture", stream, &none), 401) << "it does not capture";
    EXPECT_EQ(on("cuStreamEndCapture", stream, none_), 401);
    EXPECT_EQ(on("cuStreamBeginCapture", dead_), kInvalidHandle);
    EXPECT_EQ(on("cuStreamBeginCapture_v2", stream, kUnknownMode), kInvalidValue);
    EXPECT_EQ(on("cuStreamBeginCaptureToGraph", stream, none_, none_, none_, size_t{0}, 0),
              kInvalidValue);
    for (const char* get : {"cuStreamIsCapturing", "cuStreamGetCaptureInfo"}) {
      EXPECT_EQ(on(get, stream, none_, none_), kInvalidValue) << get;
      EXPECT_EQ(on(get, dead_, &status, none_), kInvalidHandle) << get;
    }
    for (const char* get : {"cuStreamGetCaptureInfo_v2", "cuStreamGetCaptureInfo_v3"}) {
      EXPECT_EQ(on(get, dead_, &status, none_, none_, none_, none_, none_), kInvalidHandle) << get;
    }
  }
  // The thread's own stream may capture, the legacy one may not; then it may not even be asked.
  void* graph = nullptr;
  int status = -1;
  EXPECT_EQ(call("cuStreamBeginCapture", none_), kCaptureUnsupported);
  EXPECT_EQ(call("cuStreamBeginCapture_ptsz", none_), kSuccess);
  EXPECT_EQ(call("cuStreamIsCapturing_ptsz", none_, &status), kSuccess);
  EXPECT_EQ(status, kActive);
  EXPECT_EQ(call("cuStreamIsCapturing", none_, &status), kCaptureImplicit);
  EXPECT_EQ(call("cuStreamEndCapture_ptsz", none_, &graph), kSuccess);
  EXPECT_EQ(call("cuGraphDestroy", graph), kSuccess);
  int mode = kRelaxed;
  EXPECT_EQ(call("cuThreadExchangeStreamCaptureMode", &mode), kSuccess);
  EXPECT_EQ(mode, 0);
  EXPECT_EQ(call("cuThreadExchangeStreamCaptureMode", &mode), kSuccess);
  EXPECT_EQ(mode, kRelaxed);
  EXPECT_EQ(call("cuThreadExchangeStreamCaptureMode", none_), kInvalidValue);
  EXPECT_EQ(call("cuStreamDestroy", stream), kSuccess);
  each({"cuMemFree_v2"}, kSuccess, memory);
}

// CUDA_GRAPH_INSTANTIATE_PARAMS and CUgraphExecUpdateResultInfo.
struct InstantiateParameters {
  uint64_t flags;
  void *stream, *error_node;
  int result;
};
struct UpdateResult {
  int result;
  void *error_node, *error_from_node;
};

TEST_F(Driver, GraphsAreInstantiatedLaunchedAndUpdated) {
  constexpr uint64_t kForDevice = 4, kUnknownFlag = 16;
  constexpr int kInstantiateError = 1, kUpdateError = 1;
  void *graph = nullptr, *node = nullptr, *exec = nullptr, *error_node = dead_;
  ASSERT_EQ(call("cuGraphCreate", &graph, 0U), kSuccess);
  ASSERT_EQ(call("cuGraphAddEmptyNode", &node, graph, none_, size_t{0}), kSuccess);
  for (const char* instantiate : {"cuGraphInstantiate", "cuGraphInstantiate_v2"}) {
    char log[8] = "text";
    error_node = dead_;
    EXPECT_EQ(call(instantiate, &exec, graph, &error_node, &log[0], sizeof(log)), kSuccess);
    EXPECT_EQ(error_node, nullptr);
    EXPECT_STREQ(log, "");
    EXPECT_EQ(call("cuGraphExecDestroy", exec), kSuccess);
    EXPECT_EQ(call(instantiate, none_, graph, none_, none_, size_t{0}), kInvalidValue);
    EXPECT_EQ(call(instantiate, &exec, dead_, none_, none_, size_t{0}), kInvalidValue);
  }
  const char* const with_flags = "cuGraphInstantiateWithFlags";
  EXPECT_EQ(call(with_flags, &exec, graph, kUnknownFlag), kInvalidValue);
  EXPECT_EQ(call(with_flags, &exec, graph, kForDevice), kNotSupported);
  EXPECT_EQ(call(with_flags, &exec, dead_, uint64_t{0}), kInvalidValue);
  for (const std::string suffix : {"", "_ptsz"}) {
    const std::string with_params = "cuGraphInstantiateWithParams" + suffix;
    InstantiateParameters parameters{kUnknownFlag, nullptr, dead_, 0};
    EXPECT_EQ(call(with_params.c_str(), &exec, graph, &parameters), kInvalidValue);
    EXPECT_EQ(parameters.result, kInstantiateError);
    EXPECT_EQ(call(with_params.c_str(), &exec, graph, none_), kInvalidValue);
    parameters.flags = 0;
    EXPECT_EQ(call(with_params.c_str(), &exec, graph, &parameters), kSuccess);
    EXPECT_EQ(parameters.result, 0);
    EXPECT_EQ(parameters.error_node, nullptr);
    for (const char* function : {"cuGraphUpload", "cuGraphLaunch"}) {
      EXPECT_EQ(call((function + suffix).c_str(), exec, none_), kSuccess) << function;
      EXPECT_EQ(call((function + suffix).c_str(), exec, dead_), kInvalidHandle) << function;
      EXPECT_EQ(call((function + suffix).c_str(), dead_, none_), kInvalidValue) << function;
    }
    EXPECT_EQ(call("cuCtxSynchronize"), kSuccess);
    EXPECT_EQ(call("cuGraphExecDestroy", exec), kSuccess);
  }
  ASSERT_EQ(call(with_flags, &exec, graph, uint64_t{1}), kSuccess);
  int result = -1;
  UpdateResult info{-1, dead_, dead_};
  EXPECT_EQ(call("cuGraphExecUpdate", exec, graph, &error_node, &result), kSuccess);
  EXPECT_EQ(result, 0);
  EXPECT_EQ(call("cuGraphExecUpdate_v2", exec, graph, &info), kSuccess);
  EXPECT_EQ(info.result, 0);
  EXPECT_EQ(info.error_node, nullptr);
  ASSERT_EQ(call("cuGraphAddEmptyNode", &node, graph, none_, size_t{0}), kSuccess);
  EXPECT_EQ(call("cuGraphExecUpdate", exec, graph, &error_node, &result), kUpdateFailure);
  EXPECT_EQ(result, kUpdateError);
  EXPECT_EQ(call("cuGraphExecUpdate_v2", exec, graph, &info), kUpdateFailure);
  EXPECT_EQ(info.result, kUpdateError);
  EXPECT_EQ(call("cuGraphExecUpdate", dead_, graph, &error_node, &result), kInvalidValue);
  EXPECT_EQ(call("cuGraphExecUpdate", exec, graph, &error_node, none_), kInvalidValue);
  EXPECT_EQ(call("cuGraphExecUpdate_v2", exec, graph, none_), kInvalidValue);
  EXPECT_EQ(call("cuGraphExecDestroy", exec), kSuccess);
  EXPECT_EQ(call("cuGraphExecDestroy", exec), kInvalidValue);
  EXPECT_EQ(call("cuGraphDestroy", graph), kSuccess);
}

TEST_F(Driver, GraphsOwnObjects) {
  constexpr unsigned kNoDestructorSync = 1, kMove = 1;
  int destroyed = 0;
  const auto destroy = static_cast<void (*)(void*)>([](void* data) { ++*static_cast<int*>(data); });
  void *graph = nullptr, *object = nullptr;
  ASSERT_EQ(call("cuGraphCreate", &graph, 0U), kSuccess);
  const char* const create = "cuUserObjectCreate";
  EXPECT_EQ(call(create, &object, &destroyed, destroy, 1U, 0U), kInvalidValue);
  EXPECT_EQ(call(create, &object, &destroyed, destroy, 0U, kNoDestructorSync), kInvalidValue);
  EXPECT_EQ(call(create, &object, &destroyed, none_, 1U, kNoDestructorSync), kInvalidValue);
  ASSERT_EQ(call(create, &object, &destroyed, destroy, 1U, kNoDestructorSync), kSuccess);
  EXPECT_EQ(call("cuUserObjectRetain", object, 2U), kSuccess);
  EXPECT_EQ(call("cuUserObjectRelease", object, 1U), kSuccess);
  each({"cuUserObjectRetain", "cuUserObjectRelease"}, kInvalidValue, object, 0U);
  each({"cuUserObjectRetain", "cuUserObjectRelease"}, kInvalidHandle, dead_, 1U);
  EXPECT_EQ(call("cuGraphRetainUserObject", graph, object, 1U, 0U), kSuccess);
  EXPECT_EQ(call("cuGraphReleaseUserObject", graph, object, 1U), kSuccess);
  EXPECT_EQ(call("cuGraphReleaseUserObject", graph, object, 1U), kInvalidValue);
  EXPECT_EQ(call("cuGraphRetainUserObject", graph, object, 1U, 2U), kInvalidValue);
  EXPECT_EQ(call("cuGraphRetainUserObject", dead_, object, 1U, 0U), kInvalidValue);
  EXPECT_EQ(call("cuGraphRetainUserObject", graph, object, 2U, kMove), kSuccess);
  EXPECT_EQ(destroyed, 0);
  EXPECT_EQ(call("cuGraphDestroy", graph), kSuccess);
  EXPECT_EQ(destroyed, 1);
}

/// The arguments of cuTensorMapEncodeTiled: a tensor of 64 x 32 x 8 values of FP16.
struct TensorMap {
  int type = 6;
  uint32_t rank = 3;
  uint64_t address = 0x1000;
  std::array<uint64_t, 5> dimensions{64, 32, 8, 1, 1}, strides{128, 4096, 32768, 32768, 0};
  std::array<uint32_t, 5> box{32, 8, 1, 1, 1}, element_strides{1, 1, 1, 1, 1};
  int interleave = 0, swizzle = 0, promotion = 0, fill = 0;
};

TEST_F(Driver, TensorMapsHaveLimits) {
  std::array<uint64_t, 16> map{};
  const auto encode = [&](void* out, const TensorMap& from) {
    return call("cuTensorMapEncodeTiled", out, from.type, from.rank, from.address,
                from.dimensions.data(), from.strides.data(), from.box.data(),
                from.element_strides.data(), from.interleave, from.swizzle, from.promotion,
                from.fill);
  };
  EXPECT_EQ(encode(map.data(), {}), kSuccess);
  EXPECT_EQ(map[0], 0x1000U);
  EXPECT_EQ(call("cuTensorMapReplaceAddress", map.data(), uint64_t{0x2000}), kSuccess);
  EXPECT_EQ(map[0], 0x2000U);
  EXPECT_EQ(call("cuTensorMapReplaceAddress", map.data(), uint64_t{0x2008}), kInvalidValue);
  EXPECT_EQ(call("cuTensorMapReplaceAddress", none_, uint64_t{0x2000}), kInvalidValue);
  EXPECT_EQ(encode(nullptr, {}), kInvalidValue);
  for (const TensorMap& good : {TensorMap{.rank = 2}, TensorMap{.interleave = 2},
                                TensorMap{.fill = 1}, TensorMap{.swizzle = 2}}) {
    EXPECT_EQ(encode(map.data(), good), kSuccess);
  }
  for (const TensorMap& bad :
       {TensorMap{.type = 16}, TensorMap{.rank = 0}, TensorMap{.rank = 6},
        TensorMap{.address = 0x1008}, TensorMap{.dimensions = {0, 32, 8}},
        TensorMap{.strides = {120, 4096}}, TensorMap{.box = {257, 8, 1}},
        TensorMap{.box = {7, 8, 1}}, TensorMap{.element_strides = {1, 9, 1}},
        TensorMap{.interleave = 3}, TensorMap{.swizzle = 7}, TensorMap{.promotion = 4},
        TensorMap{.fill = 2},
        // Interleaved: three dimensions at least, units of 32 bytes.
        TensorMap{.rank = 2, .interleave = 1}, TensorMap{.address = 0x1010, .interleave = 2},
        TensorMap{.strides = {144, 4096}, .interleave = 2},
        // A row of the box is wider than what is swizzled.
        TensorMap{.swizzle = 1},
        // Integers have no NaN.
        TensorMap{.type = 1, .fill = 1}}) {
    EXPECT_EQ(encode(map.data(), bad), kInvalidValue);
  }
}

}  // namespace
