// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The newest version of the interface that nvshmem_info_get_version documents.
constexpr int kMajorVersion = 1, kMinorVersion = 3;

// Source: nvshmem_common.h.

/// nvshmemx_init_status_t.
enum Status : int { kNotInitialized = 0 };

/// What functions that are not supported return: none that returns a number returns it on success.
constexpr int kFailed = -1;
