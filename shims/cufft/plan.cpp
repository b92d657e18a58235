// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <memory>

#include "abi.hpp"
#include "handle_table.hpp"
#include "library_abi.hpp"
#include "shim.hpp"

namespace {

constexpr int kMaxRank = 3;

/// What the transforms of a plan write, in elements. Without a layout they follow each other.
struct Output {
  int64_t element_bytes = 0;
  bool is_real = false;  ///< of a complex input
  bool is_half = false;  ///< the half of a real input's transform that is not redundant
  bool has_layout = false;
  int64_t embedded[kMaxRank] = {1, 1, 1};  ///< the sizes of the memory
  int64_t step = 1, distance = 0;          ///< between elements, between transforms
};

struct Plan {
  bool made = false;
  gpemu_data_type type = GPEMU_TYPE_UNKNOWN;
  int cufft_type = 0;  // 0 when made by cufftXt
  int64_t batch = 0;
  int rank = 1;
  int64_t sizes[kMaxRank] = {1, 1, 1};
  Output output;
  size_t work_bytes = 0;
  bool auto_allocation = true;
  uint64_t allocated = 0;
  gpemu_cuda_stream_handle stream = nullptr;

  Plan() = default;
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  ~Plan() {
    if (allocated != 0) {
      gpemu_cuda_free(allocated);
    }
  }
};

// Handles are small numbers, as the real library's.
HandleTable<Plan, int>& plans() {
  return alive<Plan, int>();
}

gpemu_data_type type_of(int cufft_type) {
  switch (cufft_type) {
    case kR2C:
    case kC2R:
    case kC2C:
      return GPEMU_TYPE_COMPLEX64;
    case kD2Z:
    case kZ2D:
    case kZ2Z:
      return GPEMU_TYPE_COMPLEX128;
    default:
      return GPEMU_TYPE_UNKNOWN;
  }
}

// cudaDataType: whether it is real.
bool is_real(int type) {
  return type == kR32F || type == kR64F || type == kR16F || type == kR16BF;
}

Output output_of(int cufft_type) {
  Output output;
  output.is_real = cufft_type == kC2R || cufft_type == kZ2D;
  output.is_half = cufft_type == kR2C || cufft_type == kD2Z;
  const int64_t bytes = gpemu_data_type_bytes(type_of(cufft_type));
  output.element_bytes = output.is_real ? bytes / 2 : bytes;
  return output;
}

/// Adds the layout of a plan for many transforms; without sizes of the memory, there is none.
template <typename Int>
Output with_layout(Output output, int rank, const Int* embedded, int64_t step, int64_t distance) {
  if (embedded == nullptr || rank < 1 || rank > kMaxRank) {
    return output;
  }
  output.has_layout = true;
  std::copy_n(embedded, rank, output.embedded);
  output.step = step;
  output.distance = distance;
  return output;
}

// cudaDataType: half precision transforms are priced as FP16 in memory.
gpemu_data_type type_of_cuda(int type) {
  switch (type) {
    case kR32F:
    case kC32F:
      return GPEMU_TYPE_COMPLEX64;
    case kR64F:
    case kC64F:
      return GPEMU_TYPE_COMPLEX128;
    case kR16F:
    case kC16F:
      return GPEMU_TYPE_FP16;
    case kR16BF:
    case kC16BF:
      return GPEMU_TYPE_BF16;
    default:
      return GPEMU_TYPE_UNKNOWN;
  }
}

// The bytes of a work area, which is one copy of the data, as the real library's usually is.
template <typename Int>
int measure(int rank, const Int* sizes, int64_t batch, gpemu_data_type type, size_t* bytes) {
  if (type == GPEMU_TYPE_UNKNOWN) {
    return kInvalidType;
  }
  if (sizes == nullptr || rank < 1 || rank > kMaxRank) {
    return kInvalidValue;
  }
  if (batch < 1) {
    return kInvalidSize;
  }
  int64_t elements = batch;
  for (int i = 0; i < rank; ++i) {
    if (sizes[i] < 1 || static_cast<int64_t>(sizes[i]) > INT64_MAX / 64 / elements) {
      return kInvalidSize;
    }
    elements *= sizes[i];
  }
  *bytes = static_cast<size_t>(elements) * gpemu_data_type_bytes(type);
  return kSuccess;
}

// Fills in a plan.
template <typename Int>
int make(int handle, int rank, const Int* sizes, int64_t batch, gpemu_data_type type,
         size_t* work_bytes, const Output& output) {
  Plan* const plan = find_object<Plan, int>(handle);
  if (plan == nullptr || plan->made) {
    return kInvalidPlan;
  }
  size_t bytes = 0;
  if (const int status = measure(rank, sizes, batch, type, &bytes); status != kSuccess) {
    return status;
  }
  if (plan->auto_allocation && gpemu_cuda_malloc(bytes, &plan->allocated) != GPEMU_CUDA_SUCCESS) {
    return kAllocFailed;
  }
  std::copy_n(sizes, rank, plan->sizes);
  plan->rank = rank;
  plan->output = output;
  plan->type = type;
  plan->batch = batch;
  plan->work_bytes = bytes;
  plan->made = true;
  if (work_bytes != nullptr) {
    *work_bytes = bytes;
  }
  return kSuccess;
}

template <typename Int>
int make_typed(int handle, int rank, const Int* sizes, int64_t batch, int type, size_t* work_bytes,
               const Output& output) {
  const int status = make(handle, rank, sizes, batch, type_of(type), work_bytes, output);
  if (status == kSuccess) {
    find_object<Plan, int>(handle)->cufft_type = type;
  }
  return status;
}

template <typename Int>
int estimate(int rank, const Int* sizes, int64_t batch, int type, size_t* work_bytes) {
  return work_bytes == nullptr ? static_cast<int>(kInvalidValue)
                               : measure(rank, sizes, batch, type_of(type), work_bytes);
}

/// Returns what a transform writes. If layouts leave gaps within a transform, those keep their
/// content. In place, a real result has the room of the complex operand.
bool describe_output(const Plan& plan, bool in_place, gpemu_cuda_result* result) {
  const Output& output = plan.output;
  const int last = plan.rank - 1;
  int64_t sizes[kMaxRank] = {1, 1, 1};
  std::copy_n(plan.sizes, plan.rank, sizes);
  if (output.is_half || (output.is_real && in_place && !output.has_layout)) {
    sizes[last] = (sizes[last] / 2 + 1) * (output.is_real ? 2 : 1);
  }
  int64_t packed = output.element_bytes;
  for (const int64_t size : sizes) {
    packed *= size;  // measure() bounds it
  }
  result->rows = static_cast<uint64_t>(plan.batch);
  if (!output.has_layout) {
    result->bytes = static_cast<uint64_t>(packed);
    result->pitch = result->bytes;
    return true;
  }
  int64_t end = output.element_bytes, stride = 0, pitch = 0, steps = 0;
  bool fits = !__builtin_mul_overflow(output.step, output.element_bytes, &stride) &&
              !__builtin_mul_overflow(output.distance, output.element_bytes, &pitch);
  for (int i = last; i >= 0; --i) {
    fits = fits && !__builtin_mul_overflow(sizes[i] - 1, stride, &steps) &&
           !__builtin_add_overflow(end, steps, &end) &&
           !__builtin_mul_overflow(stride, output.embedded[i], &stride);
  }
  if (!fits || end < 0 || pitch < 0) {
    return false;
  }
  result->bytes = static_cast<uint64_t>(end);
  result->pitch = static_cast<uint64_t>(pitch);
  result->updates = end == packed ? 0 : 1;
  return true;
}

int run(const char* name, int handle, int wanted_type, const void* input, const void* output) {
  const Plan* const plan = find_object<Plan, int>(handle);
  if (plan == nullptr || !plan->made) {
    return kInvalidPlan;
  }
  if (wanted_type != 0 && plan->cufft_type != wanted_type) {
    return kInvalidPlan;
  }
  if (input == nullptr || output == nullptr) {
    return kInvalidValue;
  }
  gpemu_operation operation = {};
  operation.struct_size = sizeof(operation);
  operation.kind = GPEMU_OPERATION_FFT;
  operation.type = plan->type;
  operation.shape[0] = plan->batch;
  std::copy_n(plan->sizes, kMaxRank, operation.shape + 1);
  operation.name = name;
  gpemu_cuda_result result = {};
  result.address = address_of(output);
  if (!describe_output(*plan, input == output, &result)) {
    return kInvalidSize;
  }
  return gpemu_cuda_submit(&operation, plan->stream) == GPEMU_CUDA_SUCCESS &&
                 gpemu_cuda_leave_uncomputed(&result, name, plan->stream) == GPEMU_CUDA_SUCCESS
             ? kSuccess
             : kExecFailed;
}

bool valid_direction(int direction) {
  return direction == kForward || direction == kInverse;
}

}  // namespace

