// SPDX-License-Identifier: Apache-2.0
#include "gpemu/monitor.h"

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "gpemu/gpemu.h"

namespace {

TEST(CApiMonitor, AForkedChildInheritsNoLock) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a forked child inherits locks of the sanitizer's allocator";
#endif
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / ("gpemu_capi_" + std::to_string(::getpid()));
  ASSERT_EQ(::setenv("GPEMU_NODE_DIR", folder.c_str(), 1), 0);
  const gpemu_node_config config{
      .struct_size = sizeof config, .name = "n", .gpu = "V100-PCIE-32GB", .device_count = 1};
  gpemu_node* node = nullptr;
  ASSERT_EQ(gpemu_node_create(&config, &node), GPEMU_OK) << gpemu_last_error();
  std::atomic<bool> stop = false;
  std::thread reader([&stop] {
    while (!stop) {
      gpemu_monitor_attach();
      gpemu_monitor_detach();
    }
  });
  int status = 0;
  for (int i = 0; i < 100 && status == 0; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(10);
      int32_t count = 0;
      gpemu_monitor_attach();
      ::_exit(gpemu_monitor_device_count(&count) == GPEMU_OK ? 0 : 1);
    }
    EXPECT_EQ(::waitpid(child, &status, 0), child);
  }
  stop = true;
  reader.join();
  EXPECT_EQ(status, 0) << "a child waited for a lock until its alarm";
  gpemu_node_close(node);
  std::filesystem::remove_all(folder);
  ::unsetenv("GPEMU_NODE_DIR");
}

}  // namespace
