// SPDX-License-Identifier: Apache-2.0
// The runtime's graphs: one good call of each function and one bad one.
#include <array>
#include <cstdint>
#include <fstream>
#include <tuple>

#include "runtime_calls.hpp"

namespace {

// cudaHostNodeParams, cudaGraphNodeParams and cudaGraphExecUpdateResultInfo.
struct HostParameters {
  void (*function)(void*);
  void* data;
};
struct NodeParameters {
  int kind, reserved[3];
  union {
    long long bytes[29];
    HostParameters host;
  };
  long long reserved2;
};
struct UpdateResult {
  int result;
  void *error_node, *error_from_node;
};
// cudaKernelNodeParams and cudaGraphInstantiateParams.
struct KernelParameters {
  const void* function;
  unsigned grid[3], block[3], shared_bytes;
  void **arguments, **extra;
};
struct InstantiateParameters {
  uint64_t flags;
  void *stream, *error_node;
  int result;
};
constexpr int kHostNode = 3, kUpdateFailure = 910;
constexpr uint64_t kNoFlags = 0;

class RuntimeGraphs : public RuntimeCalls {
 protected:
  void SetUp() override {
    RuntimeCalls::SetUp();
    ASSERT_EQ(call("cudaGraphCreate", &graph_, 0U), kSuccess);
    ASSERT_EQ(call("cudaStreamCreate", &stream_), kSuccess);
  }
  void TearDown() override {
    EXPECT_EQ(call("cudaStreamDestroy", stream_), kSuccess);
    EXPECT_EQ(call("cudaGraphDestroy", graph_), kSuccess);
  }

  /// Until CUDA 11, a failure named a node and left a log.
  int instantiate(void** exec, void* graph) {
    void* failed = dead_;
    char log[2] = "x";
    if (GetParam() > 11) return call("cudaGraphInstantiate", exec, graph, kNoFlags);
    const int status = call("cudaGraphInstantiate", exec, graph, &failed, &log[0], sizeof(log));
    EXPECT_EQ(failed, status == kSuccess ? dead_ : nullptr);
    EXPECT_STREQ(log, status == kSuccess ? "x" : "");
    return status;
  }

  /// Until CUDA 11, the two parts of the result were two arguments.
  int update(void* exec, UpdateResult* result) {
    if (GetParam() > 11) return call("cudaGraphExecUpdate", exec, graph_, result);
    if (result == nullptr) return call("cudaGraphExecUpdate", exec, graph_, none_, none_);
    return call("cudaGraphExecUpdate", exec, graph_, &result->error_node, &result->result);
  }

  void* add_empty() {
    void* node = nullptr;
    EXPECT_EQ(call("cudaGraphAddEmptyNode", &node, graph_, none_, size_t{0}), kSuccess);
    return node;
  }

