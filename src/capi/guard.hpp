// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <cxxabi.h>
#include <exception>
#include <initializer_list>
#include <new>
#include <string_view>

#include "gpemu/base/error.hpp"
#include "gpemu/base/per_thread.hpp"
#include "gpemu/gpemu.h"

/// Helpers for every function of the C interface.
namespace gpemu {

template <std::size_t Size>
void copy_text(char (&destination)[Size], std::string_view text) {
  const std::size_t count = text.copy(destination, Size - 1);
  destination[count] = '\0';
}

/// The message of a thread's last call, unless it succeeded.
struct LastError {
  char message[1024] = "";
};

inline gpemu_status report(ErrorCode code, std::string_view message) {
  LastError* const last = PerThread<LastError>::get();
  if (last != nullptr) copy_text(last->message, message);
  return static_cast<gpemu_status>(code);
}

/// Runs the body of an interface function, a callable that returns Result<void>. Errors and stray
/// exceptions become a status and a message. Exceptions are reported without allocating. Only a
/// thread that is cancelled, or that calls pthread_exit, unwinds through here.
template <typename Body>
gpemu_status guard(Body body) {
  try {
    if (LastError* const last = PerThread<LastError>::get()) last->message[0] = '\0';
    const Result<void> result = body();
    return result ? GPEMU_OK : report(result.error().code, result.error().message);
  } catch (const std::bad_alloc&) {
    return report(ErrorCode::kResourceLimit, "the host is out of memory; end other programs");
  } catch (const std::exception& exception) {
    return report(ErrorCode::kInternal, exception.what());
  } catch (...) {
    // The unwinding of a thread that ends has no type.
    if (abi::__cxa_current_exception_type() == nullptr) throw;
    return report(ErrorCode::kInternal, "an exception of an unknown type was thrown");
  }
}

template <typename... Pointers>
Result<void> require(const char* function, Pointers*... pointers) {
  if ((... && (pointers != nullptr))) return {};
  return fail(ErrorCode::kInvalidArgument, "{}: an argument is NULL", function);
}

inline Result<void> check_duration(std::int64_t duration_ns, const char* function) {
  if (duration_ns >= 0) return {};
  return fail(ErrorCode::kInvalidArgument, "{}: a duration of {} ns is negative", function,
              duration_ns);
}

/// Refuses a number for which an enumeration of the C interface has no name. A program in C may
/// pass one, but C++ must not copy it as that type.
template <typename Enum>
Result<void> check_enum(const char* argument, const Enum& value,
                        std::initializer_list<Enum> names) {
  int number = 0;
  static_assert(sizeof(number) == sizeof(value));
  std::memcpy(&number, &value, sizeof(number));
  if (std::ranges::find(names, number, [](Enum name) { return static_cast<int>(name); }) !=
      names.end()) {
    return {};
  }
  return fail(ErrorCode::kInvalidArgument, "{} is {}, which its type does not name", argument,
              number);
}

/// Fills the caller's structure of `struct_size` bytes, which may be of an older, shorter version.
template <typename Struct>
Result<void> fill(Struct* destination, Struct source, const char* function) {
  if (destination->struct_size < sizeof(std::size_t) || destination->struct_size > sizeof(Struct)) {
    return fail(ErrorCode::kInvalidArgument,
                "{}: set struct_size to sizeof the structure, at most {} for this library, not {}",
                function, sizeof(Struct), destination->struct_size);
  }
  source.struct_size = destination->struct_size;
  std::memcpy(destination, &source, source.struct_size);
  return {};
}

}  // namespace gpemu
