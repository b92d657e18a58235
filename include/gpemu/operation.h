/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request to a GPU as the cost model sees it: one operation of a library, or one kernel.
 * The shims for NVIDIA's libraries describe their calls in these terms.
 */
#ifndef GPEMU_OPERATION_H_
#define GPEMU_OPERATION_H_

#include <stddef.h>
#include <stdint.h>

#include "gpemu/enum.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The type of a number. */
typedef enum gpemu_data_type GPEMU_INT {
  GPEMU_TYPE_UNKNOWN = 0, /* priced as FP32 */
  GPEMU_TYPE_FP64 = 1,
  GPEMU_TYPE_FP32 = 2,
  GPEMU_TYPE_TF32 = 3, /* as a compute type only: FP32 in memory, tensor cores in between */
  GPEMU_TYPE_FP16 = 4,
  GPEMU_TYPE_BF16 = 5,
  GPEMU_TYPE_FP8 = 6,
  GPEMU_TYPE_INT8 = 7,
  GPEMU_TYPE_INT16 = 8,
  GPEMU_TYPE_INT32 = 9,
  GPEMU_TYPE_INT64 = 10,
  GPEMU_TYPE_COMPLEX64 = 11, /* two FP32 */
  GPEMU_TYPE_COMPLEX128 = 12 /* two FP64 */
} gpemu_data_type;

/* Returns the size of a number in memory; that of FP32 if the type is not known. */
static inline int gpemu_data_type_bytes(gpemu_data_type type) {
  switch (type) {
    case GPEMU_TYPE_COMPLEX128:
      return 16;
    case GPEMU_TYPE_FP64:
    case GPEMU_TYPE_INT64:
    case GPEMU_TYPE_COMPLEX64:
      return 8;
    case GPEMU_TYPE_FP16:
    case GPEMU_TYPE_BF16:
    case GPEMU_TYPE_INT16:
      return 2;
    case GPEMU_TYPE_FP8:
    case GPEMU_TYPE_INT8:
      return 1;
    default:
      return 4;
  }
}

/* The kinds of operations. Each comment lists the entries of `shape`, in order. Entries that a kind
 * does not list are 0. */
typedef enum gpemu_operation_kind GPEMU_INT {
  /* A kernel of which only the launch is known: grid x, y, z, block x, y, z, dynamic shared bytes,
   * bytes that it is assumed to move (0: its name was not examined), arithmetic operations (0: not
   * known). `name` is the mangled name; `arguments` is the launch's argument array. */
  GPEMU_OPERATION_KERNEL = 0,
  /* batch, m, n, k, 1 if all products of a batch have the same m x k matrix, 1 if they have the
   * same k x n matrix, 1 if in both matrices the numbers of a sum lie next to each other. The
   * access is GPEMU_ACCESS_STRIDED if rows of an operand or of the result are no multiples of 16
   * bytes apart. */
  GPEMU_OPERATION_MATMUL = 1,
  /* batch, in channels, out channels, groups, spatial dimensions (1 to 3), then three entries each
   * (1 if unused): input size, filter size, output size, stride, dilation. For all three kinds, the
   * output is that of the forward convolution. */
  GPEMU_OPERATION_CONVOLUTION_FORWARD = 2,
  GPEMU_OPERATION_CONVOLUTION_BACKWARD_DATA = 3,
  GPEMU_OPERATION_CONVOLUTION_BACKWARD_FILTER = 4,
  /* batch, query heads, key and value heads, query length, key and value length, head size, 1 if
   * causal, and which kernel: a gpemu_attention. */
  GPEMU_OPERATION_ATTENTION_FORWARD = 5,
  GPEMU_OPERATION_ATTENTION_BACKWARD = 6,
  /* layers, directions, sequence length, batch, input size, hidden size, gates (1, 3 or 4). */
  GPEMU_OPERATION_RNN_FORWARD = 7,
  GPEMU_OPERATION_RNN_BACKWARD = 8,
  /* elements, channels (0: not known), how often an element is read or written (0: three times, or
   * five times backward: one pass for the statistics and one over the elements), and rows that have
   * a block of threads each (0: not known). `channels_last` is 1 for images with NHWC. The access
   * is GPEMU_ACCESS_STRIDED if a channel's elements are not adjacent for the threads that read
   * them: each takes 32 bytes. */
  GPEMU_OPERATION_NORMALIZATION_FORWARD = 9,
  GPEMU_OPERATION_NORMALIZATION_BACKWARD = 10,
  /* input elements, output elements, window elements, additional bytes per output element: the
   * position of its maximum. */
  GPEMU_OPERATION_POOLING = 11,
  /* elements read, elements written, arithmetic operations per element written, tensors that a
   * kernel over lists of tensors finishes (0: it has no such lists, or they are not known), and
   * the reads of 32 bytes for operands whose elements lie apart, as in a transposition (0: there
   * are none): for each warp as many as hold its elements. */
  GPEMU_OPERATION_ELEMENTWISE = 12,
  /* elements read, elements written. */
  GPEMU_OPERATION_REDUCTION = 13,
  /* batch, then the sizes of one to three dimensions (unused ones 1). */
  GPEMU_OPERATION_FFT = 14,
  /* Anything else of known work (factorisations, solves, sparse products): arithmetic operations,
   * bytes moved. */
  GPEMU_OPERATION_OTHER = 15,
  /* bytes, within one device. */
  GPEMU_OPERATION_COPY_ON_DEVICE = 16,
  /* bytes. */
  GPEMU_OPERATION_SET = 17,
  /* As for pooling, with the input and output of the forward operation: computes the gradient of
   * the input from that of the output. */
  GPEMU_OPERATION_POOLING_BACKWARD = 18,
  /* cycles of the multiprocessors' clock for which the kernel does nothing. */
  GPEMU_OPERATION_WAIT = 19
} gpemu_operation_kind;

enum { GPEMU_OPERATION_SHAPE_LENGTH = 20 };

/* How elements are found in memory. */
typedef enum gpemu_access GPEMU_INT {
  GPEMU_ACCESS_CONTIGUOUS = 0, /* side by side, several by one instruction; or not known */
  GPEMU_ACCESS_STRIDED = 1,    /* each by an index that is computed for it */
  GPEMU_ACCESS_CONVERTED = 2   /* side by side, one by one, of several types */
} gpemu_access;

/* Families of attention kernels. */
typedef enum gpemu_attention GPEMU_INT {
  GPEMU_ATTENTION_CUDNN = 0,
  GPEMU_ATTENTION_FLASH = 1,    /* FlashAttention 2, in PyTorch */
  GPEMU_ATTENTION_EFFICIENT = 2 /* memory-efficient attention, in PyTorch */
} gpemu_attention;

/* One operation. The code that describes a call fills it in. After the call that takes it, only the
 * cost model's copies are kept. */
typedef struct gpemu_operation {
  size_t struct_size;
  gpemu_operation_kind kind;
  gpemu_data_type type;         /* of the operands in memory */
  gpemu_data_type compute_type; /* of the arithmetic; GPEMU_TYPE_UNKNOWN: the same */
  int32_t channels_last;        /* convolutions, batch normalization: 1 for NHWC */
  int64_t shape[GPEMU_OPERATION_SHAPE_LENGTH];
  const char* name;       /* the library's function or the kernel's mangled name; never NULL */
  void* const* arguments; /* kernels only, else NULL */
  gpemu_access access;
} gpemu_operation;

#ifdef __cplusplus
}
#endif

#endif /* GPEMU_OPERATION_H_ */
