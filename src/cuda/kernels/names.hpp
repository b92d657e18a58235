// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpemu/kernels/arguments.hpp"
#include "gpemu/kernels/kernel_name.hpp"
#include "gpemu/kernels/tensor_lists.hpp"

namespace gpemu::cuda {

using kernels::align, kernels::contains, kernels::read, kernels::threads_of;
using kernels::KernelName, kernels::read_kernel_name, kernels::readable_name;
using kernels::ListedTensors, kernels::TensorLists, kernels::listed_type, kernels::tensor_lists;
using kernels::number_in, kernels::skip_brackets, kernels::split_list, kernels::type_bytes;
using kernels::ParameterKind, kernels::parameter_kind, kernels::template_arguments;

}  // namespace gpemu::cuda
