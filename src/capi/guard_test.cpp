// SPDX-License-Identifier: Apache-2.0
#include "guard.hpp"

#include <exception>
#include <new>
#include <pthread.h>
#include <stdexcept>
#include <thread>

#include <gtest/gtest.h>

namespace {

/// The status of an interface function in which `exception` is thrown. Its message is in the
/// LastError of this program, not in that of libgpemu.so.
template <typename Exception>
gpemu_status status_after(const Exception& exception) {
  return gpemu::guard(
      [&]() -> gpemu::Result<void> { std::rethrow_exception(std::make_exception_ptr(exception)); });
}

const char* message() {
  return gpemu::PerThread<gpemu::LastError>::get()->message;
}

TEST(CApiGuard, TellsThatTheHostIsOutOfMemory) {
  EXPECT_EQ(status_after(std::bad_alloc()), GPEMU_ERROR_RESOURCE_LIMIT);
  EXPECT_STREQ(message(), "the host is out of memory; end other programs");
}

TEST(CApiGuard, TellsWhatAnExceptionSays) {
  EXPECT_EQ(status_after(std::runtime_error("no luck")), GPEMU_ERROR_INTERNAL);
  EXPECT_STREQ(message(), "no luck");
}

TEST(CApiGuard, LetsNoOtherObjectOut) {
  EXPECT_EQ(status_after(7), GPEMU_ERROR_INTERNAL);
  EXPECT_STREQ(message(), "an exception of an unknown type was thrown");
}

TEST(CApiGuard, ThreadsMayEndInACall) {
  bool returned = false;
  std::thread([&returned] {
    static_cast<void>(gpemu::guard([]() -> gpemu::Result<void> { ::pthread_exit(nullptr); }));
    returned = true;
  }).join();
  EXPECT_FALSE(returned);
}

TEST(CApiGuard, ForgetsTheMessageOfTheLastCall) {
  EXPECT_EQ(status_after(7), GPEMU_ERROR_INTERNAL);
  EXPECT_EQ(gpemu::guard([]() -> gpemu::Result<void> { return {}; }), GPEMU_OK);
  EXPECT_STREQ(message(), "");
}

}  // namespace
