// SPDX-License-Identifier: Apache-2.0
#pragma once

/// CURAND_VERSION. Source: curand.h of cuRAND 10.3.9.
constexpr int kVersion = 10309;

// Source: curand.h.

/// curandStatus_t.
enum Status : int {
  kSuccess = 0,
  kNotInitialized = 101,
  kTypeError = 103,
  kOutOfRange = 104,
  kLengthNotMultiple = 105,
  kLaunchFailure = 201,
  kInitializationFailed = 203,
  kArchMismatch = 204,
};

/// curandRngType.
enum GeneratorType : int {
  kPseudoDefault = 100,
  kXorwow = 101,
  kMrg32k3a = 121,
  kMtgp32 = 141,
  kMt19937 = 142,
  kPhilox = 161,
  kQuasiDefault = 200,
  kSobol32 = 201,
  kScrambledSobol32 = 202,
  kSobol64 = 203,
  kScrambledSobol64 = 204,
};

/// The most dimensions of a quasirandom generator. Source: cuRAND documentation,
/// "curandSetQuasiRandomGeneratorDimensions".
constexpr int kMaxDimensions = 20000;

/// curandOrdering_t: the first and the last.
constexpr int kPseudoBest = 100, kQuasiOrdering = 201;
