// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <dlfcn.h>
#include <initializer_list>
#include <vector>

#include <gtest/gtest.h>

/// Calls to functions of shims by their names, on an emulated GPU with a virtual clock.
///
/// A shim is loaded by its file, as programs do; linking with it would bind the test to one.
class LoadedLibraries : public testing::Test {
 protected:
  /// Loads the shims in which `call` looks for functions.
  void load(std::initializer_list<const char*> paths) {
    ASSERT_EQ(setenv("GPEMU_GPU", "V100-PCIE-32GB", 1), 0);
    ASSERT_EQ(setenv("GPEMU_CLOCK", "virtual", 1), 0);
    ASSERT_EQ(unsetenv("GPEMU_STRICT"), 0);
    for (const char* path : paths) {
      libraries_.push_back(dlopen(path, RTLD_LAZY | RTLD_LOCAL));
      ASSERT_NE(libraries_.back(), nullptr) << dlerror();
    }
  }

  template <typename Result, typename... Arguments>
  Result call_as(const char* name, Arguments... arguments) {
    for (void* const library : libraries_) {
      if (void* const symbol = dlsym(library, name); symbol != nullptr) {
        return reinterpret_cast<Result (*)(Arguments...)>(symbol)(arguments...);
      }
    }
    ADD_FAILURE() << name << " is missing";
    return Result();
  }

  template <typename... Arguments>
  int call(const char* name, Arguments... arguments) {
    return call_as<int>(name, arguments...);
  }

  void* const none_ = nullptr;

 private:
  std::vector<void*> libraries_;
};
