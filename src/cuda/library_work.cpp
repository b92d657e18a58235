// SPDX-License-Identifier: Apache-2.0
#include "library_work.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "capture.hpp"
#include "content.hpp"
#include "kernel_memory.hpp"
#include "kernels/kernel_work.hpp"
#include "product.hpp"

namespace gpemu::cuda {
namespace {

/// Returns the addresses in an array of a device; none if they are not known.
std::vector<std::uint64_t> addresses_at(std::uint64_t array, Bytes count) {
  constexpr Bytes kAddressBytes = 8;
  if (device_bytes_at(array, count * kAddressBytes) < count * kAddressBytes) return {};
  std::vector<std::uint64_t> addresses(count);
  if (!load_for_kernel(array, addresses.data(), count * kAddressBytes)) return {};
  return addresses;
}

/// With more rows, a call is one range, including the gaps between rows.
constexpr Bytes kMostRows = Bytes{1} << 16;

/// Adds rows, as one range if there are no gaps between them. Errors: INVALID_VALUE.
Status add_rows(const gpemu_cuda_result& result, KernelWork* work) {
  const Uncomputed how = result.updates != 0 ? Uncomputed::kUpdated : Uncomputed::kWritten;
  Bytes extent = 0;
  if (result.bytes == 0 || result.address == 0) return GPEMU_CUDA_SUCCESS;
  if (result.rows == 0) {
    work->ranges.push_back({result.address, result.bytes, Uncomputed::kOpen});
    return GPEMU_CUDA_SUCCESS;
  }
  if (__builtin_mul_overflow(result.rows - 1, result.pitch, &extent) ||
      __builtin_add_overflow(extent, result.bytes, &extent)) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  if (result.rows == 1 || result.pitch <= result.bytes) {
    work->ranges.push_back({result.address, extent, how});
    return GPEMU_CUDA_SUCCESS;
  }
  if (work->ranges.size() + result.rows > kMostRows) {
    // The gaps do not belong to the rows, so they stay.
    work->ranges.push_back({result.address, extent, Uncomputed::kUpdated});
    return GPEMU_CUDA_SUCCESS;
  }
  for (Bytes row = 0; row < result.rows; ++row) {
    work->ranges.push_back({result.address + row * result.pitch, result.bytes, how});
  }
  return GPEMU_CUDA_SUCCESS;
}

/// Describes what a product writes and reads. Errors: INVALID_VALUE.
Status add_product(const gpemu_cuda_product& p, KernelWork* work) {
  const auto width = static_cast<Bytes>(gpemu_data_type_bytes(p.type_c));
  gpemu_cuda_result result{.address = p.c,
                           .bytes = static_cast<Bytes>(p.m) * width,
                           .pitch = static_cast<Bytes>(p.leading_c) * width,
                           .rows = static_cast<Bytes>(p.n),
                           .updates = p.known != 0 && p.beta != 0 ? 1 : 0};
  // As rows of each matrix, or as whole matrices without gaps.
  if (p.batch > static_cast<std::int64_t>(kMostRows)) {
    result.bytes += static_cast<Bytes>(p.n - 1) * result.pitch;
    result.pitch = static_cast<Bytes>(p.stride_c) * width;
    result.rows = static_cast<Bytes>(p.batch);
    GPEMU_CUDA_TRY(add_rows(result, work));
  } else {
    for (std::int64_t i = 0; i < p.batch; ++i) {
      result.address = p.c + static_cast<Bytes>(i * p.stride_c) * width;
      GPEMU_CUDA_TRY(add_rows(result, work));
    }
  }
  const auto read = [work](std::uint64_t address, std::int64_t elements, gpemu_data_type type) {
    work->reads.push_back({.start = address,
                           .bytes = static_cast<Bytes>(elements * gpemu_data_type_bytes(type)),
                           .writes = false});
  };
  read(p.a, p.leading_a * (p.transpose_a != 0 ? p.m : p.k) + (p.batch - 1) * p.stride_a, p.type);
  read(p.b, p.leading_b * (p.transpose_b != 0 ? p.k : p.n) + (p.batch - 1) * p.stride_b, p.type);
  return GPEMU_CUDA_SUCCESS;
}

/// Describes a product of operands whose addresses are known. Errors: INVALID_VALUE.
Status describe_product(const gpemu_cuda_product& p, WriterId writer, KernelWork* work) {
  work->writer = writer;
  GPEMU_CUDA_TRY(add_product(p, work));
  work->compute = [p] { return compute_product(p); };
  return GPEMU_CUDA_SUCCESS;
}

/// Multiplies operands whose addresses are now in arrays of a device, if those are known.
void multiply_in_arrays(const gpemu_cuda_product& p, WriterId writer) {
  const auto count = static_cast<Bytes>(p.batch);
  const auto a = addresses_at(p.a, count), b = addresses_at(p.b, count),
             c = addresses_at(p.c, count);
  gpemu_cuda_product one = p;
  one.batch = 1;
  one.arrays = 0;
  for (std::size_t i = 0; i < std::min({a.size(), b.size(), c.size()}); ++i) {
    one.a = a[i];
    one.b = b[i];
    one.c = c[i];
    KernelWork work;
    if (describe_product(one, writer, &work) == GPEMU_CUDA_SUCCESS) perform_now(work);
  }
}

}  // namespace

Status leave_result(const gpemu_cuda_result& result, const char* function,
                    gpemu_cuda_stream& stream) {
  KernelWork work;
  work.writer = writer_id(function);
  GPEMU_CUDA_TRY(add_rows(result, &work));
  if (result.matrices == 0) return perform_on(stream, std::move(work));
  KernelWork later = work_on_anything(work.writer);
  later.compute = [matrix = result, writer = work.writer] {
    for (const std::uint64_t address : addresses_at(matrix.address, matrix.matrices)) {
      gpemu_cuda_result one = matrix;
      one.address = address;
      one.matrices = 0;
      KernelWork each;
      each.writer = writer;
      if (add_rows(one, &each) == GPEMU_CUDA_SUCCESS) perform_now(each);
    }
    return true;
  };
  return perform_on(stream, std::move(later));
}

Status multiply(const gpemu_cuda_product& product, const char* function,
                gpemu_cuda_stream& stream) {
  const WriterId writer = writer_id(function);
  KernelWork work;
  if (product.arrays == 0) {
    GPEMU_CUDA_TRY(describe_product(product, writer, &work));
  } else {
    work = work_on_anything(writer);
    work.compute = [arrays = product, writer] {
      multiply_in_arrays(arrays, writer);
      return true;
    };
  }
  return perform_on(stream, std::move(work));
}

}  // namespace gpemu::cuda