GPEMU_SHIM_EXPORT int cufftCreate(int* handle) {
  if (handle == nullptr) {
    return kInvalidValue;
  }
  static std::atomic<int> next{1};
  *handle = next++;
  plans().add(*handle, std::make_unique<Plan>());
  return kSuccess;
}

GPEMU_SHIM_EXPORT int cufftDestroy(int handle) {
  return plans().remove(handle) ? kSuccess : kInvalidPlan;
}

GPEMU_SHIM_EXPORT int cufftMakePlan1d(int handle, int size, int type, int batch, size_t* work) {
  return make_typed(handle, 1, &size, batch, type, work, output_of(type));
}
GPEMU_SHIM_EXPORT int cufftMakePlan2d(int handle, int x, int y, int type, size_t* work) {
  const int sizes[] = {x, y};
  return make_typed(handle, 2, sizes, 1, type, work, output_of(type));
}
GPEMU_SHIM_EXPORT int cufftMakePlan3d(int handle, int x, int y, int z, int type, size_t* work) {
  const int sizes[] = {x, y, z};
  return make_typed(handle, 3, sizes, 1, type, work, output_of(type));
}
GPEMU_SHIM_EXPORT int cufftMakePlanMany(int handle, int rank, int* sizes, int*, int, int,
                                        int* embedded, int step, int distance, int type, int batch,
                                        size_t* work) {
  return make_typed(handle, rank, sizes, batch, type, work,
                    with_layout(output_of(type), rank, embedded, step, distance));
}
GPEMU_SHIM_EXPORT int cufftMakePlanMany64(int handle, int rank, long long* sizes, long long*,
                                          long long, long long, long long* embedded, long long step,
                                          long long distance, int type, long long batch,
                                          size_t* work) {
  return make_typed(handle, rank, sizes, batch, type, work,
                    with_layout(output_of(type), rank, embedded, step, distance));
}
GPEMU_SHIM_EXPORT int cufftXtMakePlanMany(int handle, int rank, long long* sizes, long long*,
                                          long long, long long, int input_type, long long* embedded,
                                          long long step, long long distance, int output_type,
                                          long long batch, size_t* work, int execution_type) {
  const gpemu_data_type type = type_of_cuda(execution_type);
  const bool half = type == GPEMU_TYPE_FP16 || type == GPEMU_TYPE_BF16;  // of each part
  const int64_t bytes = gpemu_data_type_bytes(type) * (half ? 2 : 1);
  Output output;
  output.is_real = is_real(output_type);
  output.is_half = is_real(input_type);
  output.element_bytes = output.is_real ? bytes / 2 : bytes;
  return make(handle, rank, sizes, batch, type, work,
              with_layout(output, rank, embedded, step, distance));
}

