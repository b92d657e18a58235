// SPDX-License-Identifier: Apache-2.0
#pragma once

/// CUDA_VERSION of the newest CUDA with each major number that the shims implement: 1000 times the
/// major number and 10 times the minor one. They are the last of CUDA 11, and those that
/// PyTorch 2.8 and 2.15 ask for. Source: cuda.h of CUDA 11.8, 12.8 and 13.2.
constexpr int kCuda11Version = 11080, kCuda12Version = 12080, kCuda13Version = 13020;

/// The version of the driver whose functions libcuda.so.1 answers for.
constexpr int kCudaDriverVersion = kCuda13Version;

#ifdef GPEMU_CUDA_MAJOR
/// CUDART_VERSION.
constexpr int kCudartVersion = GPEMU_CUDA_MAJOR == 11   ? kCuda11Version
                               : GPEMU_CUDA_MAJOR == 12 ? kCuda12Version
                                                        : kCuda13Version;
#endif
