// SPDX-License-Identifier: Apache-2.0
// With one rank every collective is a copy from the send to the receive buffer.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "nccl.hpp"

namespace {

/// Returns the bytes of one element, 0 for a number that is no ncclDataType_t.
constexpr size_t bytes_of(int type) {
  switch (type) {
    case kInt8:
    case kUint8:
    case kFloat8e4m3:
    case kFloat8e5m2:
      return 1;
    case kFloat16:
    case kBfloat16:
      return 2;
    case kInt32:
    case kUint32:
    case kFloat32:
      return 4;
    case kInt64:
    case kUint64:
    case kFloat64:
      return 8;
    default:
      return 0;
  }
}

struct Transfer {
  const void* buffer;
  size_t bytes;
  const void* communicator;
  gpemu_cuda_stream_handle stream;
};

// A thread's requests between its outermost ncclGroupStart and ncclGroupEnd.
struct Group {
  int depth = 0;
  std::vector<Transfer> sends, receives;
};
thread_local Group* group =
    nullptr;  // destructors of statics call after the thread's variables end

int move(void* destination, const void* source, size_t bytes, gpemu_cuda_stream_handle stream) {
  if (destination == source || bytes == 0) {
    return kSuccess;
  }
  const gpemu_cuda_status status =
      gpemu_cuda_memcpy(address_of(destination), address_of(source), bytes,
                        GPEMU_CUDA_COPY_DEVICE_TO_DEVICE, stream, 0);
  return status == GPEMU_CUDA_SUCCESS ? kSuccess : kUnhandledCudaError;
}

struct Collective {
  const void* source;
  void* destination;
  size_t count;
  int type;
  int root;
  const void* communicator;
  gpemu_cuda_stream_handle stream;
};

int run(const Collective& call) {
  const size_t size = bytes_of(call.type);
  if (find_object<Communicator>(call.communicator) == nullptr || size == 0 || call.root != 0) {
    return kInvalidArgument;
  }
  if (call.count > SIZE_MAX / size ||
      (call.count > 0 && (call.source == nullptr || call.destination == nullptr))) {
    return kInvalidArgument;
  }
  return move(call.destination, call.source, call.count * size, call.stream);
}

int reduce(const Collective& call, int reduction) {
  if (reduction < 0 || reduction >= kReductions) {
    return kInvalidArgument;
  }
  return run(call);
}

int queue(std::vector<Transfer> Group::* transfers, const void* buffer, size_t count, int type,
          int peer, const void* communicator, gpemu_cuda_stream_handle stream) {
  const size_t size = bytes_of(type);
  if (find_object<Communicator>(communicator) == nullptr || peer != 0 || size == 0 ||
      count > SIZE_MAX / size || (buffer == nullptr && count > 0)) {
    return kInvalidArgument;
  }
  if (group == nullptr) {
    return kInvalidUsage;  // a rank that sends to itself outside of a group waits for ever
  }
  (group->*transfers).push_back({buffer, count * size, communicator, stream});
  return kSuccess;
}

int match_transfers(Group& transfers) {
  int result = kSuccess;
  std::vector<Transfer>& receives = transfers.receives;
  for (const Transfer& send : transfers.sends) {
    const auto receive = std::ranges::find_if(receives, [&](const Transfer& candidate) {
      return candidate.communicator == send.communicator;
    });
    if (receive == receives.end() || receive->bytes != send.bytes) {
      result = kInvalidUsage;
      break;
    }
    const int moved =
        move(const_cast<void*>(receive->buffer), send.buffer, send.bytes, receive->stream);
    result = result == kSuccess ? moved : result;
    receives.erase(receive);
  }
  return receives.empty() ? result : kInvalidUsage;
}

}  // namespace

