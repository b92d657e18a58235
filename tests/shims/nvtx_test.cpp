// SPDX-License-Identifier: Apache-2.0
// Each function of NVTX's shim. None can fail; a null text is an empty one.
#include <cstdint>
#include <set>
#include <string>

#include "loaded_libraries.hpp"

namespace {

/// nvtxEventAttributes_v2.
struct Attributes {
  uint16_t version = 3, size = 48;
  uint32_t category = 0;
  int32_t color_type = 0;
  uint32_t color = 0;
  int32_t payload_type = 0, reserved = 0;
  uint64_t payload = 0;
  int32_t message_type = 1;
  const void* message = "text";
};

// The tables of NVTX 3: where a program keeps the functions of each module.
constexpr unsigned kFunctions = 16;
constexpr int kModuleCore = 1;
void* functions[2][kFunctions];
void** slots[2][kFunctions];

int get_module(int module, void**** table, unsigned* size) {
  const int index = module == kModuleCore ? 0 : 1;
  for (unsigned i = 0; i < kFunctions; ++i) slots[index][i] = &functions[index][i];
  *table = slots[index];
  *size = kFunctions;
  return 1;
}

struct Callbacks {
  size_t struct_size;
  int (*get_module)(int, void****, unsigned*);
} callbacks{sizeof(Callbacks), get_module};

const void* export_table(uint32_t id) {
  return id == 1 ? &callbacks : nullptr;
}

class Nvtx : public LoadedLibraries {
 protected:
  void SetUp() override { load({GPEMU_TEST_NVTX}); }

  Attributes attributes_;
};

TEST_F(Nvtx, RangesNest) {
  constexpr int kNoTracking = -2;
  EXPECT_EQ(call("nvtxRangePop"), kNoTracking);
  EXPECT_EQ(call("nvtxRangePushA", "outer"), 0);
  EXPECT_EQ(call("nvtxRangePushW", L"inner"), 1);
  EXPECT_EQ(call("nvtxRangePushEx", &attributes_), 2);
  EXPECT_EQ(call("nvtxDomainRangePushEx", none_, &attributes_), 3);
  EXPECT_EQ(call("nvtxDomainRangePop", none_), 3);
  for (int depth = 2; depth >= 0; --depth) EXPECT_EQ(call("nvtxRangePop"), depth);
  EXPECT_EQ(call("nvtxDomainRangePop", none_), kNoTracking);
  EXPECT_EQ(call("nvtxRangePushA", none_), 0);
  EXPECT_EQ(call("nvtxRangePop"), 0);
}

TEST_F(Nvtx, EachRangeThatStartsHasItsOwnNumber) {
  std::set<uint64_t> started;
  started.insert(call_as<uint64_t>("nvtxRangeStartA", "range"));
  started.insert(call_as<uint64_t>("nvtxRangeStartW", L"range"));
  started.insert(call_as<uint64_t>("nvtxRangeStartEx", &attributes_));
  started.insert(call_as<uint64_t>("nvtxDomainRangeStartEx", none_, &attributes_));
  EXPECT_EQ(started.size(), 4U);
  EXPECT_FALSE(started.contains(0));
  for (const uint64_t range : started) {
    call_as<void>("nvtxRangeEnd", range);
    call_as<void>("nvtxDomainRangeEnd", none_, range);  // has ended
  }
}

TEST_F(Nvtx, OneTextIsOneStringOfADomain) {
  const void* const domain = call_as<const void*>("nvtxDomainCreateA", "domain");
  EXPECT_EQ(call_as<const void*>("nvtxDomainCreateW", L"domain"), domain);
  const void* const text = call_as<const void*>("nvtxDomainRegisterStringA", domain, "text");
  EXPECT_NE(text, domain);
  EXPECT_EQ(call_as<const void*>("nvtxDomainRegisterStringW", domain, L"text"), text);
  attributes_.message_type = 3;  // registered
  attributes_.message = text;
  call_as<void>("nvtxDomainMarkEx", domain, &attributes_);
  call_as<void>("nvtxMarkEx", &attributes_);
  call_as<void>("nvtxMarkEx", none_);
  call_as<void>("nvtxMarkA", "text");
  call_as<void>("nvtxMarkW", L"text");
  call_as<void>("nvtxDomainDestroy", domain);
}

TEST_F(Nvtx, ItsFunctionsAreHandedToTheHeadersOfNvtx3) {
  EXPECT_EQ(call("InitializeInjectionNvtx2", none_), 0);
  EXPECT_EQ(call("InitializeInjectionNvtx2", export_table), 1);
  EXPECT_EQ(functions[0][11], find("nvtxRangePop"));
  EXPECT_EQ(functions[1][14], find("nvtxDomainDestroy"));
}

}  // namespace