  void *graph_ = nullptr, *stream_ = nullptr;
};

TEST_P(RuntimeGraphs, GraphsAreClonedAndListed) {
  void *clone = nullptr, *first = add_empty(), *second = add_empty();
  const bool with_data = GetParam() == 13;
  ASSERT_EQ(with_data ? call("cudaGraphAddDependencies", graph_, &first, &second, none_, size_t{1})
                      : call("cudaGraphAddDependencies", graph_, &first, &second, size_t{1}),
            kSuccess);
  EXPECT_EQ(call("cudaGraphClone", &clone, graph_), kSuccess);
  EXPECT_EQ(call("cudaGraphClone", none_, graph_), kInvalidValue);
  std::array<void*, 3> nodes{dead_, dead_, dead_};
  size_t count = 3;
  EXPECT_EQ(call("cudaGraphGetNodes", graph_, nodes.data(), &count), kSuccess);
  EXPECT_EQ(count, 2U);
  EXPECT_EQ(nodes, (std::array<void*, 3>{first, second, nullptr}));
  nodes.fill(dead_);
  count = 3;
  EXPECT_EQ(call("cudaGraphGetRootNodes", graph_, nodes.data(), &count), kSuccess);
  EXPECT_EQ(count, 1U);
  EXPECT_EQ(nodes, (std::array<void*, 3>{first, nullptr, nullptr}));
  count = 0;
  EXPECT_EQ(call("cudaGraphGetRootNodes", graph_, none_, &count), kSuccess);
  EXPECT_EQ(count, 1U);
  count = 0;
  EXPECT_EQ(call("cudaGraphGetRootNodes", graph_, nodes.data(), &count), kSuccess);
  EXPECT_EQ(count, 0U) << "as many as were asked for";
  each({"cudaGraphGetNodes", "cudaGraphGetRootNodes"}, kInvalidValue, graph_, none_, none_);
  each({"cudaGraphGetNodes", "cudaGraphGetRootNodes"}, kInvalidValue, dead_, none_, &count);
  const std::string path =
      testing::TempDir() + "gpemu_runtime_graph_test_" + std::to_string(GetParam()) + ".dot";
  EXPECT_EQ(call("cudaGraphDebugDotPrint", graph_, path.c_str(), 0U), kSuccess);
  std::string word;
  EXPECT_TRUE(std::ifstream(path) >> word);
  EXPECT_EQ(word, "digraph");
  EXPECT_EQ(std::remove(path.c_str()), 0);
  EXPECT_EQ(call("cudaGraphDebugDotPrint", graph_, none_, 0U), kInvalidValue);
  EXPECT_EQ(call("cudaGraphDestroyNode", second), kSuccess);
  EXPECT_EQ(call("cudaGraphDestroyNode", second), kInvalidValue);
  EXPECT_EQ(call("cudaGraphDestroy", clone), kSuccess);
}

/// Since CUDA 12.3, edges have data; CUDA 13 has no functions without.
TEST_P(RuntimeGraphs, EdgesAreListedAndRemoved) {
  for (const bool with_data : {false, true}) {
    if (GetParam() == 13 && !with_data) continue;
    const EdgeData programmatic{{0, 0, 1}};
    EdgeData plain{};
    const auto edges = [&](std::string function, const EdgeData* data, auto count, auto... nodes) {
      if (!with_data) return call(function.c_str(), nodes..., count);
      function += GetParam() < 13 ? "_v2" : "";
      return call(function.c_str(), nodes..., data, count);
    };
    const char *const add = "cudaGraphAddDependencies", *const get = "cudaGraphGetEdges",
                      *const remove = "cudaGraphRemoveDependencies";
    void *first = add_empty(), *second = add_empty(), *from = nullptr, *to = nullptr;
    size_t count = 1;
    EXPECT_EQ(edges(add, &plain, size_t{1}, graph_, &first, &second), kSuccess);
    EXPECT_EQ(edges(add, &plain, size_t{1}, dead_, &first, &second), kInvalidValue);
    EXPECT_EQ(edges(add, &plain, size_t{1}, graph_, none_, none_), kInvalidValue);
    EXPECT_EQ(edges(get, &plain, &count, graph_, &from, &to), kSuccess);
    EXPECT_EQ(from, first);
    EXPECT_EQ(to, second);
    EXPECT_EQ(edges(get, &plain, none_, graph_, &from, &to), kInvalidValue);
    EXPECT_EQ(edges(get, &plain, &count, dead_, &from, &to), kInvalidValue);
    for (const auto& [list, node, expected] :
         {std::tuple{"cudaGraphNodeGetDependencies", second, first},
          {"cudaGraphNodeGetDependentNodes", first, second}}) {
      void* found = nullptr;
      count = 1;
      EXPECT_EQ(edges(list, &plain, &count, node, &found), kSuccess) << list;
      EXPECT_EQ(found, expected) << list;
      EXPECT_EQ(edges(list, &plain, none_, node, &found), kInvalidValue) << list;
      EXPECT_EQ(edges(list, &plain, &count, dead_, &found), kInvalidValue) << list;
    }
    if (with_data) {
      EXPECT_EQ(edges(add, &programmatic, size_t{1}, graph_, &first, &second), kNotSupported);
      EXPECT_EQ(edges(remove, &programmatic, size_t{1}, graph_, &first, &second), kNotSupported);
    }
    EXPECT_EQ(edges(remove, &plain, size_t{1}, graph_, &first, &second), kSuccess);
    EXPECT_EQ(edges(remove, &plain, size_t{1}, graph_, &first, &second), kInvalidValue);
    count = 9;
    EXPECT_EQ(edges(get, &plain, &count, graph_, none_, none_), kSuccess);
    EXPECT_EQ(count, 0U);
  }
}

TEST_P(RuntimeGraphs, KernelsAndCopiesAreAddedAndChanged) {
  int binary = 0, function = 0;
  void* const registered = call_as<void*>("__cudaRegisterFatBinary", &binary);
  call_as<void>("__cudaRegisterFunction", registered, &function, none_, "add", -1, none_, none_,
                none_, none_, none_);
  void* const memory = allocate(128);
  void *kernel_node = nullptr, *copy_node = nullptr, *plain_node = nullptr, *exec = nullptr;
  KernelParameters kernel{&function, {1, 1, 1}, {32, 1, 1}, 0, nullptr, nullptr};
  Copy3D copy{};
  copy.source = copy.destination = {memory, 64, 64, 1};
  copy.destination_position.x = 64;
  copy.extent = {64, 1, 1};
  copy.kind = kOnDevice;
  const auto plain = [&](const char* name, int kind, auto... nodes) {
    return call(name, nodes..., memory, memory, size_t{64}, kind);
  };
  const auto add = [&](const char* name, void** node, void* graph, auto* parameters) {
    return call(name, node, graph, none_, size_t{0}, parameters);
  };
  EXPECT_EQ(add("cudaGraphAddKernelNode", &kernel_node, graph_, &kernel), kSuccess);
  EXPECT_EQ(add("cudaGraphAddMemcpyNode", &copy_node, graph_, &copy), kSuccess);
  for (const char* name : {"cudaGraphAddKernelNode", "cudaGraphAddMemcpyNode"}) {
    EXPECT_EQ(call(name, &plain_node, graph_, none_, size_t{0}, none_), kInvalidValue) << name;
  }
  const char* const add_plain = "cudaGraphAddMemcpyNode1D";
  EXPECT_EQ(plain(add_plain, kOnDevice, &plain_node, graph_, none_, size_t{0}), kSuccess);
  EXPECT_EQ(plain(add_plain, 5, &plain_node, graph_, none_, size_t{0}), kInvalidDirection);
  KernelParameters unknown = kernel;
  unknown.function = &binary;
  EXPECT_EQ(add("cudaGraphAddKernelNode", &kernel_node, graph_, &unknown),
            GetParam() < 13 ? kInvalidFunction : kInvalidHandle);
  ASSERT_EQ(call("cudaGraphInstantiateWithFlags", &exec, graph_, kNoFlags), kSuccess);
  EXPECT_EQ(call("cudaGraphInstantiateWithFlags", &exec, dead_, kNoFlags), kInvalidValue);
  EXPECT_EQ(call("cudaGraphKernelNodeSetParams", kernel_node, &kernel), kSuccess);
  EXPECT_EQ(call("cudaGraphKernelNodeSetParams", copy_node, &kernel), kInvalidValue);
  EXPECT_EQ(call("cudaGraphExecKernelNodeSetParams", exec, kernel_node, &kernel), kSuccess);
  EXPECT_EQ(call("cudaGraphExecKernelNodeSetParams", exec, copy_node, &kernel), kInvalidValue);
  EXPECT_EQ(call("cudaGraphMemcpyNodeSetParams", copy_node, &copy), kSuccess);
  EXPECT_EQ(call("cudaGraphMemcpyNodeSetParams", kernel_node, &copy), kInvalidValue);
  EXPECT_EQ(call("cudaGraphExecMemcpyNodeSetParams", exec, copy_node, &copy), kSuccess);
  EXPECT_EQ(call("cudaGraphExecMemcpyNodeSetParams", exec, kernel_node, &copy), kInvalidValue);
  EXPECT_EQ(plain("cudaGraphMemcpyNodeSetParams1D", kOnDevice, plain_node), kSuccess);
  EXPECT_EQ(plain("cudaGraphMemcpyNodeSetParams1D", kOnDevice, kernel_node), kInvalidValue);
  EXPECT_EQ(plain("cudaGraphExecMemcpyNodeSetParams1D", kOnDevice, exec, plain_node), kSuccess);
  EXPECT_EQ(plain("cudaGraphExecMemcpyNodeSetParams1D", 5, exec, plain_node), kInvalidDirection);
  EXPECT_EQ(call("cudaGraphLaunch", exec, stream_), kSuccess);
  EXPECT_EQ(call("cudaStreamSynchronize", stream_), kSuccess);
  EXPECT_EQ(call("cudaGraphExecDestroy", exec), kSuccess);
  EXPECT_EQ(call("cudaFree", memory), kSuccess);
  call_as<void>("__cudaUnregisterFatBinary", registered);
}

TEST_P(RuntimeGraphs, NodesOfAnyKindAreAdded) {
  int calls = 0;
  void* node = nullptr;
  NodeParameters any{.kind = kHostNode,
                     .host = {[](void* data) { ++*static_cast<int*>(data); }, &calls}};
  NodeParameters memory_node{.kind = 10};  // cudaGraphNodeTypeMemAlloc
  const std::string with_data = GetParam() < 13 ? "cudaGraphAddNode_v2" : "cudaGraphAddNode";
  const auto add = [&](void** result, auto* parameters) {
    return call(with_data.c_str(), result, graph_, none_, none_, size_t{0}, parameters);
  };
  EXPECT_EQ(add(&node, &any), kSuccess);
  EXPECT_EQ(add(&node, static_cast<NodeParameters*>(nullptr)), kInvalidValue);
  EXPECT_EQ(add(nullptr, &any), kInvalidValue);
  EXPECT_EQ(add(&node, &memory_node), kNotSupported);
  const EdgeData programmatic{{0, 0, 1}};
  EXPECT_EQ(call(with_data.c_str(), &node, graph_, &node, &programmatic, size_t{1}, &any),
            kNotSupported);
  if (GetParam() < 13) {
    EXPECT_EQ(call("cudaGraphAddNode", &node, graph_, none_, size_t{0}, &any), kSuccess);
    EXPECT_EQ(call("cudaGraphAddNode", &node, dead_, none_, size_t{0}, &any), kInvalidValue);
  }
  EXPECT_EQ(call("cudaGraphAddEmptyNode", &node, dead_, none_, size_t{0}), kInvalidValue);
  twins("cudaGraphInstantiateWithParams", kInvalidValue, &node, graph_, none_);
  for (const char* name :
       {"cudaGraphInstantiateWithParams", "cudaGraphInstantiateWithParams_ptsz"}) {
    void* exec = nullptr;
    InstantiateParameters parameters{16, nullptr, dead_, 0};
    EXPECT_EQ(call(name, &exec, graph_, &parameters), kInvalidValue) << "no such flag";
    EXPECT_EQ(parameters.result, 1) << "cudaGraphInstantiateError";
    parameters.flags = 0;
    EXPECT_EQ(call(name, &exec, graph_, &parameters), kSuccess) << name;
    EXPECT_EQ(parameters.result, 0) << name;
    EXPECT_EQ(parameters.error_node, nullptr) << name;
    calls = 0;
    EXPECT_EQ(call("cudaGraphLaunch", exec, stream_), kSuccess);
    EXPECT_EQ(call("cudaStreamSynchronize", stream_), kSuccess);
    EXPECT_EQ(calls, GetParam() < 13 ? 2 : 1);
    EXPECT_EQ(call("cudaGraphExecDestroy", exec), kSuccess);
  }
}

TEST_P(RuntimeGraphs, ParametersOfNodesAreReadBack) {
  int calls = 0, other_calls = 0, kind = -1;
  const auto count = [](void* data) { ++*static_cast<int*>(data); };
  void *host_node = nullptr, *set_node = nullptr, *record_node = nullptr, *wait_node = nullptr;
  void *child_node = nullptr, *event = nullptr, *child = nullptr, *part = nullptr;
  void* const memory = allocate(64);
  HostParameters host{count, &calls}, host_got{};
  SetParameters set{memory, 0, 5, 4, 4, 1}, set_got{};
  ASSERT_EQ(call("cudaEventCreate", &event), kSuccess);
  ASSERT_EQ(call("cudaGraphCreate", &child, 0U), kSuccess);
  const auto add = [&](const char* function, void** node, auto parameters) {
    EXPECT_EQ(call(function, node, graph_, none_, size_t{0}, parameters), kSuccess) << function;
    EXPECT_EQ(call(function, none_, graph_, none_, size_t{0}, parameters), kInvalidValue);
    void* other = nullptr;
    EXPECT_EQ(call(function, &other, dead_, none_, size_t{0}, parameters), kInvalidValue);
  };
  add("cudaGraphAddHostNode", &host_node, &host);
  add("cudaGraphAddMemsetNode", &set_node, &set);
  add("cudaGraphAddEventRecordNode", &record_node, event);
  add("cudaGraphAddEventWaitNode", &wait_node, event);
  add("cudaGraphAddChildGraphNode", &child_node, child);
  EXPECT_EQ(call("cudaGraphNodeGetType", host_node, &kind), kSuccess);
  EXPECT_EQ(kind, kHostNode);
  EXPECT_EQ(call("cudaGraphNodeGetType", dead_, &kind), kInvalidValue);
  EXPECT_EQ(call("cudaGraphHostNodeGetParams", host_node, &host_got), kSuccess);
  EXPECT_EQ(host_got.data, &calls);
  EXPECT_EQ(call("cudaGraphMemsetNodeGetParams", set_node, &set_got), kSuccess);
  EXPECT_EQ(set_got.destination, memory);
  EXPECT_EQ(set_got.value, 5U);
  for (const auto& [get, node] : {std::pair{"cudaGraphEventRecordNodeGetEvent", record_node},
                                  {"cudaGraphEventWaitNodeGetEvent", wait_node}}) {
    part = nullptr;
    EXPECT_EQ(call(get, node, &part), kSuccess) << get;
    EXPECT_EQ(part, event) << get;
  }
  EXPECT_EQ(call("cudaGraphChildGraphNodeGetGraph", child_node, &part), kSuccess);
  for (const char* get : {"cudaGraphHostNodeGetParams", "cudaGraphMemsetNodeGetParams",
                          "cudaGraphEventRecordNodeGetEvent", "cudaGraphEventWaitNodeGetEvent",
                          "cudaGraphChildGraphNodeGetGraph"}) {
    void* const other = get == std::string("cudaGraphHostNodeGetParams") ? set_node : host_node;
    EXPECT_EQ(call(get, other, &part), kInvalidValue) << get;
    EXPECT_EQ(call(get, dead_, &part), kInvalidValue) << get;
    EXPECT_EQ(call(get, host_node, none_), kInvalidValue) << get;
  }
  void* exec = nullptr;
  ASSERT_EQ(instantiate(&exec, graph_), kSuccess);
  void* none = nullptr;
  EXPECT_EQ(instantiate(&none, dead_), kInvalidValue);
  host.data = &other_calls;
  EXPECT_EQ(call("cudaGraphExecHostNodeSetParams", exec, host_node, &host), kSuccess);
  EXPECT_EQ(call("cudaGraphExecHostNodeSetParams", exec, set_node, &host), kInvalidValue);
  EXPECT_EQ(call("cudaGraphHostNodeSetParams", host_node, &host), kSuccess);
  EXPECT_EQ(call("cudaGraphHostNodeSetParams", set_node, &host), kInvalidValue);
  EXPECT_EQ(call("cudaGraphMemsetNodeSetParams", set_node, &set), kSuccess);
  EXPECT_EQ(call("cudaGraphMemsetNodeSetParams", host_node, &set), kInvalidValue);
  for (const std::string event_kind : {"EventRecord", "EventWait"}) {
    void* const node = event_kind == "EventWait" ? wait_node : record_node;
    const std::string of_graph = "cudaGraph" + event_kind + "NodeSetEvent";
    const std::string of_exec = "cudaGraphExec" + event_kind + "NodeSetEvent";
    EXPECT_EQ(call(of_graph.c_str(), node, event), kSuccess) << of_graph;
    EXPECT_EQ(call(of_graph.c_str(), host_node, event), kInvalidValue) << of_graph;
    EXPECT_EQ(call(of_exec.c_str(), exec, node, event), kSuccess) << of_exec;
    EXPECT_EQ(call(of_exec.c_str(), dead_, node, event), kInvalidValue) << of_exec;
  }
  NodeParameters any{.kind = kHostNode, .host = host};
  any.host.data = &calls;
  EXPECT_EQ(call("cudaGraphExecNodeSetParams", exec, host_node, &any), kSuccess);
  EXPECT_EQ(call("cudaGraphExecNodeSetParams", exec, set_node, &any), kInvalidValue);
  EXPECT_EQ(call("cudaGraphNodeSetParams", host_node, &any), kSuccess);
  EXPECT_EQ(call("cudaGraphNodeSetParams", set_node, &any), kInvalidValue);
  EXPECT_EQ(call("cudaGraphNodeSetEnabled", exec, set_node, 0U), kSuccess);
  EXPECT_EQ(call("cudaGraphNodeSetEnabled", exec, host_node, 0U), kInvalidValue);
  twins("cudaGraphUpload", kSuccess, exec, stream_);
  twins("cudaGraphLaunch", kSuccess, exec, stream_);
  twins("cudaGraphUpload", kInvalidValue, dead_, stream_);
  twins("cudaGraphLaunch", kInvalidValue, dead_, stream_);
  EXPECT_EQ(call("cudaStreamSynchronize", stream_), kSuccess);
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(other_calls, 0);
  UpdateResult result{-1, dead_, dead_};
  EXPECT_EQ(update(exec, &result), kSuccess);
  EXPECT_EQ(result.result, 0);
  add_empty();
  EXPECT_EQ(update(exec, &result), kUpdateFailure);
  EXPECT_EQ(update(exec, nullptr), kInvalidValue);
  EXPECT_EQ(call("cudaGraphExecDestroy", exec), kSuccess);
  EXPECT_EQ(call("cudaGraphExecDestroy", exec), kInvalidValue);
  EXPECT_EQ(call("cudaGraphDestroy", child), kSuccess);
  EXPECT_EQ(call("cudaEventDestroy", event), kSuccess);
  EXPECT_EQ(call("cudaFree", memory), kSuccess);
}

TEST_P(RuntimeGraphs, GraphsOwnObjects) {
  constexpr unsigned kNoDestructorSync = 1, kMove = 1;
  int destroyed = 0;
  const auto destroy = static_cast<void (*)(void*)>([](void* data) { ++*static_cast<int*>(data); });
  void* object = nullptr;
  const char* const create = "cudaUserObjectCreate";
  EXPECT_EQ(call(create, &object, &destroyed, destroy, 1U, 0U), kInvalidValue);
  ASSERT_EQ(call(create, &object, &destroyed, destroy, 1U, kNoDestructorSync), kSuccess);
  EXPECT_EQ(call("cudaUserObjectRetain", object, 1U), kSuccess);
  EXPECT_EQ(call("cudaUserObjectRelease", object, 1U), kSuccess);
  each({"cudaUserObjectRetain", "cudaUserObjectRelease"}, kInvalidValue, object, 0U);
  EXPECT_EQ(call("cudaGraphRetainUserObject", graph_, object, 1U, kMove), kSuccess);
  EXPECT_EQ(call("cudaGraphRetainUserObject", graph_, object, 1U, 2U), kInvalidValue);
  EXPECT_EQ(destroyed, 0);
  EXPECT_EQ(call("cudaGraphReleaseUserObject", graph_, object, 1U), kSuccess);
  EXPECT_EQ(destroyed, 1);
  EXPECT_EQ(call("cudaGraphReleaseUserObject", graph_, object, 1U), kInvalidValue);
}

GPEMU_FOR_ALL_RUNTIMES(RuntimeGraphs);

}  // namespace
