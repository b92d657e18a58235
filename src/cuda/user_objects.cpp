// SPDX-License-Identifier: Apache-2.0
#include "user_objects.hpp"

#include "gpemu/process/made_once.hpp"
#include "gpemu/process/process.hpp"

namespace gpemu::cuda {
namespace {

/// More than any program keeps alive; an unused slot costs only address space.
constexpr std::size_t kMaxUserObjects = 1 << 16;

}  // namespace

process::HandleTable<gpemu_cuda_user_object>& user_objects() {
  static constinit process::MadeOnce<process::HandleTable<gpemu_cuda_user_object>> table;
  return table.get(kMaxUserObjects);
}

void end_if_unheld(gpemu_cuda_user_object& object, std::vector<gpemu_cuda_user_object*>& released) {
  if (object.references == 0 && object.held == 0) released.push_back(&object);
}

void retain_objects(const UserObjects& objects) {
  for (const auto& [object, count] : objects) object->held += count;
}

void release_objects(const UserObjects& objects, std::vector<gpemu_cuda_user_object*>& released) {
  for (const auto& [object, count] : objects) {
    object->held -= count;
    end_if_unheld(*object, released);
  }
}

void destroy_objects(const std::vector<gpemu_cuda_user_object*>& released) {
  for (gpemu_cuda_user_object* const object : released) {
    object->destroy(object->object);
    user_objects().destroy(object);
  }
}

}  // namespace gpemu::cuda