GPEMU_SHIM_EXPORT int ncclAllReduce(const void* source, void* destination, size_t count, int type,
                                    int reduction, const void* communicator,
                                    gpemu_cuda_stream_handle stream) {
  return reduce({source, destination, count, type, 0, communicator, stream}, reduction);
}
GPEMU_SHIM_EXPORT int ncclReduce(const void* source, void* destination, size_t count, int type,
                                 int reduction, int root, const void* communicator,
                                 gpemu_cuda_stream_handle stream) {
  return reduce({source, destination, count, type, root, communicator, stream}, reduction);
}
GPEMU_SHIM_EXPORT int ncclReduceScatter(const void* source, void* destination, size_t count,
                                        int type, int reduction, const void* communicator,
                                        gpemu_cuda_stream_handle stream) {
  return reduce({source, destination, count, type, 0, communicator, stream}, reduction);
}
GPEMU_SHIM_EXPORT int ncclBroadcast(const void* source, void* destination, size_t count, int type,
                                    int root, const void* communicator,
                                    gpemu_cuda_stream_handle stream) {
  return run({source, destination, count, type, root, communicator, stream});
}
GPEMU_SHIM_EXPORT int ncclBcast(void* buffer, size_t count, int type, int root,
                                const void* communicator, gpemu_cuda_stream_handle stream) {
  return run({buffer, buffer, count, type, root, communicator, stream});
}
GPEMU_SHIM_EXPORT int ncclAllGather(const void* source, void* destination, size_t count, int type,
                                    const void* communicator, gpemu_cuda_stream_handle stream) {
  return run({source, destination, count, type, 0, communicator, stream});
}
GPEMU_SHIM_EXPORT int ncclAlltoAll(const void* source, void* destination, size_t count, int type,
                                   const void* communicator, gpemu_cuda_stream_handle stream) {
  return run({source, destination, count, type, 0, communicator, stream});
}
GPEMU_SHIM_EXPORT int ncclGather(const void* source, void* destination, size_t count, int type,
                                 int root, const void* communicator,
                                 gpemu_cuda_stream_handle stream) {
  return run({source, destination, count, type, root, communicator, stream});
}
GPEMU_SHIM_EXPORT int ncclScatter(const void* source, void* destination, size_t count, int type,
                                  int root, const void* communicator,
                                  gpemu_cuda_stream_handle stream) {
  return run({source, destination, count, type, root, communicator, stream});
}
GPEMU_SHIM_EXPORT int ncclSend(const void* buffer, size_t count, int type, int peer,
                               const void* communicator, gpemu_cuda_stream_handle stream) {
  return queue(&Group::sends, buffer, count, type, peer, communicator, stream);
}
GPEMU_SHIM_EXPORT int ncclRecv(void* buffer, size_t count, int type, int peer,
                               const void* communicator, gpemu_cuda_stream_handle stream) {
  return queue(&Group::receives, buffer, count, type, peer, communicator, stream);
}

GPEMU_SHIM_EXPORT int ncclGroupStart() {
  if (group == nullptr) {
    group = new Group;
  }
  ++group->depth;
  return kSuccess;
}
GPEMU_SHIM_EXPORT int ncclGroupEnd() {
  if (group == nullptr) {
    return kInvalidUsage;
  }
  if (--group->depth > 0) {
    return kSuccess;
  }
  const std::unique_ptr<Group> ended(std::exchange(group, nullptr));
  return match_transfers(*ended);
}

GPEMU_PROFILING_NAME(ncclAllReduce)
GPEMU_PROFILING_NAME(ncclReduce)
GPEMU_PROFILING_NAME(ncclReduceScatter)
GPEMU_PROFILING_NAME(ncclBroadcast)
GPEMU_PROFILING_NAME(ncclBcast)
GPEMU_PROFILING_NAME(ncclAllGather)
GPEMU_PROFILING_NAME(ncclAlltoAll)
GPEMU_PROFILING_NAME(ncclGather)
GPEMU_PROFILING_NAME(ncclScatter)
GPEMU_PROFILING_NAME(ncclSend)
GPEMU_PROFILING_NAME(ncclRecv)
GPEMU_PROFILING_NAME(ncclGroupStart)
GPEMU_PROFILING_NAME(ncclGroupEnd)
