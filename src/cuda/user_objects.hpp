// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "gpemu/base/mutex.hpp"
#include "gpemu/cuda.h"
#include "gpemu/process/handle_table.hpp"
#include "gpemu/process/process.hpp"

struct gpemu_cuda_user_object {
  void* object = nullptr;
  void (*destroy)(void*) = nullptr;
  std::uint64_t references = 0;  ///< of the program.
  std::uint64_t held = 0;        ///< by graphs, executable ones too.
};

namespace gpemu::cuda {

/// Guards all graphs, captures and user objects, and the capture state of streams and events.
[[nodiscard]] inline Mutex& graph_mutex() {
  static constinit Mutex mutex;
  return mutex;
}

/// Objects of the program with the references that a graph holds to each. All of them are guarded
/// by the lock of graphs.
using UserObjects = std::map<gpemu_cuda_user_object*, std::uint32_t>;

[[nodiscard]] process::HandleTable<gpemu_cuda_user_object>& user_objects();

/// Takes references to the objects.
void retain_objects(const UserObjects& objects) GPEMU_REQUIRES(graph_mutex());

/// Releases references and puts objects without owners into `released`.
void release_objects(const UserObjects& objects, std::vector<gpemu_cuda_user_object*>& released)
    GPEMU_REQUIRES(graph_mutex());

/// Calls the destructors of the program. Requires: not the lock, because they may call back.
void destroy_objects(const std::vector<gpemu_cuda_user_object*>& released);

/// Puts an object into `released` if it has no owner.
void end_if_unheld(gpemu_cuda_user_object& object, std::vector<gpemu_cuda_user_object*>& released)
    GPEMU_REQUIRES(graph_mutex());

}  // namespace gpemu::cuda
