// SPDX-License-Identifier: Apache-2.0
// NCCL with one rank: one good call of each function and one bad one, by both of its names. For
// several ranks see tests/integration/nccl_test.py.
#include <array>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "loaded_libraries.hpp"

namespace {

enum Status : int { kSuccess = 0, kCudaError = 1, kInvalidArgument = 4, kInvalidUsage = 5 };
constexpr int kInt32 = 2, kNoType = 12, kSum = 0, kNoReduction = 5, kRoot = 0, kNoRank = 1;
constexpr size_t kCount = 16;

/// ncclUniqueId.
struct UniqueId {
  char bytes[128];
};

/// The parameter is what stands before each name: nothing, or the p of profilers.
class Nccl : public LoadedLibraries, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    load({GPEMU_TEST_NCCL, GPEMU_TEST_RUNTIME_12});
    ASSERT_EQ(nccl("CommInitAll", &rank_, 1, none_), kSuccess);
    for (void** memory : {&from_, &to_}) {
      ASSERT_EQ(nccl("MemAlloc", memory, kCount * sizeof(int)), kSuccess);
    }
  }
  void TearDown() override {
    for (void* memory : {from_, to_}) EXPECT_EQ(nccl("MemFree", memory), kSuccess);
    EXPECT_EQ(nccl("CommDestroy", rank_), kSuccess);
  }

  template <typename... Arguments>
  int nccl(const std::string& name, Arguments... arguments) {
    return call((std::string(GetParam()) + "nccl" + name).c_str(), arguments...);
  }

  /// Sets the elements at `from_` and clears those at `to_`.
  void fill(int value) {
    const std::vector<int> values(kCount, value), none(kCount, 0);
    EXPECT_EQ(call("cudaMemcpy", from_, values.data(), kCount * sizeof(int), 1), kSuccess);
    EXPECT_EQ(call("cudaMemcpy", to_, none.data(), kCount * sizeof(int), 1), kSuccess);
  }
  void expect_received(int value, const std::string& by) {
    std::vector<int> values(kCount, -1);
    EXPECT_EQ(call("cudaDeviceSynchronize"), kSuccess);
    EXPECT_EQ(call("cudaMemcpy", values.data(), to_, kCount * sizeof(int), 2), kSuccess);
    EXPECT_EQ(values, std::vector<int>(kCount, value)) << by;
  }

  void *rank_ = nullptr, *from_ = nullptr, *to_ = nullptr;
  void* const dead_ = &rank_;
};

TEST_P(Nccl, CollectivesOfOneRankAreCopies) {
  int value = 0;
  for (const std::string name : {"AllReduce", "ReduceScatter"}) {
    fill(++value);
    EXPECT_EQ(nccl(name, from_, to_, kCount, kInt32, kSum, rank_, none_), kSuccess) << name;
    expect_received(value, name);
    EXPECT_EQ(nccl(name, from_, to_, kCount, kInt32, kNoReduction, rank_, none_), kInvalidArgument);
    EXPECT_EQ(nccl(name, from_, to_, kCount, kInt32, kSum, dead_, none_), kInvalidArgument);
  }
  for (const std::string name : {"AllGather", "AlltoAll"}) {
    fill(++value);
    EXPECT_EQ(nccl(name, from_, to_, kCount, kInt32, rank_, none_), kSuccess) << name;
    expect_received(value, name);
    EXPECT_EQ(nccl(name, from_, to_, kCount, kNoType, rank_, none_), kInvalidArgument) << name;
    EXPECT_EQ(nccl(name, none_, to_, kCount, kInt32, rank_, none_), kInvalidArgument) << name;
  }
  for (const std::string name : {"Broadcast", "Gather", "Scatter"}) {
    fill(++value);
    EXPECT_EQ(nccl(name, from_, to_, kCount, kInt32, kRoot, rank_, none_), kSuccess) << name;
    expect_received(value, name);
    EXPECT_EQ(nccl(name, from_, to_, kCount, kInt32, kNoRank, rank_, none_), kInvalidArgument);
  }
  fill(++value);
  EXPECT_EQ(nccl("Reduce", from_, to_, kCount, kInt32, kSum, kRoot, rank_, none_), kSuccess);
  expect_received(value, "Reduce");
  EXPECT_EQ(nccl("Reduce", from_, to_, kCount, kInt32, kSum, kNoRank, rank_, none_),
            kInvalidArgument);
  EXPECT_EQ(nccl("Bcast", from_, kCount, kInt32, kRoot, rank_, none_), kSuccess);
  EXPECT_EQ(nccl("Bcast", from_, kCount, kInt32, kNoRank, rank_, none_), kInvalidArgument);
}

