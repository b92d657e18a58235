// SPDX-License-Identifier: Apache-2.0
// Kinds of memory x attributes: what CUDA says of each kind of allocation, and which calls take it.
#include <csignal>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "cubin.hpp"
#include "loaded_libraries.hpp"
#include "memory_structs.hpp"

namespace {

using Address = uint64_t;

constexpr int kSuccess = 0, kInvalidValue = 1;
constexpr size_t kPage = size_t{2} << 20;
constexpr int kFileDescriptor = 1;

/// CUpointer_attribute.
enum Attribute : int {
  kMemoryType = 2,
  kDevicePointer = 3,
  kHostPointer = 4,
  kIsManaged = 8,
  kOrdinal = 9,
  kIsLegacyIpc = 10,
  kRangeStart = 11,
  kRangeSize = 12,
  kMapped = 13,
  kHandleTypes = 14,
  kAccessFlags = 16,
  kPool = 17,
  kMappingSize = 18,
};

/// CUmemAllocationProp.
struct AllocationProperties {
  int type, handle_types;
  Location location;
  void* security;
  char flags[8];
};

/// cudaPointerAttributes.
struct PointerAttributes {
  int type, device;
  void *device_pointer, *host_pointer;
};

/// CUipcMemHandle.
struct IpcHandle {
  char bytes[64];
};

/// What is true of a kind of memory.
struct Expected {
  int runtime_type;      ///< cudaMemoryType: 1 host, 2 device, 3 managed
  unsigned driver_type;  ///< CUmemorytype: 1 host, 2 device
  bool on_host;          ///< the host has a pointer to it
  bool legacy_ipc = false;
  uint64_t handle_types = 0;
  bool has_pool = false;
};

class MemoryTable;
struct Kind {
  const char* name;
  const char* source;  ///< beside cuPointerGetAttribute
  Expected expected;
  std::function<Address(MemoryTable&)> make;
  std::function<void(MemoryTable&, Address)> end;
};

class MemoryTable : public LoadedLibraries {
 public:
  /// Calls a function, which must succeed.
  template <typename... Arguments>
  void good(const char* function, Arguments... arguments) {
    EXPECT_EQ(call(function, arguments...), kSuccess) << function;
  }

  Address from_pool(void* pool) {
    Address address = 0;
    good("cuMemAllocFromPoolAsync", &address, kPage, pool, none_);
    return address;
  }

  Address mapped(int handle_types) {
    const AllocationProperties properties{kPinned, handle_types, {kDeviceLocation, 0}, nullptr, {}};
    const Access access{{kDeviceLocation, 0}, kReadWrite};
    Address range = 0;
    good("cuMemCreate", &physical_, kPage, &properties, uint64_t{0});
    good("cuMemAddressReserve", &range, 2 * kPage, size_t{0}, uint64_t{0}, uint64_t{0});
    good("cuMemMap", range, kPage, size_t{0}, physical_, uint64_t{0});
    good("cuMemSetAccess", range, kPage, &access, size_t{1});
    return range;
  }
  void unmap(Address range) {
    good("cuMemUnmap", range, kPage);
    good("cuMemAddressFree", range, 2 * kPage);
    good("cuMemRelease", physical_);
  }

  Address imported() {
    IpcHandle handle{};
    Address opened = 0;
    good("cuMemAlloc_v2", &exported_, kPage);
    good("cuIpcGetMemHandle", &handle, exported_);
    // A process that has the files of this one makes the handle that of another.
    child_ = fork();
    if (child_ == 0) {
      pause();
      _exit(0);
    }
    std::memcpy(&handle.bytes[12], &child_, sizeof(child_));
    good("cuIpcOpenMemHandle_v2", &opened, handle, 1U);
    return opened;
  }
  void close_import(Address opened) {
    good("cuIpcCloseMemHandle", opened);
    good("cuMemFree_v2", exported_);
    kill(child_, SIGKILL);
    EXPECT_EQ(waitpid(child_, nullptr, 0), child_);
  }

  void* pool_ = nullptr;
  void* module_ = nullptr;
  char own_[4096] = {};

