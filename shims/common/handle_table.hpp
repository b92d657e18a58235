// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include "gpemu/base/mutex.hpp"

/// Objects of any type, by handle. It does not depend on their types, so that a library with many
/// kinds of handles has its code once. Thread safety: any thread.
template <typename Handle>
class ObjectTable {
 public:
  using Object = std::unique_ptr<void, void (*)(void*)>;

  void add(Handle handle, Object object) GPEMU_EXCLUDES(mutex_) {
    const gpemu::Lock lock(mutex_);
    objects_.insert_or_assign(handle, std::move(object));
  }

  [[nodiscard]] void* find(Handle handle) GPEMU_EXCLUDES(mutex_) {
    const gpemu::Lock lock(mutex_);
    const auto found = objects_.find(handle);
    return found == objects_.end() ? nullptr : found->second.get();
  }

  bool remove(Handle handle) GPEMU_EXCLUDES(mutex_) {
    typename Objects::node_type ended;  // its destructor runs without the lock
    const gpemu::Lock lock(mutex_);
    ended = objects_.extract(handle);
    return !ended.empty();
  }

 private:
  using Objects = std::unordered_map<Handle, Object>;

  gpemu::Mutex mutex_;
  Objects objects_ GPEMU_GUARDED_BY(mutex_);
};

/// The objects for which a library has given out handles, so that a handle is never dereferenced
/// before it is known to be alive.
///
/// Thread safety: all members may be called concurrently; using an object while another thread
/// destroys it is the caller's fault, as in the real libraries.
template <typename Object, typename Handle = const void*>
class HandleTable {
 public:
  /// Keeps an object; its address is its handle.
  Object* add(std::unique_ptr<Object> object) {
    Object* const handle = object.get();
    add(handle, std::move(object));
    return handle;
  }

  /// Keeps an object under a handle of the caller's choice.
  void add(Handle handle, std::unique_ptr<Object> object) {
    objects_.add(handle, {object.release(), [](void* kept) { delete static_cast<Object*>(kept); }});
  }

  /// Returns the object, or null if the handle is not alive.
  [[nodiscard]] Object* find(Handle handle) { return static_cast<Object*>(objects_.find(handle)); }

  /// Ends an object; returns whether the handle was alive.
  bool remove(Handle handle) { return objects_.remove(handle); }

 private:
  ObjectTable<Handle> objects_;
};

/// Returns the live objects of a kind. Never destroyed: programs end with handles alive and use
/// them until the last destructor.
template <typename Object, typename Handle = const void*>
HandleTable<Object, Handle>& alive() {
  static auto* const table = new HandleTable<Object, Handle>;
  return *table;
}

/// Returns the object of a handle, or null if it is not alive. `Handle` selects the table, so it is
/// not deduced from the argument.
template <typename Object, typename Handle = const void*>
Object* find_object(std::type_identity_t<Handle> handle) {
  return alive<Object, Handle>().find(handle);
}
