// SPDX-License-Identifier: Apache-2.0
#include "gpemu/process/log.hpp"

#include <exception>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "gpemu/base/log.hpp"
#include "gpemu/base/mutex.hpp"
#include "gpemu/cuda.h"
#include "gpemu/process/handle_table.hpp"
#include "gpemu/process/process.hpp"

struct gpemu_cuda_log {
  gpemu_cuda_log_callback callback = nullptr;
  void* data = nullptr;
};

namespace gpemu::process {
namespace {

constexpr std::size_t kMaxLogs = 1 << 10;

/// CU_LOG_LEVEL_ERROR.
constexpr std::int32_t kError = 0;

}  // namespace

struct Logs {
  Mutex mutex;
  HandleTable<gpemu_cuda_log>& table = *new HandleTable<gpemu_cuda_log>(kMaxLogs);
  std::vector<gpemu_cuda_log*> all GPEMU_GUARDED_BY(mutex);
};

namespace {

Logs& logs() {
  return process().logs.get();
}

}  // namespace

namespace {

void call_receivers(std::string_view message) {
  std::vector<gpemu_cuda_log> receivers;
  {
    const Lock lock(logs().mutex);
    for (const gpemu_cuda_log* const log : logs().all) receivers.push_back(*log);
  }
  // Without the lock, because callbacks may register others.
  for (const gpemu_cuda_log& receiver : receivers) {
    std::string text = fmt::format("gpemu: {}", message);
    receiver.callback(receiver.data, kError, text.data(), text.size());
  }
}

}  // namespace

thread_local constinit TellLater* TellLater::first = nullptr;

TellLater::TellLater() {
  if (first == nullptr) first = this;
}

TellLater::~TellLater() {
  if (first != this) return;
  first = nullptr;
  for (const std::string& message : messages) {
    try {
      call_receivers(message);
    } catch (const std::exception& exception) {
      static_cast<void>(status_after(exception));
    }
  }
}

void tell(std::string_view message) {
  notice(message);
  if (TellLater::first != nullptr) {
    TellLater::first->messages.emplace_back(message);
  } else {
    call_receivers(message);
  }
}

Status register_log(gpemu_cuda_log_callback callback, void* data, gpemu_cuda_log** log) {
  gpemu_cuda_log* const created = logs().table.create(callback, data);
  if (created == nullptr) return GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
  const Lock lock(logs().mutex);
  logs().all.push_back(created);
  *log = created;
  return GPEMU_CUDA_SUCCESS;
}

Status unregister_log(gpemu_cuda_log_handle log) {
  const Lock lock(logs().mutex);
  gpemu_cuda_log* const found = logs().table.find(log);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  std::erase(logs().all, found);
  logs().table.destroy(found);
  return GPEMU_CUDA_SUCCESS;
}

}  // namespace gpemu::process
