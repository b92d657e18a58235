// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpemu/cuda.h"
#include "gpemu/kernels/kernel_effect.hpp"
#include "gpemu/kernels/kernel_work.hpp"

namespace gpemu::launch {

using kernels::KernelWork;

/// Returns work that may read and write any memory; `compute` finds out which.
[[nodiscard]] KernelWork work_on_anything(kernels::WriterId writer);

/// Performs it on memory, as far as that is on a device, and makes the context fail if an index is
/// out of bounds. What moves much content is left to the mover, until the last work of `stream`
/// ends; null: nobody waits for it.
void perform(const KernelWork& work, gpemu_cuda_stream* stream);

/// Like perform, without waiting for unfinished copies. For the `compute` of other work.
void perform_now(const KernelWork& work);

/// Describes a launch that is performed later, as one in a graph, by its arguments, which may not
/// exist then.
void describe_for_later(const kernels::KernelEffect& effect, const gpemu_cuda_launch& launch,
                        KernelWork* work);

/// Describes a launch, which was queued in `stream`, and performs it.
void perform_launch(const kernels::KernelEffect& effect, const gpemu_cuda_launch& launch,
                    gpemu_cuda_stream* stream);

}  // namespace gpemu::launch
