// SPDX-License-Identifier: Apache-2.0
#include "prefetch.hpp"

#include "gpemu/memory/managed.hpp"

#include "capture.hpp"
#include "copy.hpp"

namespace gpemu::cuda {

process::Status prefetch_managed(std::uint64_t address, Bytes bytes, std::int32_t place,
                                 gpemu_cuda_stream& stream) {
  GPEMU_CUDA_TRY(refuse_captured(stream));
  if (!memory::shares_managed(*stream.device)) return GPEMU_CUDA_ERROR_INVALID_DEVICE;
  Bytes moved = 0;
  GPEMU_CUDA_TRY(memory::move_managed(address, bytes, place, &moved));
  if (moved > 0) queue_migration(stream, moved, place != memory::kHostPlace);
  return GPEMU_CUDA_SUCCESS;
}

}  // namespace gpemu::cuda
