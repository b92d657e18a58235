// SPDX-License-Identifier: Apache-2.0
// Calls x captures: what each call returns while a stream captures, in each mode of the capture and
// in both threads, and whether the capture is broken by it. Each row names where that stands.
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "cubin.hpp"
#include "loaded_libraries.hpp"

namespace {

constexpr int kSuccess = 0, kIllegalState = 401, kUnsupported = 900, kInvalidated = 901,
              kIsolation = 905, kImplicit = 906, kCapturedEvent = 907;
constexpr int kRelaxed = 2;
constexpr unsigned kNonBlocking = 1;
constexpr size_t kBytes = 4096;

/// When a call is refused.
enum class Rule {
  kLegal,   ///< never
  kUnsafe,  ///< with 900, where the modes forbid unsafe calls; that breaks the capture
  kBreaks,  ///< always, with the row's status; that breaks the capture
  kTold,    ///< always, with the row's status; the capture goes on
};

class CaptureTable;
struct Row {
  const char* call;
  Rule rule;
  int status;  ///< of kBreaks and kTold
  const char* source;
  std::function<int(CaptureTable&)> make;
  bool blocking = false;  ///< whether the capturing stream waits for the legacy one, too.
};

/// The driver, and a runtime by its major version.
class CaptureTable : public LoadedLibraries, public testing::WithParamInterface<int> {
 public:
  template <typename... Arguments>
  int make(const char* function, Arguments... arguments) {
    return call(function, arguments...);
  }
  /// Notes that a call ended an object.
  template <typename Object>
  static int ended(int status, Object*& object) {
    if (status == kSuccess) object = nullptr;
    return status;
  }

  void *stream_ = nullptr, *uninvolved_ = nullptr, *event_ = nullptr, *captured_ = nullptr;
  void *memory_ = nullptr, *spare_ = nullptr, *managed_ = nullptr, *pool_ = nullptr;
  void *exec_ = nullptr, *module_ = nullptr, *registered_ = nullptr;
  std::vector<void*> made_;
  char own_[2 * kBytes] = {}, registered_bytes_[kBytes] = {};

 protected:
  void SetUp() override {
    load({GPEMU_TEST_DRIVER, GetParam() == 12 ? GPEMU_TEST_RUNTIME_12 : GPEMU_TEST_RUNTIME_13});
    ASSERT_EQ(call("cuInit", 0U), kSuccess);
    ASSERT_EQ(call("cudaSetDevice", 0), kSuccess);
  }

  void prepare(bool blocking) {
    void* graph = nullptr;
    static const std::string code = cubin();
    ASSERT_EQ(call("cudaStreamCreateWithFlags", &stream_, blocking ? 0U : kNonBlocking), kSuccess);
    ASSERT_EQ(call("cudaStreamCreateWithFlags", &uninvolved_, kNonBlocking), kSuccess);
    ASSERT_EQ(call("cudaEventCreate", &event_), kSuccess);
    ASSERT_EQ(call("cudaEventCreate", &captured_), kSuccess);
    ASSERT_EQ(call("cudaEventRecord", event_, uninvolved_), kSuccess);
    ASSERT_EQ(call("cudaMalloc", &memory_, kBytes), kSuccess);
    ASSERT_EQ(call("cudaMalloc", &spare_, kBytes), kSuccess);
    ASSERT_EQ(call("cudaMallocManaged", &managed_, kBytes, 1U), kSuccess);
    ASSERT_EQ(call("cudaDeviceGetDefaultMemPool", &pool_, 0), kSuccess);
    ASSERT_EQ(call("cudaGraphCreate", &graph, 0U), kSuccess);
    ASSERT_EQ(call("cudaGraphInstantiateWithFlags", &exec_, graph, uint64_t{0}), kSuccess);
    ASSERT_EQ(call("cudaGraphDestroy", graph), kSuccess);
    ASSERT_EQ(call("cuModuleLoadData", &module_, static_cast<const void*>(code.data())), kSuccess);
    registered_ = &registered_bytes_[0];
    ASSERT_EQ(call("cudaHostRegister", registered_, kBytes, 0U), kSuccess);
    ASSERT_EQ(call("cudaDeviceSynchronize"), kSuccess);
  }

