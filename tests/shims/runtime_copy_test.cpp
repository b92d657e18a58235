// SPDX-License-Identifier: Apache-2.0
// The runtime's copies and sets: one good call of each function and one bad one.
#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "runtime_calls.hpp"

namespace {

constexpr size_t kBytes = 256;
constexpr int kToDevice = 1, kToHost = 2, kDefault = 4, kUnknown = 5;
using Bytes = std::vector<unsigned char>;

// cudaMemcpy3DPeerParms.
struct PeerCopy3D {
  void* source_array;
  Position source_position;
  Pitched source;
  int source_device;
  void* destination_array;
  Position destination_position;
  Pitched destination;
  int destination_device;
  Extent extent;
};

class RuntimeCopies : public RuntimeCalls {
 protected:
  void SetUp() override {
    RuntimeCalls::SetUp();
    from_ = allocate(kBytes);
    to_ = allocate(kBytes);
  }
  void TearDown() override {
    each({"cudaFree"}, kSuccess, from_);
    each({"cudaFree"}, kSuccess, to_);
  }

  void write(void* to, unsigned char value) {
    const Bytes bytes(kBytes, value);
    EXPECT_EQ(call("cudaMemcpy", to, bytes.data(), kBytes, kDefault), kSuccess);
  }

  Bytes read(const void* from) {
    Bytes bytes(kBytes);
    EXPECT_EQ(call("cudaDeviceSynchronize"), kSuccess);
    EXPECT_EQ(call("cudaMemcpy", bytes.data(), from, kBytes, kDefault), kSuccess);
    return bytes;
  }

  /// Expects that a call of a function and of its twin turn what `to_` holds into `expected`.
  template <typename... Arguments>
  void writes(const std::string& function, const Bytes& expected, Arguments... arguments) {
    for (const std::string& name : {function, twin_of(function)}) {
      write(to_, 0);
      EXPECT_EQ(call(name.c_str(), arguments...), kSuccess) << name;
      EXPECT_EQ(read(to_), expected) << name;
    }
  }

