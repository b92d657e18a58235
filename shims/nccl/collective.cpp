// SPDX-License-Identifier: Apache-2.0
// With one rank every collective is a copy from the send to the receive buffer, unless it scales.
#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "group.hpp"

namespace {

/// Returns gpemu's number for an ncclDataType_t.
std::optional<gpemu_cuda_comm_type> type_of(int type) {
  switch (type) {
    case kInt8:
      return GPEMU_CUDA_COMM_INT8;
    case kUint8:
      return GPEMU_CUDA_COMM_UINT8;
    case kInt32:
      return GPEMU_CUDA_COMM_INT32;
    case kUint32:
      return GPEMU_CUDA_COMM_UINT32;
    case kInt64:
      return GPEMU_CUDA_COMM_INT64;
    case kUint64:
      return GPEMU_CUDA_COMM_UINT64;
    case kFloat16:
      return GPEMU_CUDA_COMM_FP16;
    case kFloat32:
      return GPEMU_CUDA_COMM_FP32;
    case kFloat64:
      return GPEMU_CUDA_COMM_FP64;
    case kBfloat16:
      return GPEMU_CUDA_COMM_BF16;
    case kFloat8e4m3:
      return GPEMU_CUDA_COMM_FP8_E4M3;
    case kFloat8e5m2:
      return GPEMU_CUDA_COMM_FP8_E5M2;
    default:
      return std::nullopt;
  }
}

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

/// Returns gpemu's number for an ncclRedOp_t.
std::optional<gpemu_cuda_comm_reduction> reduction_of(int reduction) {
  switch (reduction) {
    case kSum:
      return GPEMU_CUDA_COMM_SUM;
    case kProd:
      return GPEMU_CUDA_COMM_PROD;
    case kMax:
      return GPEMU_CUDA_COMM_MAX;
    case kMin:
      return GPEMU_CUDA_COMM_MIN;
    case kAvg:
      return GPEMU_CUDA_COMM_AVG;
    default:
      return std::nullopt;
  }
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

/// Returns whether a rank has a source, and a destination.
std::pair<bool, bool> sides_of(gpemu_cuda_collective kind, bool is_root) {
  switch (kind) {
    case GPEMU_CUDA_REDUCE:
    case GPEMU_CUDA_GATHER:
      return {true, is_root};
    case GPEMU_CUDA_BROADCAST:
    case GPEMU_CUDA_SCATTER:
      return {is_root, true};
    default:
      return {true, true};
  }
}

/// Describes a call of a valid communicator. Errors: kInvalidArgument.
int describe(gpemu_cuda_collective kind, const Collective& call, const Communicator& communicator,
             gpemu_cuda_comm_call* described) {
  const size_t size = bytes_of(call.type);
  const auto type = type_of(call.type);
  if (!type || call.root < 0 || call.root >= communicator.ranks) {
    return kInvalidArgument;
  }
  const auto [reads, writes] = sides_of(kind, call.root == communicator.rank);
  if (call.count > SIZE_MAX / size ||
      (call.count > 0 &&
       ((reads && call.source == nullptr) || (writes && call.destination == nullptr)))) {
    return kInvalidArgument;
  }
  *described = {.comm = communicator.handle,
                .collective = kind,
                .type = *type,
                .root = call.root,
                .source = address_of(call.source),
                .destination = address_of(call.destination),
                .count = call.count,
                .stream = call.stream};
  return kSuccess;
}

int run_described(Communicator& communicator, const gpemu_cuda_comm_call& described,
                  const Collective& call) {
  return described.comm != nullptr ? run_call(communicator, described)
                                   : move_within(call.destination, call.source,
                                                 call.count * bytes_of(call.type), call.stream);
}

int run(gpemu_cuda_collective kind, const Collective& call) {
  Communicator* communicator = nullptr;
  gpemu_cuda_comm_call described{};
  int status = find_ready(call.communicator, &communicator);
  if (status == kSuccess) {
    status = describe(kind, call, *communicator, &described);
  }
  return status == kSuccess ? run_described(*communicator, described, call) : status;
}

/// Sets a reduction of NCCL or of the program. Errors: kInvalidArgument.
int set_reduction(const Communicator& communicator, int reduction, int type,
                  gpemu_cuda_comm_call* described) {
  if (const auto known = reduction_of(reduction)) {
    described->reduction = *known;
    return kSuccess;
  }
  const auto index = static_cast<size_t>(reduction) - kReductions;
  if (reduction < kReductions || index >= communicator.reductions.size() ||
      !communicator.reductions[index] || communicator.reductions[index]->type != type) {
    return kInvalidArgument;
  }
  const ScaledSum& sum = *communicator.reductions[index];
  described->reduction = GPEMU_CUDA_COMM_SCALED_SUM;
  std::memcpy(described->scale, sum.scale.data(), sum.scale.size());
  if (sum.address == 0) {
    return kSuccess;
  }
  return nccl_status(gpemu_cuda_peek(sum.address, described->scale, bytes_of(type)));
}

/// Makes gpemu's rank of a communicator of one, for what is not a copy.
int make_alone(Communicator& communicator) {
  gpemu_cuda_comm_id id{};
  int status = nccl_status(gpemu_cuda_comm_unique_id(&id));
  const gpemu_cuda_comm_start start{.id = &id, .ranks = 1, .device = communicator.device};
  gpemu_cuda_comm_handle made = nullptr;
  if (status == kSuccess) {
    status = nccl_status(gpemu_cuda_comm_start_all(&start, 1, &made));
  }
  communicator.handle = made;
  return status;
}

int reduce(gpemu_cuda_collective kind, const Collective& call, int reduction) {
  Communicator* communicator = nullptr;
  gpemu_cuda_comm_call described{};
  int status = find_ready(call.communicator, &communicator);
  if (status == kSuccess) {
    status = describe(kind, call, *communicator, &described);
  }
  if (status == kSuccess) {
    status = set_reduction(*communicator, reduction, call.type, &described);
  }
  if (status != kSuccess) {
    return status;
  }
  if (described.comm == nullptr && described.reduction == GPEMU_CUDA_COMM_SCALED_SUM) {
    status = make_alone(*communicator);
    described.comm = communicator->handle;
  }
  if (status != kSuccess) {
    return status;
  }
  return run_described(*communicator, described, call);
}

int transfer(gpemu_cuda_collective kind, const void* buffer, size_t count, int type, int peer,
             const void* handle, gpemu_cuda_stream_handle stream) {
  Communicator* communicator = nullptr;
  const size_t size = bytes_of(type);
  const int status = find_ready(handle, &communicator);
  if (status != kSuccess) {
    return status;
  }
  if (peer < 0 || peer >= communicator->ranks || size == 0 || count > SIZE_MAX / size ||
      (buffer == nullptr && count > 0)) {
    return kInvalidArgument;
  }
  if (peer != communicator->rank) {
    return run_call(*communicator, {.comm = communicator->handle,
                                    .collective = kind,
                                    .type = *type_of(type),
                                    .root = peer,
                                    .source = address_of(buffer),
                                    .destination = address_of(buffer),
                                    .count = count,
                                    .stream = stream});
  }
  Group* const group = open_group();
  if (group == nullptr) {
    return kInvalidUsage;  // a rank that sends to itself outside of a group waits for ever
  }
  auto& transfers = kind == GPEMU_CUDA_SEND ? group->sends : group->receives;
  transfers.push_back({buffer, count * size, handle, stream});
  return kSuccess;
}

}  // namespace

GPEMU_SHIM_EXPORT int ncclAllReduce(const void* source, void* destination, size_t count, int type,
                                    int reduction, const void* communicator,
                                    gpemu_cuda_stream_handle stream) {
  return reduce(GPEMU_CUDA_ALL_REDUCE, {source, destination, count, type, 0, communicator, stream},
                reduction);
}
GPEMU_SHIM_EXPORT int ncclReduce(const void* source, void* destination, size_t count, int type,
                                 int reduction, int root, const void* communicator,
                                 gpemu_cuda_stream_handle stream) {
  return reduce(GPEMU_CUDA_REDUCE, {source, destination, count, type, root, communicator, stream},
                reduction);
}
GPEMU_SHIM_EXPORT int ncclReduceScatter(const void* source, void* destination, size_t count,
                                        int type, int reduction, const void* communicator,
                                        gpemu_cuda_stream_handle stream) {
  return reduce(GPEMU_CUDA_REDUCE_SCATTER,
                {source, destination, count, type, 0, communicator, stream}, reduction);
}
GPEMU_SHIM_EXPORT int ncclBroadcast(const void* source, void* destination, size_t count, int type,
                                    int root, const void* communicator,
                                    gpemu_cuda_stream_handle stream) {
  return run(GPEMU_CUDA_BROADCAST, {source, destination, count, type, root, communicator, stream});
}
GPEMU_SHIM_EXPORT int ncclBcast(void* buffer, size_t count, int type, int root,
                                const void* communicator, gpemu_cuda_stream_handle stream) {
  return run(GPEMU_CUDA_BROADCAST, {buffer, buffer, count, type, root, communicator, stream});
}
GPEMU_SHIM_EXPORT int ncclAllGather(const void* source, void* destination, size_t count, int type,
                                    const void* communicator, gpemu_cuda_stream_handle stream) {
  return run(GPEMU_CUDA_ALL_GATHER, {source, destination, count, type, 0, communicator, stream});
}
GPEMU_SHIM_EXPORT int ncclAlltoAll(const void* source, void* destination, size_t count, int type,
                                   const void* communicator, gpemu_cuda_stream_handle stream) {
  return run(GPEMU_CUDA_ALL_TO_ALL, {source, destination, count, type, 0, communicator, stream});
}
GPEMU_SHIM_EXPORT int ncclGather(const void* source, void* destination, size_t count, int type,
                                 int root, const void* communicator,
                                 gpemu_cuda_stream_handle stream) {
  return run(GPEMU_CUDA_GATHER, {source, destination, count, type, root, communicator, stream});
}
GPEMU_SHIM_EXPORT int ncclScatter(const void* source, void* destination, size_t count, int type,
                                  int root, const void* communicator,
                                  gpemu_cuda_stream_handle stream) {
  return run(GPEMU_CUDA_SCATTER, {source, destination, count, type, root, communicator, stream});
}
GPEMU_SHIM_EXPORT int ncclSend(const void* buffer, size_t count, int type, int peer,
                               const void* communicator, gpemu_cuda_stream_handle stream) {
  return transfer(GPEMU_CUDA_SEND, buffer, count, type, peer, communicator, stream);
}
GPEMU_SHIM_EXPORT int ncclRecv(void* buffer, size_t count, int type, int peer,
                               const void* communicator, gpemu_cuda_stream_handle stream) {
  return transfer(GPEMU_CUDA_RECEIVE, buffer, count, type, peer, communicator, stream);
}

GPEMU_SHIM_EXPORT int ncclRedOpCreatePreMulSum(int* reduction, void* scalar, int type,
                                               int residence, const void* handle) {
  Communicator* communicator = find_object<Communicator>(handle);
  const size_t size = bytes_of(type);
  if (communicator == nullptr || reduction == nullptr || scalar == nullptr || size == 0 ||
      (residence != kScalarDevice && residence != kScalarHostImmediate)) {
    return kInvalidArgument;
  }
  ScaledSum sum{.type = type};
  if (residence == kScalarDevice) {
    sum.address = address_of(scalar);
  } else {
    std::memcpy(sum.scale.data(), scalar, size);
  }
  auto& reductions = communicator->reductions;
  const auto free =
      std::ranges::find_if(reductions, [](const auto& one) { return !one.has_value(); });
  *reduction = kReductions + static_cast<int>(free - reductions.begin());
  if (free == reductions.end()) {
    reductions.emplace_back(sum);
  } else {
    *free = sum;
  }
  return kSuccess;
}
GPEMU_SHIM_EXPORT int ncclRedOpDestroy(int reduction, const void* handle) {
  Communicator* communicator = find_object<Communicator>(handle);
  const auto index = static_cast<size_t>(reduction) - kReductions;
  if (communicator == nullptr || reduction < kReductions ||
      index >= communicator->reductions.size() || !communicator->reductions[index]) {
    return kInvalidArgument;
  }
  communicator->reductions[index].reset();
  return kSuccess;
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
GPEMU_PROFILING_NAME(ncclRedOpCreatePreMulSum)
GPEMU_PROFILING_NAME(ncclRedOpDestroy)
