// SPDX-License-Identifier: Apache-2.0
#pragma once

// Source: nvshmem_common.h.

/// nvshmemx_init_status_t.
enum Status : int { kNotInitialized = 0 };
