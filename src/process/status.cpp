// SPDX-License-Identifier: Apache-2.0
#include "gpemu/process/status.hpp"

#include <new>

#include "gpemu/base/log.hpp"

namespace gpemu::process {

Status status_after(const std::exception& exception) {
  const bool no_memory = dynamic_cast<const std::bad_alloc*>(&exception) != nullptr;
  try {
    log_line(LogLevel::kError,
             no_memory ? "the host is out of memory; end other programs" : exception.what());
  } catch (const std::exception&) {
    // There is no memory for the message either; the status says it.
  }
  return no_memory ? GPEMU_CUDA_ERROR_OUT_OF_MEMORY : GPEMU_CUDA_ERROR_UNKNOWN;
}

}  // namespace gpemu::process
