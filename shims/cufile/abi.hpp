// SPDX-License-Identifier: Apache-2.0
#pragma once

// Source: cufile.h.

/// CUfileOpError.
enum Status : int { kPlatformNotSupported = 5007 };
