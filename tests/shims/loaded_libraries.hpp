// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <dlfcn.h>
#include <fstream>
#include <initializer_list>
#include <mutex>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

/// Which functions the program called, for check_calls.py. At its end, the program appends them to
/// the file that GPEMU_TEST_CALLS names. Thread-safe.
class CallLog {
 public:
  ~CallLog() {
    if (const char* const path = std::getenv("GPEMU_TEST_CALLS"); path != nullptr) {
      std::ofstream file(path, std::ios::app);
      for (const std::string& line : lines_) file << line << '\n';
    }
  }

  /// `how` is good, bad, or, if the result is no status, called.
  void note(const char* function, const char* how) {
    const std::lock_guard lock(mutex_);
    lines_.insert(std::string(function) + ' ' + how);
  }

 private:
  std::mutex mutex_;
  std::set<std::string> lines_;
};

inline CallLog call_log;

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

  /// Returns the first function that has this name; null if none has.
  void* find(const char* name) const {
    void* symbol = nullptr;
    for (void* const library : libraries_) {
      symbol = symbol == nullptr ? dlsym(library, name) : symbol;
    }
    return symbol;
  }

  template <typename Result, typename... Arguments>
  Result call_as(const char* name, Arguments... arguments) {
    const auto function = reinterpret_cast<Result (*)(Arguments...)>(find(name));
    if (function == nullptr) {
      ADD_FAILURE() << name << " is missing";
      return Result();
    }
    if constexpr (std::is_same_v<Result, int>) {
      const int status = function(arguments...);
      call_log.note(name, status == 0 ? "good" : "bad");
      return status;
    } else {
      call_log.note(name, "called");
      return function(arguments...);
    }
  }

  template <typename... Arguments>
  int call(const char* name, Arguments... arguments) {
    return call_as<int>(name, arguments...);
  }

  void* const none_ = nullptr;

 private:
  std::vector<void*> libraries_;
};