 protected:
  void SetUp() override {
    load({GPEMU_TEST_DRIVER, GPEMU_TEST_RUNTIME_12});
    ASSERT_EQ(call("cuInit", 0U), kSuccess);
    ASSERT_EQ(call("cudaSetDevice", 0), kSuccess);
  }

  /// Returns an attribute, with -1 for one that the memory does not have.
  int64_t attribute(int which, Address address) {
    int64_t value = 0;
    const int status = call("cuPointerGetAttribute", &value, which, address);
    return status == kSuccess ? value : -1;
  }

  void expect(const Expected& expected, Address address, bool in_reservation) {
    EXPECT_EQ(attribute(kMemoryType, address), expected.driver_type);
    EXPECT_EQ(attribute(kIsManaged, address), expected.runtime_type == 3 ? 1 : 0);
    EXPECT_EQ(attribute(kOrdinal, address), 0);
    EXPECT_EQ(attribute(kIsLegacyIpc, address), expected.legacy_ipc ? 1 : 0);
    EXPECT_EQ(attribute(kMapped, address), 1);
    EXPECT_EQ(attribute(kHandleTypes, address), int64_t(expected.handle_types));
    EXPECT_EQ(attribute(kAccessFlags, address), kReadWrite);
    EXPECT_EQ(attribute(kDevicePointer, address), int64_t(address));
    EXPECT_EQ(attribute(kHostPointer, address), expected.on_host ? int64_t(address) : -1);
    EXPECT_EQ(attribute(kPool, address) != 0, expected.has_pool);
    EXPECT_EQ(attribute(kRangeStart, address), int64_t(address));
    const int64_t mapping = attribute(kMappingSize, address);
    EXPECT_EQ(attribute(kRangeSize, address), in_reservation ? 2 * mapping : mapping);
    const int ipc = expected.legacy_ipc ? kSuccess : kInvalidValue;
    IpcHandle handle{};
    EXPECT_EQ(call("cuIpcGetMemHandle", &handle, address), ipc);
    EXPECT_EQ(call("cudaIpcGetMemHandle", &handle, address), ipc);
    const int managed = expected.runtime_type == 3 ? kSuccess : kInvalidValue;
    int value = 0;
    EXPECT_EQ(call("cuMemRangeGetAttribute", &value, sizeof(value), 1, address, size_t{64}),
              managed);
    EXPECT_EQ(call("cuMemAdvise", address, size_t{64}, 1, 0), managed);
    EXPECT_EQ(call("cuMemPrefetchAsync", address, size_t{64}, 0, none_), managed);
    PointerAttributes attributes{};
    EXPECT_EQ(call("cudaPointerGetAttributes", &attributes, address), kSuccess);
    EXPECT_EQ(attributes.type, expected.runtime_type);
    EXPECT_EQ(attributes.device, 0);
    EXPECT_EQ(Address(attributes.device_pointer), address);
    EXPECT_EQ(Address(attributes.host_pointer), expected.on_host ? address : 0);
  }

