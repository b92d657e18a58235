// SPDX-License-Identifier: Apache-2.0
// The driver's graphs: one good call of each function and one bad one.
#include <array>
#include <vector>

#include "driver_test.hpp"

namespace {

// CUDA_MEMSET_NODE_PARAMS, CUDA_HOST_NODE_PARAMS, and the end of a copy.
struct SetParameters {
  Address destination;
  size_t pitch;
  unsigned value, element_bytes;
  size_t width, height;
};
struct HostParameters {
  void (*function)(void*);
  void* data;
};
struct CopyEnd {
  size_t x_bytes, y, z, level;
  unsigned type;
  const void* host;
  Address device;
  void *array, *reserved;
  size_t pitch, height;
};
struct CopyParameters {
  CopyEnd source, destination;
  size_t width_bytes, height, depth;
};
/// CUDA_KERNEL_NODE_PARAMS_v2, which begins with the first version.
struct KernelParameters {
  void* function;
  unsigned grid[3], block[3], shared_bytes;
  void **arguments, **extra;
  void *kernel, *context;
};
constexpr int kKernelNode = 0, kCopyNode = 1, kSetNode = 2, kHostNode = 3, kGraphNode = 4,
              kEmptyNode = 5, kWaitNode = 6, kRecordNode = 7;
constexpr uint64_t kNoFlags = 0;

class DriverGraph : public Driver {
 protected:
  void SetUp() override {
    Driver::SetUp();
    ASSERT_EQ(call("cuGraphCreate", &graph_, 0U), kSuccess);
    ASSERT_EQ(call("cuStreamCreate", &stream_, 1U), kSuccess);
    ASSERT_EQ(call("cuEventCreate", &event_, 0U), kSuccess);
    memory_ = allocate(64);
  }
  void TearDown() override {
    each({"cuMemFree_v2"}, kSuccess, memory_);
    EXPECT_EQ(call("cuEventDestroy", event_), kSuccess);
    EXPECT_EQ(call("cuStreamDestroy", stream_), kSuccess);
    EXPECT_EQ(call("cuGraphDestroy", graph_), kSuccess);
    Driver::TearDown();
  }

  /// Adds a node of any kind without dependencies.
  template <typename... Parameters>
  void* add(const char* function, Parameters... parameters) {
    void* node = nullptr;
    EXPECT_EQ(call(function, &node, graph_, none_, size_t{0}, parameters...), kSuccess) << function;
    EXPECT_EQ(call(function, none_, graph_, none_, size_t{0}, parameters...), kInvalidValue)
        << function;
    EXPECT_EQ(call(function, &node, graph_, none_, size_t{1}, parameters...), kInvalidValue)
        << function;
    void* other = nullptr;
    EXPECT_EQ(call(function, &other, dead_, none_, size_t{0}, parameters...), kInvalidValue)
        << function;
    return node;
  }
  void* add_empty() { return add("cuGraphAddEmptyNode"); }

  void* instantiate() {
    void* exec = nullptr;
    EXPECT_EQ(call("cuGraphInstantiateWithFlags", &exec, graph_, kNoFlags), kSuccess);
    return exec;
  }

  void run(void* exec) {
    EXPECT_EQ(call("cuGraphLaunch", exec, stream_), kSuccess);
    EXPECT_EQ(call("cuStreamSynchronize", stream_), kSuccess);
  }

  size_t nodes_of(void* graph) {
    size_t count = 0;
    EXPECT_EQ(call("cuGraphGetNodes", graph, none_, &count), kSuccess);
    return count;
  }

  int kind_of(void* node) {
    int kind = -1;
    EXPECT_EQ(call("cuGraphNodeGetType", node, &kind), kSuccess);
    return kind;
  }

