// SPDX-License-Identifier: Apache-2.0
#pragma once
// The lines of functions.def that hold for one CUDA major only, in terms of IMPLEMENTED and
// NOT_SUPPORTED, which the including file defines.
#if defined(GPEMU_CUDA_MAJOR) && GPEMU_CUDA_MAJOR == 12
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
