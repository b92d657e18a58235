// SPDX-License-Identifier: Apache-2.0
#include "slurm/slurm_settings.hpp"

#include <gtest/gtest.h>
