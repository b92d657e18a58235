// SPDX-License-Identifier: Apache-2.0
// Generation takes its emulated time; the numbers are not computed, and the memory keeps its
// content.
#include <memory>

#include "abi.hpp"
#include "handle_table.hpp"
#include "shim.hpp"

namespace {

struct Generator {
  bool quasi;
  gpemu_cuda_stream_handle stream = nullptr;
};

bool valid_type(int type) {
  switch (type) {
    case kPseudoDefault:
    case kXorwow:
    case kMrg32k3a:
    case kMtgp32:
    case kMt19937:
    case kPhilox:
    case kQuasiDefault:
    case kSobol32:
    case kScrambledSobol32:
    case kSobol64:
    case kScrambledSobol64:
      return true;
    default:
      return false;
  }
}

int check(const void* handle) {
  return find_object<Generator>(handle) == nullptr ? kNotInitialized : kSuccess;
}

// `operations`: per number; a generator takes about ten, a transformation to a normal
// distribution (Box and Muller) about as many again.
int generate(const char* name, const void* handle, const void* output, size_t count,
             gpemu_data_type type, int64_t operations) {
  const Generator* const generator = find_object<Generator>(handle);
  if (generator == nullptr) {
    return kNotInitialized;
  }
  if ((output == nullptr && count > 0) || count > static_cast<size_t>(INT64_MAX) / 16) {
    return kOutOfRange;
  }
  gpemu_operation operation = {};
  operation.struct_size = sizeof(operation);
  operation.kind = GPEMU_OPERATION_ELEMENTWISE;
  operation.type = type;
  operation.shape[1] = static_cast<int64_t>(count);
  operation.shape[2] = operations;
  operation.name = name;
  gpemu_cuda_result result = {};
  result.address = address_of(output);
  result.bytes = count * static_cast<uint64_t>(gpemu_data_type_bytes(type));
  result.rows = 1;
  return gpemu_cuda_submit(&operation, generator->stream) == GPEMU_CUDA_SUCCESS &&
                 gpemu_cuda_leave_uncomputed(&result, name, generator->stream) == GPEMU_CUDA_SUCCESS
             ? kSuccess
             : kLaunchFailure;
}

int generate_pairs(const char* name, const void* handle, const void* output, size_t count,
                   gpemu_data_type type) {
  return count % 2 == 1 ? kLengthNotMultiple : generate(name, handle, output, count, type, 20);
}

}  // namespace

GPEMU_SHIM_EXPORT int curandCreateGenerator(void** handle, int type) {
  if (handle == nullptr || !valid_type(type)) {
    return kTypeError;
  }
  if (gpemu_cuda_ensure_context() != GPEMU_CUDA_SUCCESS) {
    return kInitializationFailed;
  }
  *handle = alive<Generator>().add(
      std::make_unique<Generator>(Generator{.quasi = type >= kQuasiDefault}));
  return kSuccess;
}

GPEMU_SHIM_EXPORT int curandDestroyGenerator(const void* handle) {
  return alive<Generator>().remove(handle) ? kSuccess : kNotInitialized;
}

GPEMU_SHIM_EXPORT int curandSetStream(const void* handle, gpemu_cuda_stream_handle stream) {
  Generator* const generator = find_object<Generator>(handle);
  if (generator == nullptr) {
    return kNotInitialized;
  }
  generator->stream = stream;
  return kSuccess;
}

// The choice of numbers does not change the cost.
GPEMU_SHIM_EXPORT int curandSetPseudoRandomGeneratorSeed(const void* handle, unsigned long long) {
  const Generator* const generator = find_object<Generator>(handle);
  return generator == nullptr ? kNotInitialized : generator->quasi ? kTypeError : kSuccess;
}
GPEMU_SHIM_EXPORT int curandSetGeneratorOffset(const void* handle, unsigned long long) {
  return check(handle);
}
GPEMU_SHIM_EXPORT int curandSetGeneratorOrdering(const void* handle, int ordering) {
  return ordering < kPseudoBest || ordering > kQuasiOrdering ? kOutOfRange : check(handle);
}
GPEMU_SHIM_EXPORT int curandSetQuasiRandomGeneratorDimensions(const void* handle,
                                                              unsigned dimensions) {
  const Generator* const generator = find_object<Generator>(handle);
  if (generator == nullptr) {
    return kNotInitialized;
  }
  if (dimensions < 1 || dimensions > kMaxDimensions) {
    return kOutOfRange;
  }
  return generator->quasi ? kSuccess : kTypeError;
}
GPEMU_SHIM_EXPORT int curandGenerateSeeds(const void* handle) {
  return check(handle);
}

GPEMU_SHIM_EXPORT int curandGenerate(const void* handle, unsigned* output, size_t count) {
  return generate("curandGenerate", handle, output, count, GPEMU_TYPE_INT32, 10);
}
GPEMU_SHIM_EXPORT int curandGenerateLongLong(const void* handle, unsigned long long* output,
                                             size_t count) {
  return generate("curandGenerateLongLong", handle, output, count, GPEMU_TYPE_INT64, 20);
}
GPEMU_SHIM_EXPORT int curandGenerateUniform(const void* handle, float* output, size_t count) {
  return generate("curandGenerateUniform", handle, output, count, GPEMU_TYPE_FP32, 11);
}
GPEMU_SHIM_EXPORT int curandGenerateUniformDouble(const void* handle, double* output,
                                                  size_t count) {
  return generate("curandGenerateUniformDouble", handle, output, count, GPEMU_TYPE_FP64, 21);
}
GPEMU_SHIM_EXPORT int curandGenerateNormal(const void* handle, float* output, size_t count, float,
                                           float) {
  return generate_pairs("curandGenerateNormal", handle, output, count, GPEMU_TYPE_FP32);
}
GPEMU_SHIM_EXPORT int curandGenerateNormalDouble(const void* handle, double* output, size_t count,
                                                 double, double) {
  return generate_pairs("curandGenerateNormalDouble", handle, output, count, GPEMU_TYPE_FP64);
}
GPEMU_SHIM_EXPORT int curandGenerateLogNormal(const void* handle, float* output, size_t count,
                                              float, float) {
  return generate_pairs("curandGenerateLogNormal", handle, output, count, GPEMU_TYPE_FP32);
}
GPEMU_SHIM_EXPORT int curandGenerateLogNormalDouble(const void* handle, double* output,
                                                    size_t count, double, double) {
  return generate_pairs("curandGenerateLogNormalDouble", handle, output, count, GPEMU_TYPE_FP64);
}
GPEMU_SHIM_EXPORT int curandGeneratePoisson(const void* handle, unsigned* output, size_t count,
                                            double lambda) {
  return lambda > 0 ? generate("curandGeneratePoisson", handle, output, count, GPEMU_TYPE_INT32, 40)
                    : kOutOfRange;
}