  void *graph_ = nullptr, *stream_ = nullptr, *event_ = nullptr;
  Address memory_ = 0;
};

TEST_F(DriverGraph, GraphsAreClonedAndDestroyed) {
  void *clone = nullptr, *node = add_empty();
  EXPECT_EQ(call("cuGraphClone", &clone, graph_), kSuccess);
  EXPECT_EQ(call("cuGraphDestroyNode", node), kSuccess);
  EXPECT_EQ(nodes_of(graph_), 0U);
  EXPECT_EQ(nodes_of(clone), 1U);
  EXPECT_EQ(call("cuGraphDestroy", clone), kSuccess);
  each({"cuGraphDestroy", "cuGraphDestroyNode"}, kInvalidValue, dead_);
  EXPECT_EQ(call("cuGraphDestroyNode", node), kInvalidValue);
  EXPECT_EQ(call("cuGraphClone", &clone, dead_), kInvalidValue);
  EXPECT_EQ(call("cuGraphClone", none_, graph_), kInvalidValue);
  EXPECT_EQ(call("cuGraphCreate", &clone, 1U), kInvalidValue);
  EXPECT_EQ(call("cuGraphGetNodes", graph_, none_, none_), kInvalidValue);
  EXPECT_EQ(call("cuGraphNodeGetType", dead_, &clone), kInvalidValue);
}

TEST_F(DriverGraph, NodesDependOnEachOther) {
  void *first = add_empty(), *second = add_empty();
  const EdgeData plain{}, programmatic{{0, 0, 1}};
  const struct {
    const char *connect, *disconnect, *edges, *before, *after;
    bool with_data;
  } versions[] = {
      {"cuGraphAddDependencies", "cuGraphRemoveDependencies", "cuGraphGetEdges",
       "cuGraphNodeGetDependencies", "cuGraphNodeGetDependentNodes", false},
      {"cuGraphAddDependencies_v2", "cuGraphRemoveDependencies_v2", "cuGraphGetEdges_v2",
       "cuGraphNodeGetDependencies_v2", "cuGraphNodeGetDependentNodes_v2", true}};
  for (const auto& [connect, disconnect, edges, before, after, with_data] : versions) {
    const auto change = [&](const char* function, void* graph, const EdgeData* data) {
      return with_data ? call(function, graph, &first, &second, data, size_t{1})
                       : call(function, graph, &first, &second, size_t{1});
    };
    EXPECT_EQ(change(connect, graph_, &plain), kSuccess) << connect;
    EXPECT_EQ(change(connect, graph_, &plain), kInvalidValue) << connect << ": it is there";
    EXPECT_EQ(change(connect, dead_, &plain), kInvalidValue) << connect;
    if (with_data) {
      EXPECT_EQ(change(connect, graph_, &programmatic), kNotSupported) << connect;
    }
    void *from = nullptr, *to = nullptr;
    EdgeData data = programmatic;
    size_t count = 1;
    EXPECT_EQ(with_data ? call(edges, graph_, &from, &to, &data, &count)
                        : call(edges, graph_, &from, &to, &count),
              kSuccess);
    EXPECT_EQ(from, first) << edges;
    EXPECT_EQ(to, second) << edges;
    EXPECT_EQ(data.bytes[2], with_data ? 0 : 1) << edges;
    for (const auto& [function, node, expected] :
         {std::tuple{before, second, first}, {after, first, second}}) {
      std::array<void*, 2> found{nullptr, dead_};
      std::array<EdgeData, 2> of_found{programmatic, programmatic};
      count = 2;
      EXPECT_EQ(with_data ? call(function, node, found.data(), of_found.data(), &count)
                          : call(function, node, found.data(), &count),
                kSuccess);
      EXPECT_EQ(found, (std::array<void*, 2>{expected, nullptr})) << function;
      EXPECT_EQ(count, 1U) << function;
      EXPECT_EQ(of_found[0].bytes[2], with_data ? 0 : 1) << function;
      EXPECT_EQ(with_data ? call(function, dead_, none_, none_, &count)
                          : call(function, dead_, none_, &count),
                kInvalidValue)
          << function;
      EXPECT_EQ(with_data ? call(function, node, none_, none_, none_)
                          : call(function, node, none_, none_),
                kInvalidValue)
          << function;
    }
    EXPECT_EQ(with_data ? call(edges, graph_, &from, none_, none_, &count)
                        : call(edges, graph_, &from, none_, &count),
              kInvalidValue)
        << edges;
    EXPECT_EQ(change(disconnect, graph_, &plain), kSuccess) << disconnect;
    EXPECT_EQ(change(disconnect, graph_, &plain), kInvalidValue) << disconnect << ": it is gone";
  }
}

TEST_F(DriverGraph, NodesDoWhatTheirParametersSay) {
  std::vector<unsigned> result(4, 0);
  int calls = 0;
  const auto count = [](void* data) { ++*static_cast<int*>(data); };
  SetParameters set{memory_, 0, 5, 4, 4, 1};
  HostParameters host{count, &calls};
  CopyParameters copy{.source = {.type = kDevice, .device = memory_},
                      .destination = {.type = kHost, .host = result.data()},
                      .width_bytes = 16,
                      .height = 1,
                      .depth = 1};
  void* const set_node = add("cuGraphAddMemsetNode", &set, context_);
  void* const copy_node = add("cuGraphAddMemcpyNode", &copy, context_);
  void* const host_node = add("cuGraphAddHostNode", &host);
  void* const record_node = add("cuGraphAddEventRecordNode", event_);
  void* const wait_node = add("cuGraphAddEventWaitNode", event_);
  for (const auto& [node, kind] : {std::pair{set_node, kSetNode},
                                   {copy_node, kCopyNode},
                                   {host_node, kHostNode},
                                   {record_node, kRecordNode},
                                   {wait_node, kWaitNode},
                                   {add_empty(), kEmptyNode}}) {
    EXPECT_EQ(kind_of(node), kind);
  }
  void* refused = nullptr;
  for (const char* function : {"cuGraphAddMemsetNode", "cuGraphAddMemcpyNode", "cuGraphAddHostNode",
                               "cuGraphAddKernelNode", "cuGraphAddKernelNode_v2"}) {
    EXPECT_EQ(call(function, &refused, graph_, none_, size_t{0}, none_, none_), kInvalidValue)
        << function;
  }
  for (const char* function : {"cuGraphAddEventRecordNode", "cuGraphAddEventWaitNode"}) {
    EXPECT_EQ(call(function, &refused, graph_, none_, size_t{0}, dead_), kInvalidHandle);
  }
  EXPECT_EQ(call("cuGraphAddDependencies", graph_, &set_node, &copy_node, size_t{1}), kSuccess);
  void* exec = instantiate();
  run(exec);
  EXPECT_EQ(result, std::vector<unsigned>(4, 5));
  EXPECT_EQ(calls, 1);
  // Changes of the executable graph, then of the graph, which the executable one does not see.
  const auto change = [&](const char* kind, void* node, void* other, auto* parameters) {
    const std::string of_exec = std::string("cuGraphExec") + kind + "SetParams";
    const std::string of_graph = std::string("cuGraph") + kind + "SetParams";
    EXPECT_EQ(call(of_exec.c_str(), exec, node, parameters, context_), kSuccess) << of_exec;
    EXPECT_EQ(call(of_exec.c_str(), exec, other, parameters, context_), kInvalidValue) << of_exec;
    EXPECT_EQ(call(of_exec.c_str(), exec, node, none_, context_), kInvalidValue) << of_exec;
    EXPECT_EQ(call(of_exec.c_str(), dead_, node, parameters, context_), kInvalidValue) << of_exec;
    EXPECT_EQ(call(of_graph.c_str(), node, parameters), kSuccess) << of_graph;
    EXPECT_EQ(call(of_graph.c_str(), other, parameters), kInvalidValue) << of_graph;
    EXPECT_EQ(call(of_graph.c_str(), dead_, parameters), kInvalidValue) << of_graph;
    EXPECT_EQ(call(of_graph.c_str(), node, none_), kInvalidValue) << of_graph;
  };
  int other_calls = 0;
  set.value = 6;
  host.data = &other_calls;
  copy.destination.host = &result[2];
  copy.width_bytes = 8;
  change("MemsetNode", set_node, copy_node, &set);
  change("MemcpyNode", copy_node, set_node, &copy);
  change("HostNode", host_node, set_node, &host);
  run(exec);
  EXPECT_EQ(result, (std::vector<unsigned>{5, 5, 6, 6}));
  EXPECT_EQ(other_calls, 1);
  EXPECT_EQ(calls, 1);
  for (const auto& [kind, node] :
       {std::pair{"EventRecord", record_node}, {"EventWait", wait_node}}) {
    const std::string of_exec = std::string("cuGraphExec") + kind + "NodeSetEvent";
    const std::string of_graph = std::string("cuGraph") + kind + "NodeSetEvent";
    EXPECT_EQ(call(of_exec.c_str(), exec, node, event_), kSuccess) << of_exec;
    EXPECT_EQ(call(of_exec.c_str(), exec, set_node, event_), kInvalidValue) << of_exec;
    EXPECT_EQ(call(of_exec.c_str(), exec, node, dead_), kInvalidHandle) << of_exec;
    EXPECT_EQ(call(of_exec.c_str(), dead_, node, event_), kInvalidValue) << of_exec;
    EXPECT_EQ(call(of_graph.c_str(), node, event_), kSuccess) << of_graph;
    EXPECT_EQ(call(of_graph.c_str(), set_node, event_), kInvalidValue) << of_graph;
  }
  result.assign(4, 0);
  EXPECT_EQ(call("cuGraphNodeSetEnabled", exec, copy_node, 0U), kSuccess);
  run(exec);
  EXPECT_EQ(result, std::vector<unsigned>(4, 0));
  EXPECT_EQ(call("cuGraphNodeSetEnabled", exec, host_node, 0U), kInvalidValue);
  EXPECT_EQ(call("cuGraphExecDestroy", exec), kSuccess);
  EXPECT_EQ(call("cuGraphExecDestroy", exec), kInvalidValue);
}

TEST_F(DriverGraph, KernelsAndGraphsAreNodes) {
  static constexpr char kText[] = ".version 7.0\n.target sm_70\n";
  void *module = nullptr, *kernel = nullptr, *child = nullptr;
  ASSERT_EQ(call("cuModuleLoadData", &module, kText), kSuccess);
  ASSERT_EQ(call("cuModuleGetFunction", &kernel, module, "kernel"), kSuccess);
  KernelParameters parameters{kernel, {1, 1, 1}, {32, 1, 1}, 0, nullptr, nullptr, nullptr, nullptr};
  for (const std::string suffix : {"", "_v2"}) {
    void* const other = add_empty();
    void* const node = add(("cuGraphAddKernelNode" + suffix).c_str(), &parameters);
    EXPECT_EQ(kind_of(node), kKernelNode);
    void* exec = instantiate();
    run(exec);
    const std::string of_exec = "cuGraphExecKernelNodeSetParams" + suffix;
    const std::string of_graph = "cuGraphKernelNodeSetParams" + suffix;
    EXPECT_EQ(call(of_exec.c_str(), exec, node, &parameters), kSuccess) << of_exec;
    EXPECT_EQ(call(of_exec.c_str(), exec, other, &parameters), kInvalidValue) << of_exec;
    EXPECT_EQ(call(of_exec.c_str(), exec, node, none_), kInvalidValue) << of_exec;
    EXPECT_EQ(call(of_graph.c_str(), node, &parameters), kSuccess) << of_graph;
    KernelParameters bad = parameters;
    bad.block[0] = 2048;
    EXPECT_EQ(call(of_graph.c_str(), node, &bad), kInvalidValue) << of_graph;
    bad = parameters;
    bad.function = dead_;
    EXPECT_EQ(call(of_graph.c_str(), node, &bad), kInvalidHandle) << of_graph;
    EXPECT_EQ(call("cuGraphExecDestroy", exec), kSuccess);
  }
  ASSERT_EQ(call("cuGraphCreate", &child, 0U), kSuccess);
  EXPECT_EQ(kind_of(add("cuGraphAddChildGraphNode", child)), kGraphNode);
  void* refused = nullptr;
  EXPECT_EQ(call("cuGraphAddChildGraphNode", &refused, graph_, none_, size_t{0}, dead_),
            kInvalidValue);
  EXPECT_EQ(call("cuGraphDestroy", child), kSuccess);
  EXPECT_EQ(call("cuModuleUnload", module), kSuccess);
}

}  // namespace
