// SPDX-License-Identifier: Apache-2.0
#pragma once
// The lines of functions.def that hold for CUDA 11 only (11), before 13 (12) or since then (13), in
// terms of IMPLEMENTED and NOT_SUPPORTED, which the including file defines.
#if defined(GPEMU_CUDA_MAJOR) && GPEMU_CUDA_MAJOR == 11
#define IMPLEMENTED_11(function) IMPLEMENTED(function)
#define NOT_SUPPORTED_11(function) NOT_SUPPORTED(function)
#else
#define IMPLEMENTED_11(function)
#define NOT_SUPPORTED_11(function)
#endif
#if defined(GPEMU_CUDA_MAJOR) && GPEMU_CUDA_MAJOR < 13
#define IMPLEMENTED_12(function) IMPLEMENTED(function)
#define NOT_SUPPORTED_12(function) NOT_SUPPORTED(function)
#else
#define IMPLEMENTED_12(function)
#define NOT_SUPPORTED_12(function)
#endif
#if defined(GPEMU_CUDA_MAJOR) && GPEMU_CUDA_MAJOR == 13
#define IMPLEMENTED_13(function) IMPLEMENTED(function)
#define NOT_SUPPORTED_13(function) NOT_SUPPORTED(function)
#else
#define IMPLEMENTED_13(function)
#define NOT_SUPPORTED_13(function)
#endif
