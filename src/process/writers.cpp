// SPDX-License-Identifier: Apache-2.0
#include "gpemu/process/writers.hpp"

#include <functional>
#include <map>
#include <vector>

#include "gpemu/base/mutex.hpp"
#include "gpemu/process/process.hpp"

namespace gpemu::process {

struct Writers {
  Mutex mutex;
  std::map<std::string, WriterId, std::less<>> ids GPEMU_GUARDED_BY(mutex);
  std::vector<std::string> names GPEMU_GUARDED_BY(mutex){""};  ///< by id.
};

namespace {

Writers& writers() {
  return process().writers.get();
}

}  // namespace

WriterId writer_id(std::string_view name) {
  Writers& state = writers();
  const Lock lock(state.mutex);
  const auto found = state.ids.find(name);
  if (found != state.ids.end()) return found->second;
  const auto id = static_cast<WriterId>(state.names.size());
  state.names.emplace_back(name);
  state.ids.emplace(name, id);
  return id;
}

std::string writer_name(WriterId id) {
  Writers& state = writers();
  const Lock lock(state.mutex);
  return id < state.names.size() ? state.names[id] : std::string();
}

}  // namespace gpemu::process