  void *from_ = nullptr, *to_ = nullptr;
};

TEST_P(RuntimeCopies, BytesReachTheirDestination) {
  write(from_, 7);
  const Bytes expected(kBytes, 7);
  for (const std::string function : {"cudaMemcpy", "cudaMemcpyAsync"}) {
    writes(function, expected, to_, from_, kBytes, kOnDevice, none_);
    twins(function, kInvalidDirection, to_, from_, kBytes, kUnknown, none_);
    twins(function, kInvalidValue, to_, from_, kBytes + 1, kOnDevice, none_);
    twins(function, kSuccess, none_, none_, size_t{0}, kOnDevice, none_);
  }
  for (const char* function : {"cudaMemcpyPeer", "cudaMemcpyPeerAsync"}) {
    write(to_, 0);
    EXPECT_EQ(call(function, to_, 0, from_, 0, kBytes, none_), kSuccess) << function;
    EXPECT_EQ(read(to_), expected) << function;
    EXPECT_EQ(call(function, to_, 0, from_, kNoSuchDevice, kBytes, none_), kInvalidDevice);
  }
  void* stream = nullptr;
  ASSERT_EQ(call("cudaStreamCreate", &stream), kSuccess);
  const std::array<size_t, 2> sizes{16, 32};
  std::array<void*, 2> destinations{to_, static_cast<char*>(to_) + 64}, sources{from_, from_};
  Bytes of_batch(kBytes, 0);
  std::fill_n(of_batch.begin(), 16, 7);
  std::fill_n(of_batch.begin() + 64, 32, 7);
  size_t failed = 9;
  const auto copy_batch = [&](void* on) {
    return GetParam() < 13 ? call("cudaMemcpyBatchAsync", destinations.data(), sources.data(),
                                  sizes.data(), size_t{2}, none_, none_, size_t{0}, &failed, on)
                           : call("cudaMemcpyBatchAsync", destinations.data(), sources.data(),
                                  sizes.data(), size_t{2}, none_, none_, size_t{0}, on);
  };
  write(to_, 0);
  EXPECT_EQ(copy_batch(stream), kSuccess);
  EXPECT_EQ(read(to_), of_batch);
  EXPECT_EQ(copy_batch(none_), kInvalidValue);
  sources[1] = nullptr;
  EXPECT_EQ(copy_batch(stream), kInvalidValue);
  if (GetParam() < 13) {
    EXPECT_EQ(failed, 1U);
  }
  EXPECT_EQ(call("cudaStreamDestroy", stream), kSuccess);
}

TEST_P(RuntimeCopies, RowsAndPlanesReachTheirPlaces) {
  Bytes host(kBytes), expected(kBytes, 0);
  for (size_t index = 0; index < kBytes; ++index) host[index] = static_cast<unsigned char>(index);
  for (const size_t row : {0, 1, 2}) std::copy_n(&host[row * 16], 5, &expected[row * 32]);
  void* const from = host.data();
  const size_t width = 5, height = 3, narrow = 4;
  for (const char* function : {"cudaMemcpy2D", "cudaMemcpy2DAsync"}) {
    writes(function, expected, to_, size_t{32}, from, size_t{16}, width, height, kToDevice, none_);
    twins(function, kInvalidPitch, to_, narrow, from, size_t{16}, width, height, kToDevice, none_);
    twins(function, kInvalidDirection, to_, size_t{32}, from, size_t{16}, width, height, kUnknown,
          none_);
  }
  Copy3D copy{.source_position = {1, 0, 1},
              .source = {from, 16, 16, 4},
              .destination_position = {0, 1, 0},
              .destination = {to_, 32, 32, 3},
              .extent = {5, 2, 2},
              .kind = kToDevice};
  PeerCopy3D peer{.source_position = copy.source_position,
                  .source = copy.source,
                  .destination_position = copy.destination_position,
                  .destination = copy.destination,
                  .extent = copy.extent};
  expected.assign(kBytes, 0);
  for (const size_t plane : {0, 1}) {
    for (const size_t row : {0, 1}) {
      std::copy_n(&host[((1 + plane) * 4 + row) * 16 + 1], 5,
                  &expected[(plane * 3 + 1 + row) * 32]);
    }
  }
  for (const char* function : {"cudaMemcpy3D", "cudaMemcpy3DAsync"}) {
    writes(function, expected, &copy, none_);
    twins(function, kInvalidValue, none_, none_);
    Copy3D bad = copy;
    bad.kind = kUnknown;
    twins(function, kInvalidDirection, &bad, none_);
    bad = copy;
    bad.source.pitch = 4;
    twins(function, kInvalidPitch, &bad, none_);
    bad.source_array = dead_;
    twins(function, kNotSupported, &bad, none_);
  }
  for (const char* function : {"cudaMemcpy3DPeer", "cudaMemcpy3DPeerAsync"}) {
    peer.source_device = 0;
    writes(function, expected, &peer, none_);
    twins(function, kInvalidValue, none_, none_);
    peer.source_device = kNoSuchDevice;
    twins(function, kInvalidDevice, &peer, none_);
  }
}

TEST_P(RuntimeCopies, VariablesAreCopiedFromAndTo) {
  static int binary = 0;  // as much as the library reads of what is no binary
  static char variable = 0;
  void* const registered = call_as<void*>("__cudaRegisterFatBinary", &binary);
  call_as<void>("__cudaRegisterVar", registered, &variable, none_, "variable", 0, kBytes, 0, 0);
  call_as<void>("__cudaRegisterFatBinaryEnd", registered);
  EXPECT_EQ(call_as<char>("__cudaInitModule", registered), 1);
  size_t size = 0;
  EXPECT_EQ(call("cudaGetSymbolSize", &size, &variable), kSuccess);
  EXPECT_EQ(size, kBytes);
  EXPECT_EQ(call("cudaGetSymbolSize", none_, &variable), kInvalidValue);
  void* address = nullptr;
  EXPECT_EQ(call("cudaGetSymbolAddress", &address, &variable), kSuccess);
  EXPECT_NE(address, nullptr);
  EXPECT_EQ(call("cudaGetSymbolSize", &size, dead_), kInvalidSymbol);
  const size_t start = 0;
  unsigned char value = 1;
  for (const std::string suffix : {"", "Async"}) {
    const std::string to = "cudaMemcpyToSymbol" + suffix, from = "cudaMemcpyFromSymbol" + suffix;
    for (const auto& [write_to, read_from] : {std::pair{to, from}, {twin_of(to), twin_of(from)}}) {
      write(from_, ++value);
      write(to_, 0);
      EXPECT_EQ(call(write_to.c_str(), &variable, from_, kBytes, start, kOnDevice, none_), kSuccess)
          << write_to;
      EXPECT_EQ(call(read_from.c_str(), to_, &variable, kBytes, start, kOnDevice, none_), kSuccess)
          << read_from;
      EXPECT_EQ(read(to_), Bytes(kBytes, value)) << write_to << ' ' << read_from;
    }
    twins(to, kInvalidValue, &variable, from_, kBytes, size_t{1}, kOnDevice, none_);
    twins(from, kInvalidValue, to_, &variable, kBytes, size_t{1}, kOnDevice, none_);
    twins(to, kInvalidDirection, &variable, from_, kBytes, start, kToHost, none_);
    twins(from, kInvalidDirection, to_, &variable, kBytes, start, kToDevice, none_);
    twins(to, kInvalidSymbol, dead_, from_, kBytes, start, kOnDevice, none_);
    twins(from, kInvalidSymbol, to_, dead_, kBytes, start, kOnDevice, none_);
  }
  call_as<void>("__cudaUnregisterFatBinary", registered);
  EXPECT_EQ(call("cudaGetSymbolSize", &size, &variable), kInvalidSymbol);
}

TEST_P(RuntimeCopies, SetsRepeatAByte) {
  Bytes row(kBytes, 0), rows(kBytes, 0), planes(kBytes, 0);
  std::fill_n(row.begin(), 100, 5);
  for (const size_t y : {0, 1, 2}) std::fill_n(&rows[y * 32], 7, 5);
  for (const size_t y : {0, 1, 4, 5}) std::fill_n(&planes[y * 32], 7, 5);
  const size_t pitch = 32, narrow = 4, width = 7, height = 3;
  const Extent extent{7, 2, 2};
  for (const std::string suffix : {"", "Async"}) {
    writes("cudaMemset" + suffix, row, to_, 0x105, size_t{100}, none_);
    twins("cudaMemset" + suffix, kInvalidValue, to_, 5, kBytes + 1, none_);
    writes("cudaMemset2D" + suffix, rows, to_, pitch, 5, width, height, none_);
    twins("cudaMemset2D" + suffix, kInvalidValue, to_, narrow, 5, width, height, none_);
    writes("cudaMemset3D" + suffix, planes, Pitched{to_, pitch, pitch, 4}, 5, extent, none_);
    twins("cudaMemset3D" + suffix, kInvalidValue, Pitched{to_, narrow, narrow, 4}, 5, extent,
          none_);
  }
}

GPEMU_FOR_ALL_RUNTIMES(RuntimeCopies);

}  // namespace