  uint64_t physical_ = 0;
  Address exported_ = 0;
  pid_t child_ = -1;
};

using T = MemoryTable;

constexpr Expected kPlain{.runtime_type = 2, .driver_type = 2, .on_host = false};
constexpr Expected kMalloc{
    .runtime_type = 2, .driver_type = 2, .on_host = false, .legacy_ipc = true};
constexpr Expected kOfPool{.runtime_type = 2, .driver_type = 2, .on_host = false, .has_pool = true};
constexpr Expected kExported{
    .runtime_type = 2, .driver_type = 2, .on_host = false, .handle_types = kFileDescriptor};
constexpr Expected kPinnedHost{.runtime_type = 1, .driver_type = 1, .on_host = true};
constexpr Expected kManaged{.runtime_type = 3, .driver_type = 2, .on_host = true};

void free_it(T& t, Address address) {
  t.good("cuMemFree_v2", address);
}
void free_async(T& t, Address address) {
  t.good("cuMemFreeAsync", address, static_cast<void*>(nullptr));
}

Address pinned(T& t, unsigned flags) {
  void* memory = nullptr;
  t.good("cuMemHostAlloc", &memory, kPage, flags);
  return Address(memory);
}
void free_pinned(T& t, Address address) {
  t.good("cuMemFreeHost", address);
}

const std::vector<Kind>& kinds() {
  static const std::string code = cubin();
  static const std::vector<Kind> all = {
      {"cuMemAlloc", "cuIpcGetMemHandle", kMalloc,
       [](T& t) {
         Address address = 0;
         t.good("cuMemAlloc_v2", &address, kPage);
         return address;
       },
       free_it},
      {"cudaMalloc", "cudaIpcGetMemHandle", kMalloc,
       [](T& t) {
         Address address = 0;
         t.good("cudaMalloc", &address, size_t{100});
         return address;
       },
       free_it},
      {"cudaMallocPitch", "cudaIpcGetMemHandle", kMalloc,
       [](T& t) {
         Address address = 0;
         size_t pitch = 0;
         t.good("cudaMallocPitch", &address, &pitch, size_t{100}, size_t{10});
         return address;
       },
       free_it},
      {"cuMemAllocAsync", "github.com/openucx/ucx/pull/10065", kOfPool,
       [](T& t) {
         Address address = 0;
         t.good("cuMemAllocAsync", &address, kPage, static_cast<void*>(nullptr));
         return address;
       },
       free_async},
      {"cuMemAllocFromPoolAsync", "cudarc/issues/521", kOfPool,
       [](T& t) {
         const PoolProperties properties{kPinned, 0, {kDeviceLocation, 0}, nullptr, 0, {}};
         t.good("cuMemPoolCreate", &t.pool_, &properties);
         return t.from_pool(t.pool_);
       },
       [](T& t, Address address) {
         free_async(t, address);
         t.good("cuMemPoolDestroy", t.pool_);
       }},
      {"cuMemAllocManaged", "cudaPointerAttributes", kManaged,
       [](T& t) {
         Address address = 0;
         t.good("cuMemAllocManaged", &address, kPage, 1U);
         return address;
       },
       free_it},
      {"cuMemHostAlloc", "cudaPointerAttributes", kPinnedHost, [](T& t) { return pinned(t, 0); },
       free_pinned},
      {"cuMemHostAlloc, portable and mapped", "cudaPointerAttributes", kPinnedHost,
       [](T& t) { return pinned(t, 1 | 2); }, free_pinned},
      {"cuMemHostRegister", "cudaPointerAttributes", kPinnedHost,
       [](T& t) {
         t.good("cuMemHostRegister_v2", static_cast<void*>(&t.own_[0]), sizeof(t.own_), 0U);
         return Address(&t.own_[0]);
       },
       [](T& t, Address address) { t.good("cuMemHostUnregister", address); }},
      {"cuMemCreate for descriptors", "github.com/openucx/ucx/issues/7110", kExported,
       [](T& t) { return t.mapped(kFileDescriptor); },
       [](T& t, Address address) { t.unmap(address); }},
      {"cuMemCreate", "github.com/openucx/ucx/issues/7110", kPlain,
       [](T& t) { return t.mapped(0); }, [](T& t, Address address) { t.unmap(address); }},
      {"cuIpcOpenMemHandle", "cuIpcGetMemHandle", kPlain, [](T& t) { return t.imported(); },
       [](T& t, Address address) { t.close_import(address); }},
      {"a variable of a module", "cuIpcGetMemHandle", kPlain,
       [](T& t) {
         Address address = 0;
         size_t bytes = 0;
         t.good("cuModuleLoadData", &t.module_, static_cast<const void*>(code.data()));
         t.good("cuModuleGetGlobal_v2", &address, &bytes, t.module_, "answer");
         return address;
       },
       [](T& t, Address /*address*/) { t.good("cuModuleUnload", t.module_); }},
  };
  return all;
}

TEST_F(MemoryTable, AttributesByKind) {
  for (const Kind& kind : kinds()) {
    SCOPED_TRACE(std::string(kind.name) + "; " + kind.source);
    const Address address = kind.make(*this);
    expect(kind.expected, address, std::string(kind.name).starts_with("cuMemCreate"));
    kind.end(*this, address);
    EXPECT_EQ(call("cuCtxSynchronize"), kSuccess);
  }
}

TEST_F(MemoryTable, MemoryThatCudaDoesNotKnow) {
  const Address address = Address(&own_[0]);
  EXPECT_EQ(attribute(kMemoryType, address), -1);
  EXPECT_EQ(attribute(kIsManaged, address), -1);
  EXPECT_EQ(attribute(kRangeStart, address), -1);
  PointerAttributes attributes{};
  EXPECT_EQ(call("cudaPointerGetAttributes", &attributes, address), kSuccess);
  EXPECT_EQ(attributes.type, 0);
  EXPECT_EQ(attributes.device_pointer, nullptr);
  EXPECT_EQ(Address(attributes.host_pointer), address);
}

/// Source: cuPointerGetAttribute on ranges of cuMemAddressReserve.
TEST_F(MemoryTable, AReservedRangeHasNoMemoryYet) {
  Address range = 0;
  good("cuMemAddressReserve", &range, 2 * kPage, size_t{0}, uint64_t{0}, uint64_t{0});
  EXPECT_EQ(attribute(kMapped, range + kPage), 0);
  EXPECT_EQ(attribute(kRangeStart, range + kPage), int64_t(range));
  EXPECT_EQ(attribute(kRangeSize, range + kPage), int64_t(2 * kPage));
  EXPECT_EQ(attribute(kMemoryType, range), -1);
  int mapped = 1;
  const int asked[] = {kMapped};
  void* data[] = {&mapped};
  EXPECT_EQ(call("cuPointerGetAttributes", 1U, &asked[0], &data[0], range), kSuccess);
  EXPECT_EQ(mapped, 0);
  good("cuMemAddressFree", range, 2 * kPage);
  Address access_less = 0;
  const AllocationProperties properties{kPinned, 0, {kDeviceLocation, 0}, nullptr, {}};
  good("cuMemAddressReserve", &access_less, 2 * kPage, size_t{0}, uint64_t{0}, uint64_t{0});
  good("cuMemCreate", &physical_, kPage, &properties, uint64_t{0});
  good("cuMemMap", access_less, kPage, size_t{0}, physical_, uint64_t{0});
  EXPECT_EQ(attribute(kAccessFlags, access_less), 0);
  EXPECT_EQ(attribute(kDevicePointer, access_less), -1) << "no kernel may use it";
  int descriptor = -1;
  EXPECT_EQ(
      call("cuMemExportToShareableHandle", &descriptor, physical_, kFileDescriptor, uint64_t{0}),
      kInvalidValue)
      << "it was not asked for";
  unmap(access_less);
}

/// Arrays of textures are refused, in the same way in both APIs: docs/reference/emulation.md.
TEST_F(MemoryTable, ArraysAreRefused) {
  constexpr int kNotSupported = 801;
  void* array = nullptr;
  EXPECT_EQ(call("cuArrayCreate_v2", &array, none_), kNotSupported);
  EXPECT_EQ(call("cudaMallocArray", &array, none_, size_t{16}, size_t{16}, 0U), kNotSupported);
}

TEST_F(MemoryTable, DevicesSayWhatTheySupport) {
  const struct {
    int attribute, value;
    const char* source;
  } rows[] = {
      {83, 1, "managed memory"},
      {88, 0, "pageable memory: not without HMM or ATS"},
      {89, 1, "concurrent managed access: from Pascal on, on Linux"},
      {101, 0, "managed memory on the device, used by the host: only with a coherent link"},
      {103, 1, "descriptors of cuMemCreate"},
      {115, 1, "memory pools"},
      {119, 0, "handles of pools: gpemu refuses to share pools"},
  };
  for (const auto& row : rows) {
    int value = -1;
    EXPECT_EQ(call("cuDeviceGetAttribute", &value, row.attribute, 0), kSuccess);
    EXPECT_EQ(value, row.value) << row.source;
  }
}

}  // namespace
