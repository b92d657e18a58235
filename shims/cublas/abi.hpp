// SPDX-License-Identifier: Apache-2.0
#pragma once

// Source: cuComplex.h.

/// cuComplex.
struct FloatComplex {
  float real, imaginary;
};

/// cuDoubleComplex.
struct DoubleComplex {
  double real, imaginary;
};
