// SPDX-License-Identifier: Apache-2.0
#include "prefetch.hpp"

#include "capture.hpp"
#include "copy.hpp"
#include "managed.hpp"

namespace gpemu::cuda {

process::Status prefetch_managed(std::uint64_t address, Bytes bytes, std::int32_t place,
                                 gpemu_cuda_stream& stream) {
  GPEMU_CUDA_TRY(refuse_captured(stream));
  if (!shares_managed(*stream.device)) return GPEMU_CUDA_ERROR_INVALID_DEVICE;
  Bytes moved = 0;
  GPEMU_CUDA_TRY(move_managed(address, bytes, place, &moved));
  if (moved > 0) queue_migration(stream, moved, place != kHostPlace);
  return GPEMU_CUDA_SUCCESS;
}

}  // namespace gpemu::cuda