TEST_P(Nccl, TransfersMatchWithinAGroup) {
  fill(7);
  EXPECT_EQ(nccl("GroupStart"), kSuccess);
  EXPECT_EQ(nccl("Send", from_, kCount, kInt32, kRoot, rank_, none_), kSuccess);
  EXPECT_EQ(nccl("Recv", to_, kCount, kInt32, kRoot, rank_, none_), kSuccess);
  for (const char* name : {"Send", "Recv"}) {
    EXPECT_EQ(nccl(name, from_, kCount, kInt32, kNoRank, rank_, none_), kInvalidArgument) << name;
  }
  expect_received(0, "before the group ends");
  EXPECT_EQ(nccl("GroupEnd"), kSuccess);
  expect_received(7, "GroupEnd");
  EXPECT_EQ(nccl("GroupEnd"), kInvalidUsage);
  EXPECT_EQ(nccl("Send", from_, kCount, kInt32, kRoot, rank_, none_), kInvalidUsage);
}

TEST_P(Nccl, ASimulatedGroupRunsNothing) {
  struct {
    size_t size = 24;
    unsigned magic = 0x74685283, version = 23007;
    float time = 0;
  } info;
  EXPECT_EQ(nccl("GroupSimulateEnd", &info), kInvalidUsage) << "no group is open";
  fill(7);
  EXPECT_EQ(nccl("GroupStart"), kSuccess);
  EXPECT_EQ(nccl("Send", from_, kCount, kInt32, kRoot, rank_, none_), kSuccess);
  EXPECT_EQ(nccl("Recv", to_, kCount, kInt32, kRoot, rank_, none_), kSuccess);
  EXPECT_EQ(nccl("GroupSimulateEnd", &info), kSuccess);
  EXPECT_LT(info.time, 0) << "the tuner expects nothing of transfers";
  expect_received(0, "a simulated group");
}

TEST_P(Nccl, ReductionsOfTheProgramAreKeptUntilTheyEnd) {
  int reduction = -1, other = -1;
  int scale = 3;
  EXPECT_EQ(nccl("RedOpCreatePreMulSum", &reduction, &scale, kInt32, 1, rank_), kSuccess);
  EXPECT_EQ(reduction, kNoReduction);
  EXPECT_EQ(nccl("RedOpCreatePreMulSum", &other, &scale, kInt32, 2, rank_), kInvalidArgument);
  EXPECT_EQ(nccl("RedOpCreatePreMulSum", &other, none_, kInt32, 1, rank_), kInvalidArgument);
  EXPECT_EQ(nccl("RedOpCreatePreMulSum", &other, &scale, kInt32, 1, dead_), kInvalidArgument);
  for (const int value : {7, 9}) {
    fill(value);
    EXPECT_EQ(nccl("AllReduce", from_, to_, kCount, kInt32, reduction, rank_, none_), kSuccess);
    expect_received(scale * value, "a scaled sum");
  }
  fill(11);
  EXPECT_EQ(nccl("AllGather", from_, to_, kCount, kInt32, rank_, none_), kSuccess);
  expect_received(11, "a copy afterwards");
  EXPECT_EQ(nccl("RedOpDestroy", reduction, rank_), kSuccess);
  EXPECT_EQ(nccl("RedOpDestroy", reduction, rank_), kInvalidArgument);
  EXPECT_EQ(nccl("AllReduce", from_, to_, kCount, kInt32, reduction, rank_, none_),
            kInvalidArgument);
}

