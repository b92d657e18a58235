// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>

#include <gtest/gtest.h>

#include "gpemu/cuda.h"

namespace gpemu::cuda {

/// Makes the tests of this process run on one emulated V100 with the virtual clock.
inline void use_test_gpu() {
  ::unsetenv("GPEMU_NODE");
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  ::setenv("GPEMU_PROFILES", GPEMU_TEST_PROFILES, 1);
  ::setenv("GPEMU_CLOCK", "virtual", 1);
  ::setenv("GPEMU_GPU", "V100-PCIE-32GB", 1);
  ASSERT_EQ(gpemu_cuda_set_current_device(0), GPEMU_CUDA_SUCCESS);
}

}  // namespace gpemu::cuda
