// SPDX-License-Identifier: Apache-2.0
#include "library_work.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "gpemu/kernels/kernel_work.hpp"
#include "gpemu/launch/kernel_execution.hpp"
#include "gpemu/memory/content.hpp"
#include "gpemu/memory/kernel_memory.hpp"
#include "gpemu/memory/product.hpp"
#include "gpemu/process/writers.hpp"

#include "capture.hpp"

namespace gpemu::cuda {
namespace {

/// Returns the addresses in an array of a device; none if they are not known.
std::vector<std::uint64_t> addresses_at(std::uint64_t array, Bytes count) {
  constexpr Bytes kAddressBytes = 8;
  if (memory::device_bytes_at(array, count * kAddressBytes) < count * kAddressBytes) return {};
  std::vector<std::uint64_t> addresses(count);
  if (!memory::load_for_kernel(array, addresses.data(), count * kAddressBytes)) return {};
  return addresses;
}

/// With more rows, a call is one range, including the gaps between rows.
constexpr Bytes kMostRows = Bytes{1} << 16;

/// Adds rows, as one range if there are no gaps between them. Errors: INVALID_VALUE.
process::Status add_rows(const gpemu_cuda_result& result, kernels::KernelWork* work) {
  const kernels::Uncomputed how =
      result.updates != 0 ? kernels::Uncomputed::kUpdated : kernels::Uncomputed::kWritten;
  Bytes extent = 0;
  if (result.bytes == 0 || result.address == 0) return GPEMU_CUDA_SUCCESS;
  if (result.rows == 0) {
    constexpr Bytes kMost = Bytes{1} << 40;
    const Bytes most = memory::device_bytes_at(result.address, kMost);
    if (most > 0) work->ranges.push_back({result.address, most, kernels::Uncomputed::kSomewhere});
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
    work->ranges.push_back({result.address, extent, kernels::Uncomputed::kUpdated});
    return GPEMU_CUDA_SUCCESS;
  }
  for (Bytes row = 0; row < result.rows; ++row) {
    work->ranges.push_back({result.address + row * result.pitch, result.bytes, how});
  }
  return GPEMU_CUDA_SUCCESS;
}

/// Arithmetic on the caller's sizes, which 64 bits may not hold.
class CheckedSizes {
 public:
  std::int64_t product(std::int64_t a, std::int64_t b) {
    fit_ &= !__builtin_mul_overflow(a, b, &a);
    return a;
  }
  std::int64_t sum(std::int64_t a, std::int64_t b) {
    fit_ &= !__builtin_add_overflow(a, b, &a);
    return a;
  }
  /// Returns whether 64 bits held all results.
  [[nodiscard]] bool fit() const { return fit_; }