TEST_P(Nccl, CommunicatorsHaveOneRank) {
  UniqueId id{}, other{};
  void *made = nullptr, *registration = nullptr;
  EXPECT_EQ(nccl("GetUniqueId", &id), kSuccess);
  EXPECT_EQ(nccl("GetUniqueId", &other), kSuccess);
  EXPECT_NE(std::string(id.bytes, 128), std::string(other.bytes, 128));
  EXPECT_EQ(nccl("GetUniqueId", none_), kInvalidArgument);
  for (const char* name : {"CommInitRank", "CommInitRankConfig"}) {
    EXPECT_EQ(nccl(name, &made, 1, id, 0, none_), kSuccess) << name;
    EXPECT_EQ(nccl("CommAbort", made), kSuccess);
    EXPECT_EQ(nccl("CommAbort", made), kInvalidArgument);
    EXPECT_EQ(nccl(name, &made, 1, id, 1, none_), kInvalidArgument) << name;
  }
  EXPECT_EQ(nccl("CommInitRankScalable", &made, 1, 0, 1, &id, none_), kSuccess);
  EXPECT_EQ(nccl("CommFinalize", made), kSuccess);
  EXPECT_EQ(nccl("CommDestroy", made), kSuccess);
  EXPECT_EQ(nccl("CommDestroy", made), kInvalidArgument);
  EXPECT_EQ(nccl("CommFinalize", made), kInvalidArgument);
  EXPECT_EQ(nccl("CommInitRankScalable", &made, 1, 0, 2, &id, none_), kInvalidArgument);
  EXPECT_EQ(nccl("CommInitAll", &made, 2, none_), kInvalidArgument) << "there is one device";
  EXPECT_EQ(nccl("CommSplit", rank_, 3, 0, &made, none_), kSuccess);
  EXPECT_EQ(nccl("CommDestroy", made), kSuccess);
  EXPECT_EQ(nccl("CommSplit", rank_, -2, 0, &made, none_), kInvalidArgument);
  const struct {
    const char* name;
    int value;
  } parts[] = {
      {"CommGetAsyncError", 0}, {"CommCount", 1}, {"CommUserRank", 0}, {"CommCuDevice", 0}};
  for (const auto& [name, expected] : parts) {
    int value = -1;
    EXPECT_EQ(nccl(name, rank_, &value), kSuccess) << name;
    EXPECT_EQ(value, expected) << name;
    EXPECT_EQ(nccl(name, dead_, &value), kInvalidArgument) << name;
    EXPECT_EQ(nccl(name, rank_, none_), kInvalidArgument) << name;
  }
  EXPECT_EQ(nccl("CommRegister", rank_, from_, kCount, &registration), kSuccess);
  EXPECT_EQ(nccl("CommRegister", rank_, none_, kCount, &registration), kInvalidArgument);
  EXPECT_EQ(nccl("CommDeregister", rank_, registration), kSuccess);
  EXPECT_EQ(nccl("CommDeregister", dead_, registration), kInvalidArgument);
  void *window = nullptr, *buffer = nullptr;
  EXPECT_EQ(nccl("CommWindowRegister", rank_, from_, kCount, &window, 0), kSuccess);
  EXPECT_EQ(nccl("CommWindowRegister", rank_, none_, kCount, &registration, 0), kInvalidArgument);
  EXPECT_EQ(nccl("WinGetUserPtr", rank_, window, &buffer), kSuccess);
  EXPECT_EQ(buffer, from_);
  EXPECT_EQ(nccl("WinGetUserPtr", rank_, dead_, &buffer), kInvalidArgument);
  EXPECT_EQ(nccl("CommWindowDeregister", rank_, window), kSuccess);
  EXPECT_EQ(nccl("CommWindowDeregister", rank_, window), kInvalidArgument);
  EXPECT_EQ(nccl("CommWindowDeregister", rank_, none_), kSuccess);
  int excluded = 0;
  EXPECT_EQ(nccl("CommShrink", rank_, &excluded, 1, &made, none_, 0), kInvalidArgument)
      << "nobody is left";
  EXPECT_EQ(nccl("MemAlloc", none_, kCount), kInvalidArgument);
  EXPECT_EQ(nccl("MemFree", dead_), kCudaError);
  int version = 0;
  EXPECT_EQ(nccl("GetVersion", &version), kSuccess);
  EXPECT_EQ(version, 23007);
  EXPECT_EQ(nccl("GetVersion", none_), kInvalidArgument);
  const std::string prefix = std::string(GetParam()) + "ncclGet";
  const auto text = [&](int status) {
    return call_as<const char*>((prefix + "ErrorString").c_str(), status);
  };
  EXPECT_STREQ(text(kSuccess), "no error");
  EXPECT_STREQ(text(-1), "unknown result code");
}

TEST_P(Nccl, TheLastErrorIsTheThreadsLastWarning) {
  const std::string name = std::string(GetParam()) + "ncclGetLastError";
  const auto text = [&] { return std::string(call_as<const char*>(name.c_str(), none_)); };
  std::thread([&] {
    void* rank = nullptr;
    EXPECT_EQ(nccl("CommInitRank", &rank, 1, UniqueId{}, 0), kSuccess);
    EXPECT_EQ(text(), "");
    EXPECT_EQ(nccl("CommInitRank", &rank, 2, UniqueId{}, 0), kInvalidUsage);
    const std::string warning =
        "gpemu: NCCL needs all ranks in one node, and a clock that runs by itself";
    EXPECT_EQ(text(), warning);
    EXPECT_EQ(nccl("CommDestroy", rank), kSuccess);
    EXPECT_EQ(text(), warning);
    std::thread([&] { EXPECT_EQ(text(), ""); }).join();
  }).join();
}

INSTANTIATE_TEST_SUITE_P(Names, Nccl, testing::Values("", "p"), [](const auto& prefix) {
  return std::string(*prefix.param == '\0' ? "Own" : "OfProfilers");
});

}  // namespace
