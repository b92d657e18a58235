// SPDX-License-Identifier: Apache-2.0
// The driver's copies and sets: one good call of each function and one bad one.
#include <algorithm>
#include <array>
#include <vector>

#include "driver_test.hpp"

namespace {

class DriverCopy : public Driver {
 protected:
  static constexpr size_t kBytes = 256;
  using Bytes = std::vector<unsigned char>;

  void SetUp() override {
    Driver::SetUp();
    from_ = allocate(kBytes);
    to_ = allocate(kBytes);
  }
  void TearDown() override {
    each({"cuMemFree_v2"}, kSuccess, from_);
    each({"cuMemFree_v2"}, kSuccess, to_);
    Driver::TearDown();
  }

  static Address address_of(const void* memory) { return reinterpret_cast<Address>(memory); }

  void write(Address to, const Bytes& bytes) {
    EXPECT_EQ(call("cuMemcpy", to, address_of(bytes.data()), bytes.size()), kSuccess);
  }

  Bytes read(Address from) {
    Bytes bytes(kBytes);
    EXPECT_EQ(call("cuCtxSynchronize"), kSuccess);
    EXPECT_EQ(call("cuMemcpy", address_of(bytes.data()), from, kBytes), kSuccess);
    return bytes;
  }

  /// Returns the spellings of a function: for the legacy default stream and for the thread's own.
  static std::array<std::string, 2> spellings(const std::string& function) {
    const bool async = function.find("Async") != std::string::npos;
    return {function, function + (async ? "_ptsz" : "_ptds")};
  }