  void clean() {
    for (void* each : {memory_, spare_, managed_}) EXPECT_EQ(call("cudaFree", each), kSuccess);
    for (void* each : made_) EXPECT_EQ(call("cudaFree", each), kSuccess);
    for (void* each : {event_, captured_}) EXPECT_EQ(call("cudaEventDestroy", each), kSuccess);
    for (void* each : {stream_, uninvolved_}) EXPECT_EQ(call("cudaStreamDestroy", each), kSuccess);
    if (exec_ != nullptr) {
      EXPECT_EQ(call("cudaGraphExecDestroy", exec_), kSuccess);
    }
    if (module_ != nullptr) {
      EXPECT_EQ(call("cuModuleUnload", module_), kSuccess);
    }
    if (registered_ != nullptr) {
      EXPECT_EQ(call("cudaHostUnregister", registered_), kSuccess);
    }
    static_cast<void>(call("cudaHostUnregister", static_cast<void*>(&own_[0])));
    static_cast<void>(call_as<int>("cudaGetLastError"));
    made_.clear();
  }

  /// Makes a row's call during a capture, and expects what the row and the modes say.
  void check(const Row& row, int mode, bool elsewhere) {
    SCOPED_TRACE(std::string(row.call) + (elsewhere ? ", in another thread" : "") + ", mode " +
                 std::to_string(mode) + "; " + row.source);
    prepare(row.blocking);
    ASSERT_EQ(call("cudaStreamBeginCapture", stream_, mode), kSuccess);
    ASSERT_EQ(call("cudaMemsetAsync", memory_, 1, kBytes, stream_), kSuccess);
    ASSERT_EQ(call("cudaEventRecord", captured_, stream_), kSuccess);
    int status = -1;
    if (elsewhere) {
      std::thread([&] {
        EXPECT_EQ(call("cudaSetDevice", 0), kSuccess);
        status = row.make(*this);
      }).join();
    } else {
      status = row.make(*this);
    }
    // Source: cudaThreadExchangeStreamCaptureMode.
    const bool forbidden = elsewhere ? mode == 0 : mode != kRelaxed;
    const bool refused = row.rule == Rule::kUnsafe ? forbidden : row.rule != Rule::kLegal;
    EXPECT_EQ(status, !refused ? kSuccess : row.rule == Rule::kUnsafe ? kUnsupported : row.status);
    void* graph = nullptr;
    const bool broken = refused && row.rule != Rule::kTold;
    EXPECT_EQ(call("cudaStreamEndCapture", stream_, &graph), broken ? kInvalidated : kSuccess);
    EXPECT_EQ(graph == nullptr, broken);
    if (graph != nullptr) {
      EXPECT_EQ(call("cudaGraphDestroy", graph), kSuccess);
    }
    clean();
  }

