// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

/// The objects for which a library has given out handles, so that a handle is never dereferenced
/// before it is known to be alive.
///
/// Thread safety: all members may be called concurrently; using an object while another thread
/// destroys it is the caller's fault, as in the real libraries.
template <typename Object>
class HandleTable {
 public:
  /// Keeps an object; its address is its handle.
  Object* add(std::unique_ptr<Object> object) {
    Object* const handle = object.get();
    add(handle, std::move(object));
    return handle;
  }

  /// Keeps an object under a handle that another library gave out.
  void add(const void* handle, std::unique_ptr<Object> object) {
    const std::lock_guard lock(mutex_);
    objects_[handle] = std::move(object);
  }

  /// Returns the object, or null if the handle is not alive.
  [[nodiscard]] Object* find(const void* handle) {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(handle);
    return found == objects_.end() ? nullptr : found->second.get();
  }

  /// Ends an object; returns whether the handle was alive.
  bool remove(const void* handle) {
    const std::lock_guard lock(mutex_);
    return objects_.erase(handle) == 1;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<const void*, std::unique_ptr<Object>> objects_;
};