  Address from_ = 0, to_ = 0;
};

TEST_F(DriverCopy, BytesReachTheirDestination) {
  Bytes host_from(kBytes), host_to(kBytes);
  const struct {
    const char* function;
    Address to, from;
  } copies[] = {{"cuMemcpy", to_, from_},
                {"cuMemcpyAsync", to_, from_},
                {"cuMemcpyHtoD_v2", to_, address_of(host_from.data())},
                {"cuMemcpyHtoDAsync_v2", to_, address_of(host_from.data())},
                {"cuMemcpyDtoH_v2", address_of(host_to.data()), from_},
                {"cuMemcpyDtoHAsync_v2", address_of(host_to.data()), from_},
                {"cuMemcpyDtoD_v2", to_, from_},
                {"cuMemcpyDtoDAsync_v2", to_, from_}};
  unsigned char value = 1;
  for (const auto& [function, to, from] : copies) {
    for (const std::string& name : spellings(function)) {
      write(from, Bytes(kBytes, ++value));
      EXPECT_EQ(call(name.c_str(), to, from, kBytes, none_), kSuccess) << name;
      EXPECT_EQ(read(to), Bytes(kBytes, value)) << name;
      EXPECT_EQ(call(name.c_str(), to, Address{0}, kBytes, none_), kInvalidValue) << name;
      const bool to_host = to != to_;
      EXPECT_EQ(call(name.c_str(), to_host ? to : to + 1, to_host ? from + 1 : from, kBytes, none_),
                kInvalidValue)
          << name << " beyond the end of its memory";
      EXPECT_EQ(call(name.c_str(), Address{0}, Address{0}, size_t{0}, none_), kSuccess) << name;
    }
  }
  for (const char* function : {"cuMemcpyPeer", "cuMemcpyPeerAsync"}) {
    for (const std::string& name : spellings(function)) {
      write(from_, Bytes(kBytes, ++value));
      EXPECT_EQ(call(name.c_str(), to_, context_, from_, context_, kBytes, none_), kSuccess)
          << name;
      EXPECT_EQ(read(to_), Bytes(kBytes, value)) << name;
      EXPECT_EQ(call(name.c_str(), to_, context_, Address{0}, context_, kBytes, none_),
                kInvalidValue)
          << name;
    }
  }
}

// CUDA_MEMCPY2D and CUDA_MEMCPY3D.
struct End2D {
  size_t x_bytes, y;
  unsigned type;
  const void* host;
  Address device;
  void* array;
  size_t pitch;
};
struct Copy2D {
  End2D source, destination;
  size_t width_bytes, height;
};
struct End3D {
  size_t x_bytes, y, z, level;
  unsigned type;
  const void* host;
  Address device;
  void *array, *reserved;
  size_t pitch, height;
};
struct Copy3D {
  End3D source, destination;
  size_t width_bytes, height, depth;
};

TEST_F(DriverCopy, RowsAndPlanesReachTheirPlaces) {
  Bytes host(kBytes);
  for (size_t index = 0; index < kBytes; ++index) host[index] = static_cast<unsigned char>(index);
  // Two rows of three bytes, in rows of 16 and of 32 bytes.
  const Copy2D rows{
      .source = {.x_bytes = 1, .y = 2, .type = kHost, .host = &host[0], .pitch = 16},
      .destination = {.x_bytes = 4, .y = 1, .type = kDevice, .device = to_, .pitch = 32},
      .width_bytes = 3,
      .height = 2};
  Bytes expected(kBytes, 0);
  for (const size_t row : {0, 1}) {
    std::copy_n(&host[(2 + row) * 16 + 1], 3, &expected[(1 + row) * 32 + 4]);
  }
  const auto check = [&](const std::string& name, auto copy) {
    write(to_, Bytes(kBytes, 0));
    EXPECT_EQ(call(name.c_str(), &copy, none_), kSuccess) << name;
    EXPECT_EQ(read(to_), expected) << name;
    EXPECT_EQ(call(name.c_str(), none_, none_), kInvalidValue) << name;
    auto bad = copy;
    bad.source.pitch = 2;
    EXPECT_EQ(call(name.c_str(), &bad, none_), kInvalidValue) << name << ": rows overlap";
    bad = copy;
    bad.source.type = kArray;
    EXPECT_EQ(call(name.c_str(), &bad, none_), kNotSupported) << name;
    bad.source.type = 0;
    EXPECT_EQ(call(name.c_str(), &bad, none_), kInvalidValue) << name;
  };
  for (const char* function : {"cuMemcpy2D_v2", "cuMemcpy2DUnaligned_v2", "cuMemcpy2DAsync_v2"}) {
    for (const std::string& name : spellings(function)) check(name, rows);
  }
  // Two planes of two rows, in planes of four rows of 16 bytes and of two rows of 32 bytes.
  const Copy3D planes{
      .source = {.x_bytes = 1, .z = 1, .type = kHost, .host = &host[0], .pitch = 16, .height = 4},
      .destination = {.y = 1, .z = 1, .type = kDevice, .device = to_, .pitch = 32, .height = 2},
      .width_bytes = 5,
      .height = 2,
      .depth = 2};
  expected.assign(kBytes, 0);
  for (const size_t plane : {0, 1}) {
    for (const size_t row : {0, 1}) {
      std::copy_n(&host[((1 + plane) * 4 + row) * 16 + 1], 5,
                  &expected[((1 + plane) * 2 + 1 + row) * 32]);
    }
  }
  for (const char* function : {"cuMemcpy3D_v2", "cuMemcpy3DAsync_v2"}) {
    for (const std::string& name : spellings(function)) check(name, planes);
  }
}

TEST_F(DriverCopy, SetsRepeatElements) {
  constexpr size_t kCount = 5, kRows = 3, kPitch = 32;
  constexpr uint64_t kValue = 0x04030201;
  const struct {
    const char *set, *set_async, *set_2d, *set_2d_async;
    size_t element_bytes;
  } functions[] = {
      {"cuMemsetD8_v2", "cuMemsetD8Async", "cuMemsetD2D8_v2", "cuMemsetD2D8Async", 1},
      {"cuMemsetD16_v2", "cuMemsetD16Async", "cuMemsetD2D16_v2", "cuMemsetD2D16Async", 2},
      {"cuMemsetD32_v2", "cuMemsetD32Async", "cuMemsetD2D32_v2", "cuMemsetD2D32Async", 4}};
  for (const auto& [set, set_async, set_2d, set_2d_async, element_bytes] : functions) {
    const uint64_t value = kValue & ((uint64_t{1} << 8 * element_bytes) - 1);
    const Bytes none(kBytes, 0);
    Bytes row = none, rows = none;
    for (size_t index = 0; index < kCount * element_bytes; ++index) {
      row[index] = static_cast<unsigned char>(index % element_bytes + 1);
      for (size_t y = 0; y < kRows; ++y) rows[y * kPitch + index] = row[index];
    }
    for (const char* function : {set, set_async}) {
      for (const std::string& name : spellings(function)) {
        write(to_, none);
        EXPECT_EQ(call(name.c_str(), to_, value, kCount, none_), kSuccess) << name;
        EXPECT_EQ(read(to_), row) << name;
        EXPECT_EQ(call(name.c_str(), to_, value, kBytes + 1, none_), kInvalidValue) << name;
        EXPECT_EQ(call(name.c_str(), to_ + 1, value, kCount, none_),
                  element_bytes == 1 ? kSuccess : kInvalidValue)
            << name << " at an odd address";
        EXPECT_EQ(call(name.c_str(), Address{0}, value, size_t{0}, none_), kSuccess) << name;
      }
    }
    for (const char* function : {set_2d, set_2d_async}) {
      for (const std::string& name : spellings(function)) {
        write(to_, none);
        EXPECT_EQ(call(name.c_str(), to_, kPitch, value, kCount, kRows, none_), kSuccess) << name;
        EXPECT_EQ(read(to_), rows) << name;
        EXPECT_EQ(call(name.c_str(), to_, size_t{4}, value, kCount, kRows, none_), kInvalidValue)
            << name << ": rows overlap";
        EXPECT_EQ(call(name.c_str(), Address{0}, kPitch, value, kCount, kRows, none_),
                  kInvalidValue)
            << name;
      }
    }
  }
}

}  // namespace