  void check_all(const std::vector<Row>& rows) {
    for (const Row& row : rows) {
      for (int mode = 0; mode <= kRelaxed; ++mode) {
        for (const bool elsewhere : {false, true}) check(row, mode, elsewhere);
      }
    }
  }
};

using T = CaptureTable;
void no_function(void* /*data*/) {}
void no_callback(void* /*stream*/, int /*status*/, void* /*data*/) {}

constexpr const char* kGuide = "CUDA C++ Programming Guide, Prohibited and Unhandled Operations";
constexpr const char* kExchange = "cudaThreadExchangeStreamCaptureMode";
constexpr const char* kNone = nullptr;

int allocate(T& t, const char* function) {
  void* memory = nullptr;
  const int status = t.make(function, &memory, kBytes);
  if (status == kSuccess) t.made_.push_back(memory);
  return status;
}

TEST_P(CaptureTable, LegalCalls) {
  check_all({
      {"cudaMemsetAsync in the stream", Rule::kLegal, 0, "cudaStreamBeginCapture",
       [](T& t) { return t.make("cudaMemsetAsync", t.memory_, 1, kBytes, t.stream_); }},
      {"cudaMemcpyAsync in the stream", Rule::kLegal, 0, "cudaStreamBeginCapture",
       [](T& t) { return t.make("cudaMemcpyAsync", t.memory_, t.spare_, kBytes, 3, t.stream_); }},
      {"cudaLaunchHostFunc in the stream", Rule::kLegal, 0, "cudaStreamAddCallback",
       [](T& t) { return t.make("cudaLaunchHostFunc", t.stream_, no_function, kNone); }},
      {"cudaEventRecord in the stream", Rule::kLegal, 0, kGuide,
       [](T& t) { return t.make("cudaEventRecord", t.captured_, t.stream_); }},
      {"cudaMemsetAsync in another stream", Rule::kLegal, 0, kGuide,
       [](T& t) { return t.make("cudaMemsetAsync", t.spare_, 1, kBytes, t.uninvolved_); }},
      {"cudaMemsetAsync in the legacy stream, beside a non-blocking one", Rule::kLegal, 0,
       "github.com/spiriMirror/libuipc/pull/472",
       [](T& t) { return t.make("cudaMemsetAsync", t.spare_, 1, kBytes, kNone); }},
      {"cuMemsetD8Async in another stream", Rule::kLegal, 0, kGuide,
       [](T& t) { return t.make("cuMemsetD8Async", t.spare_, 1U, kBytes, t.uninvolved_); }},
      {"cudaDeviceGetAttribute", Rule::kLegal, 0, "github.com/NVIDIA/cccl/pull/11360",
       [](T& t) {
         int value = 0;
         return t.make("cudaDeviceGetAttribute", &value, 1, 0);
       }},
      {"cudaDeviceGetDefaultMemPool", Rule::kLegal, 0, "github.com/NVIDIA/cccl/pull/11360",
       [](T& t) {
         void* pool = nullptr;
         return t.make("cudaDeviceGetDefaultMemPool", &pool, 0);
       }},
      {"cuDeviceGetDefaultMemPool", Rule::kLegal, 0, "github.com/NVIDIA/cccl/pull/11360",
       [](T& t) {
         void* pool = nullptr;
         return t.make("cuDeviceGetDefaultMemPool", &pool, 0);
       }},
      {"cudaStreamGetDevice of the stream", Rule::kLegal, 0, "github.com/NVIDIA/cccl/pull/11118",
       [](T& t) {
         int device = -1;
         return t.make("cudaStreamGetDevice", t.stream_, &device);
       }},
      {"cudaStreamIsCapturing", Rule::kLegal, 0, "cudaStreamIsCapturing",
       [](T& t) {
         int status = -1;
         return t.make("cudaStreamIsCapturing", t.stream_, &status);
       }},
  });
}

TEST_P(CaptureTable, UnsafeCalls) {
  check_all({
      {"cudaMalloc", Rule::kUnsafe, 0, kExchange, [](T& t) { return allocate(t, "cudaMalloc"); }},
      {"cuMemAlloc", Rule::kUnsafe, 0, kExchange,
       [](T& t) { return allocate(t, "cuMemAlloc_v2"); }},
      {"cudaMallocManaged, as cudaMalloc", Rule::kUnsafe, 0, kExchange,
       [](T& t) {
         void* memory = nullptr;
         const int status = t.make("cudaMallocManaged", &memory, kBytes, 1U);
         if (status == kSuccess) t.made_.push_back(memory);
         return status;
       }},
      {"cudaFree, as cudaMalloc", Rule::kUnsafe, 0, kExchange,
       [](T& t) { return T::ended(t.make("cudaFree", t.spare_), t.spare_); }},
      {"cuMemFree, as cuMemAlloc", Rule::kUnsafe, 0, kExchange,
       [](T& t) { return T::ended(t.make("cuMemFree_v2", t.spare_), t.spare_); }},
      {"cudaEventQuery of work before it", Rule::kUnsafe, 0,
       "github.com/pytorch/pytorch/pull/104555",
       [](T& t) { return t.make("cudaEventQuery", t.event_); }},
      {"cuEventQuery of work before it", Rule::kUnsafe, 0, "github.com/pytorch/pytorch/pull/104555",
       [](T& t) { return t.make("cuEventQuery", t.event_); }},
      {"cudaEventSynchronize of work before it", Rule::kUnsafe, 0,
       "github.com/ROCm/rocm-systems/pull/3176",
       [](T& t) { return t.make("cudaEventSynchronize", t.event_); }},
      {"cudaHostRegister", Rule::kUnsafe, 0, "github.com/vllm-project/vllm/issues/46933",
       [](T& t) { return t.make("cudaHostRegister", static_cast<void*>(&t.own_[0]), kBytes, 0U); }},
      {"cuMemHostRegister", Rule::kUnsafe, 0, "github.com/vllm-project/vllm/issues/46933",
       [](T& t) {
         return t.make("cuMemHostRegister_v2", static_cast<void*>(&t.own_[0]), kBytes, 0U);
       }},
      {"cudaHostUnregister, as cudaHostRegister", Rule::kUnsafe, 0,
       "github.com/vllm-project/vllm/issues/46933",
       [](T& t) { return T::ended(t.make("cudaHostUnregister", t.registered_), t.registered_); }},
      {"cudaMemPoolGetAttribute", Rule::kUnsafe, 0, "github.com/NVIDIA/cccl/pull/11360",
       [](T& t) {
         uint64_t value = 0;
         return t.make("cudaMemPoolGetAttribute", t.pool_, 4, &value);
       }},
      {"cuMemPoolSetAttribute", Rule::kUnsafe, 0, "github.com/NVIDIA/cccl/pull/11360",
       [](T& t) {
         uint64_t value = 0;
         return t.make("cuMemPoolSetAttribute", t.pool_, 4, &value);
       }},
      {"cudaGraphExecDestroy", Rule::kUnsafe, 0, "github.com/pytorch/pytorch/pull/161037",
       [](T& t) { return T::ended(t.make("cudaGraphExecDestroy", t.exec_), t.exec_); }},
      {"cuGraphExecDestroy", Rule::kUnsafe, 0,
       "github.com/microsoft/onnxruntime/pull/32081, with an H200",
       [](T& t) { return T::ended(t.make("cuGraphExecDestroy", t.exec_), t.exec_); }},
      {"cuModuleUnload", Rule::kUnsafe, 0, "github.com/ROCm/rocm-systems/issues/11698, on CUDA",
       [](T& t) { return T::ended(t.make("cuModuleUnload", t.module_), t.module_); }},
  });
}

TEST_P(CaptureTable, CallsOnWhatIsCaptured) {
  check_all({
      {"cudaStreamSynchronize", Rule::kBreaks, kUnsupported, kGuide,
       [](T& t) { return t.make("cudaStreamSynchronize", t.stream_); }},
      {"cuStreamSynchronize", Rule::kBreaks, kUnsupported, kGuide,
       [](T& t) { return t.make("cuStreamSynchronize", t.stream_); }},
      {"cudaStreamQuery", Rule::kBreaks, kUnsupported, kGuide,
       [](T& t) { return t.make("cudaStreamQuery", t.stream_); }},
      {"cudaEventQuery of what is captured", Rule::kBreaks, kCapturedEvent, kExchange,
       [](T& t) { return t.make("cudaEventQuery", t.captured_); }},
      {"cudaEventSynchronize of what is captured", Rule::kBreaks, kCapturedEvent, kGuide,
       [](T& t) { return t.make("cudaEventSynchronize", t.captured_); }},
      {"cudaDeviceSynchronize", Rule::kBreaks, kUnsupported,
       "github.com/NVIDIA/TensorRT/issues/2888",
       [](T& t) { return t.make("cudaDeviceSynchronize"); }},
      {"cuCtxSynchronize", Rule::kBreaks, kUnsupported, kGuide,
       [](T& t) { return t.make("cuCtxSynchronize"); }},
      {"cudaStreamWaitEvent for work outside", Rule::kBreaks, kIsolation, kGuide,
       [](T& t) { return t.make("cudaStreamWaitEvent", t.stream_, t.event_, 0U); }},
      {"cudaGraphLaunch", Rule::kBreaks, kUnsupported,
       "github.com/microsoft/onnxruntime/pull/32081, with an H200",
       [](T& t) { return t.make("cudaGraphLaunch", t.exec_, t.stream_); }},
      {"cuGraphLaunch", Rule::kBreaks, kUnsupported,
       "github.com/microsoft/onnxruntime/pull/32081, with an H200",
       [](T& t) { return t.make("cuGraphLaunch", t.exec_, t.stream_); }},
      {"cudaGraphUpload, as cudaGraphLaunch", Rule::kBreaks, kUnsupported, kGuide,
       [](T& t) { return t.make("cudaGraphUpload", t.exec_, t.stream_); }},
      {"cudaStreamAttachMemAsync", Rule::kBreaks, kUnsupported, kGuide,
       [](T& t) { return t.make("cudaStreamAttachMemAsync", t.stream_, t.managed_, kBytes, 4U); }},
      {"cuStreamAttachMemAsync", Rule::kBreaks, kUnsupported, kGuide,
       [](T& t) { return t.make("cuStreamAttachMemAsync", t.stream_, t.managed_, kBytes, 4U); }},
      {"cudaStreamAddCallback", Rule::kBreaks, kUnsupported, "cudaStreamAddCallback",
       [](T& t) { return t.make("cudaStreamAddCallback", t.stream_, no_callback, kNone, 0U); }},
      {"cuMemPrefetchAsync, as cudaStreamAttachMemAsync", Rule::kBreaks, kUnsupported, kGuide,
       [](T& t) { return t.make("cuMemPrefetchAsync", t.managed_, kBytes, 0, t.stream_); }},
  });
}

TEST_P(CaptureTable, TheLegacyStreamBesideABlockingOne) {
  check_all({
      {"cudaMemsetAsync", Rule::kBreaks, kImplicit, kGuide,
       [](T& t) { return t.make("cudaMemsetAsync", t.spare_, 1, kBytes, kNone); }, true},
      {"cudaMemcpy", Rule::kBreaks, kImplicit, "github.com/ROCm/rocm-systems/pull/4508, on CUDA",
       [](T& t) {
         return t.make("cudaMemcpy", static_cast<void*>(&t.own_[0]), t.spare_, kBytes, 2);
       },
       true},
      {"cuMemcpyDtoH", Rule::kBreaks, kImplicit, kGuide,
       [](T& t) {
         return t.make("cuMemcpyDtoH_v2", static_cast<void*>(&t.own_[0]), t.spare_, kBytes);
       },
       true},
      {"cudaStreamSynchronize", Rule::kBreaks, kImplicit,
       "github.com/ROCm/rocm-systems/pull/4508, on CUDA",
       [](T& t) { return t.make("cudaStreamSynchronize", kNone); }, true},
      {"cudaStreamQuery", Rule::kBreaks, kImplicit, kGuide,
       [](T& t) { return t.make("cudaStreamQuery", kNone); }, true},
      {"cudaGraphLaunch", Rule::kBreaks, kImplicit, kGuide,
       [](T& t) { return t.make("cudaGraphLaunch", t.exec_, kNone); }, true},
      {"cudaStreamIsCapturing", Rule::kTold, kImplicit, "cudaStreamIsCapturing",
       [](T& t) {
         int status = -1;
         return t.make("cudaStreamIsCapturing", kNone, &status);
       },
       true},
  });
}

TEST_P(CaptureTable, CallsThatNoGraphHolds) {
  check_all({
      {"cudaMemcpyBatchAsync", Rule::kTold, kUnsupported, "github.com/rapidsai/rmm/issues/2518",
       [](T& t) {
         const size_t bytes = kBytes;
         return GetParam() == 12 ? t.make("cudaMemcpyBatchAsync", &t.spare_, &t.memory_, &bytes,
                                          size_t{1}, kNone, kNone, size_t{0}, kNone, t.stream_)
                                 : t.make("cudaMemcpyBatchAsync", &t.spare_, &t.memory_, &bytes,
                                          size_t{1}, kNone, kNone, size_t{0}, t.stream_);
       }},
  });
}

TEST_P(CaptureTable, BeginningAgain) {
  check_all({
      {"cudaStreamBeginCapture", Rule::kTold, kIllegalState, "cudaStreamBeginCapture",
       [](T& t) { return t.make("cudaStreamBeginCapture", t.stream_, kRelaxed); }},
      {"cudaStreamBeginCapture of the legacy stream", Rule::kTold, kUnsupported,
       "cudaStreamBeginCapture",
       [](T& t) { return t.make("cudaStreamBeginCapture", kNone, kRelaxed); }},
  });
}

INSTANTIATE_TEST_SUITE_P(Majors, CaptureTable, testing::Values(12, 13),
                         [](const auto& major) { return "Cuda" + std::to_string(major.param); });

}  // namespace