namespace {

// cufftPlan*: creates a plan and makes it; after a failure nothing is left behind.
template <typename Make>
int create_and_make(int* handle, const Make& make_plan) {
  const int created = cufftCreate(handle);
  if (created != kSuccess) {
    return created;
  }
  const int made = make_plan(*handle);
  if (made != kSuccess) {
    cufftDestroy(*handle);
  }
  return made;
}

}  // namespace

GPEMU_SHIM_EXPORT int cufftPlan1d(int* handle, int size, int type, int batch) {
  return create_and_make(
      handle, [&](int plan) { return cufftMakePlan1d(plan, size, type, batch, nullptr); });
}
GPEMU_SHIM_EXPORT int cufftPlan2d(int* handle, int x, int y, int type) {
  return create_and_make(handle,
                         [&](int plan) { return cufftMakePlan2d(plan, x, y, type, nullptr); });
}
GPEMU_SHIM_EXPORT int cufftPlan3d(int* handle, int x, int y, int z, int type) {
  return create_and_make(handle,
                         [&](int plan) { return cufftMakePlan3d(plan, x, y, z, type, nullptr); });
}
GPEMU_SHIM_EXPORT int cufftPlanMany(int* handle, int rank, int* sizes, int*, int, int,
                                    int* embedded, int step, int distance, int type, int batch) {
  return create_and_make(handle, [&](int plan) {
    return make_typed(plan, rank, sizes, batch, type, nullptr,
                      with_layout(output_of(type), rank, embedded, step, distance));
  });
}