 private:
  bool fit_ = true;
};

Bytes magnitude(std::int64_t value) {
  return value < 0 ? -static_cast<Bytes>(value) : static_cast<Bytes>(value);
}

/// Describes what a product writes and reads. Errors: INVALID_VALUE.
process::Status add_product(const gpemu_cuda_product& p, kernels::KernelWork* work) {
  if (p.batch == 0) return GPEMU_CUDA_SUCCESS;
  if (p.leading_a < 0 || p.leading_b < 0 || p.leading_c < 0) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  CheckedSizes sizes;
  // Where the last matrix of a batch begins, in bytes after the first.
  const auto last = [&](std::int64_t stride, std::int64_t width) {
    return sizes.product(sizes.product(p.batch - 1, stride), width);
  };
  const auto read = [&](std::uint64_t address, std::int64_t elements, std::int64_t stride) {
    const std::int64_t width = gpemu_data_type_bytes(p.type);
    const std::int64_t one = sizes.product(elements, width), to_last = last(stride, width);
    work->reads.push_back({.start = address - (to_last < 0 ? magnitude(to_last) : 0),
                           .bytes = static_cast<Bytes>(one) + magnitude(to_last),
                           .writes = false});
  };
  read(p.a, sizes.product(p.leading_a, p.transpose_a != 0 ? p.m : p.k), p.stride_a);
  read(p.b, sizes.product(p.leading_b, p.transpose_b != 0 ? p.k : p.n), p.stride_b);
  const std::int64_t width = gpemu_data_type_bytes(p.type_c);
  const std::int64_t bytes = sizes.product(p.m, width);
  const std::int64_t pitch = sizes.product(p.leading_c, width);
  const std::int64_t whole = sizes.sum(sizes.product(p.n - 1, pitch), bytes);
  const std::int64_t to_last = last(p.stride_c, width);
  if (!sizes.fit()) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  gpemu_cuda_result result{.address = p.c,
                           .bytes = static_cast<Bytes>(bytes),
                           .pitch = static_cast<Bytes>(pitch),
                           .rows = static_cast<Bytes>(p.n),
                           .updates = p.known != 0 && p.beta != 0 ? 1 : 0};
  // As rows of each matrix, or as whole matrices without gaps.
  if (p.batch > static_cast<std::int64_t>(kMostRows)) {
    result.address -= to_last < 0 ? magnitude(to_last) : 0;
    result.bytes = static_cast<Bytes>(whole);
    result.pitch = magnitude(to_last) / static_cast<Bytes>(p.batch - 1);
    result.rows = static_cast<Bytes>(p.batch);
    return add_rows(result, work);
  }
  for (std::int64_t i = 0; i < p.batch; ++i) {
    result.address = p.c + static_cast<Bytes>(i * p.stride_c * width);
    GPEMU_CUDA_TRY(add_rows(result, work));
  }
  return GPEMU_CUDA_SUCCESS;
}

/// Describes a product of operands whose addresses are known. Errors: INVALID_VALUE.
process::Status describe_product(const gpemu_cuda_product& p, kernels::WriterId writer,
                                 kernels::KernelWork* work) {
  work->writer = writer;
  GPEMU_CUDA_TRY(add_product(p, work));
  work->compute = [p](kernels::Memory&) { return memory::compute_product(p); };
  return GPEMU_CUDA_SUCCESS;
}

/// Multiplies operands whose addresses are now in arrays of a device, if those are known.
void multiply_in_arrays(const gpemu_cuda_product& p, kernels::WriterId writer) {
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
    kernels::KernelWork work;
    if (describe_product(one, writer, &work) == GPEMU_CUDA_SUCCESS) launch::perform_now(work);
  }
}

}  // namespace

process::Status leave_result(const gpemu_cuda_result& result, const char* function,
                             gpemu_cuda_stream& stream) {
  kernels::KernelWork work;
  work.writer = process::writer_id(function);
  GPEMU_CUDA_TRY(add_rows(result, &work));
  if (result.matrices == 0) return perform_on(stream, std::move(work));
  kernels::KernelWork later = launch::work_on_anything(work.writer);
  later.compute = [matrix = result, writer = work.writer](kernels::Memory&) {
    for (const std::uint64_t address : addresses_at(matrix.address, matrix.matrices)) {
      gpemu_cuda_result one = matrix;
      one.address = address;
      one.matrices = 0;
      kernels::KernelWork each;
      each.writer = writer;
      if (add_rows(one, &each) == GPEMU_CUDA_SUCCESS) launch::perform_now(each);
    }
    return true;
  };
  return perform_on(stream, std::move(later));
}

process::Status multiply(const gpemu_cuda_product& product, const char* function,
                         gpemu_cuda_stream& stream) {
  const kernels::WriterId writer = process::writer_id(function);
  kernels::KernelWork work;
  if (product.arrays == 0) {
    GPEMU_CUDA_TRY(describe_product(product, writer, &work));
  } else {
    work = launch::work_on_anything(writer);
    work.compute = [arrays = product, writer](kernels::Memory&) {
      multiply_in_arrays(arrays, writer);
      return true;
    };
  }
  return perform_on(stream, std::move(work));
}

}  // namespace gpemu::cuda
