// SPDX-License-Identifier: Apache-2.0
// The runtime's graphs and captures: one good call of each function and one bad one.
#include <array>
#include <cstdint>
#include <fstream>

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
  each({"cudaGraphGetNodes", "cudaGraphGetRootNodes"}, kInvalidHandle, dead_, none_, &count);
  const std::string path = testing::TempDir() + "gpemu_runtime_graph_test.dot";
  EXPECT_EQ(call("cudaGraphDebugDotPrint", graph_, path.c_str(), 0U), kSuccess);
  std::string word;
  EXPECT_TRUE(std::ifstream(path) >> word);
  EXPECT_EQ(word, "digraph");
  EXPECT_EQ(std::remove(path.c_str()), 0);
  EXPECT_EQ(call("cudaGraphDebugDotPrint", graph_, none_, 0U), kInvalidValue);
  EXPECT_EQ(call("cudaGraphDestroyNode", second), kSuccess);
  EXPECT_EQ(call("cudaGraphDestroyNode", second), kInvalidHandle);
  EXPECT_EQ(call("cudaGraphDestroy", clone), kSuccess);
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
    EXPECT_EQ(call(function, &other, dead_, none_, size_t{0}, parameters), kInvalidHandle);
  };
  add("cudaGraphAddHostNode", &host_node, &host);
  add("cudaGraphAddMemsetNode", &set_node, &set);
  add("cudaGraphAddEventRecordNode", &record_node, event);
  add("cudaGraphAddEventWaitNode", &wait_node, event);
  add("cudaGraphAddChildGraphNode", &child_node, child);
  EXPECT_EQ(call("cudaGraphNodeGetType", host_node, &kind), kSuccess);
  EXPECT_EQ(kind, kHostNode);
  EXPECT_EQ(call("cudaGraphNodeGetType", dead_, &kind), kInvalidHandle);
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
    EXPECT_EQ(call(get, dead_, &part), kInvalidHandle) << get;
    EXPECT_EQ(call(get, host_node, none_), kInvalidValue) << get;
  }
  void* exec = nullptr;
  ASSERT_EQ(call("cudaGraphInstantiate", &exec, graph_, kNoFlags), kSuccess);
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
    EXPECT_EQ(call(of_exec.c_str(), dead_, node, event), kInvalidHandle) << of_exec;
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
  twins("cudaGraphUpload", kInvalidHandle, dead_, stream_);
  twins("cudaGraphLaunch", kInvalidHandle, dead_, stream_);
  EXPECT_EQ(call("cudaStreamSynchronize", stream_), kSuccess);
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(other_calls, 0);
  UpdateResult result{-1, dead_, dead_};
  EXPECT_EQ(call("cudaGraphExecUpdate", exec, graph_, &result), kSuccess);
  EXPECT_EQ(result.result, 0);
  add_empty();
  EXPECT_EQ(call("cudaGraphExecUpdate", exec, graph_, &result), kUpdateFailure);
  EXPECT_EQ(call("cudaGraphExecDestroy", exec), kSuccess);
  EXPECT_EQ(call("cudaGraphExecDestroy", exec), kInvalidHandle);
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

GPEMU_FOR_BOTH_RUNTIMES(RuntimeGraphs);

}  // namespace