GPEMU_SHIM_EXPORT int cufftEstimate1d(int size, int type, int batch, size_t* work) {
  return estimate(1, &size, batch, type, work);
}
GPEMU_SHIM_EXPORT int cufftEstimate2d(int x, int y, int type, size_t* work) {
  const int sizes[] = {x, y};
  return estimate(2, sizes, 1, type, work);
}
GPEMU_SHIM_EXPORT int cufftEstimate3d(int x, int y, int z, int type, size_t* work) {
  const int sizes[] = {x, y, z};
  return estimate(3, sizes, 1, type, work);
}
GPEMU_SHIM_EXPORT int cufftEstimateMany(int rank, int* sizes, int*, int, int, int*, int, int,
                                        int type, int batch, size_t* work) {
  return estimate(rank, sizes, batch, type, work);
}

GPEMU_SHIM_EXPORT int cufftGetSize(int handle, size_t* work) {
  const Plan* const plan = find_object<Plan, int>(handle);
  if (plan == nullptr || !plan->made) {
    return kInvalidPlan;
  }
  if (work == nullptr) {
    return kInvalidValue;
  }
  *work = plan->work_bytes;
  return kSuccess;
}

GPEMU_SHIM_EXPORT int cufftSetWorkArea(int handle, void* area) {
  Plan* const plan = find_object<Plan, int>(handle);
  if (plan == nullptr || !plan->made) {
    return kInvalidPlan;
  }
  if (area == nullptr && plan->work_bytes > 0) {
    return kInvalidValue;
  }
  if (plan->allocated != 0) {
    gpemu_cuda_free(plan->allocated);
    plan->allocated = 0;
  }
  return kSuccess;
}

GPEMU_SHIM_EXPORT int cufftSetAutoAllocation(int handle, int automatic) {
  Plan* const plan = find_object<Plan, int>(handle);
  if (plan == nullptr) {
    return kInvalidPlan;
  }
  plan->auto_allocation = automatic != 0;
  return kSuccess;
}

GPEMU_SHIM_EXPORT int cufftSetStream(int handle, gpemu_cuda_stream_handle stream) {
  Plan* const plan = find_object<Plan, int>(handle);
  if (plan == nullptr) {
    return kInvalidPlan;
  }
  plan->stream = stream;
  return kSuccess;
}

#define GPEMU_EXECUTE_COMPLEX(name, type)                                                \
  GPEMU_SHIM_EXPORT int name(int plan, const void* in, void* out, int direction) {       \
    return valid_direction(direction) ? run(#name, plan, type, in, out) : kInvalidValue; \
  }
#define GPEMU_EXECUTE_REAL(name, type)                              \
  GPEMU_SHIM_EXPORT int name(int plan, const void* in, void* out) { \
    return run(#name, plan, type, in, out);                         \
  }
GPEMU_EXECUTE_COMPLEX(cufftExecC2C, kC2C)
GPEMU_EXECUTE_COMPLEX(cufftExecZ2Z, kZ2Z)
GPEMU_EXECUTE_REAL(cufftExecR2C, kR2C)
GPEMU_EXECUTE_REAL(cufftExecC2R, kC2R)
GPEMU_EXECUTE_REAL(cufftExecD2Z, kD2Z)
GPEMU_EXECUTE_REAL(cufftExecZ2D, kZ2D)
GPEMU_EXECUTE_COMPLEX(cufftXtExec, 0)
