// SPDX-License-Identifier: Apache-2.0
#include "device_claims.hpp"

#include <array>
#include <functional>

#include <gtest/gtest.h>

namespace gpemu::device {
namespace {

/// Two processes on one device, with records in memory of the test. The first is under test; what
/// the second does meanwhile is said by `while_it_looks` and `while_it_pauses`.
class DeviceClaimsTest : public testing::Test {
 protected:
  static constexpr std::size_t kOwn = 0;
  static constexpr std::size_t kOther = 1;

  layout::HoldingRecord& own() { return holdings_[kOwn]; }
  layout::HoldingRecord& other() { return holdings_[kOther]; }

  std::array<layout::HoldingRecord, 3> holdings_{};
  Slots alive_{0b010};
  bool is_one_process_ = false;
  int looks_ = 0;   ///< how often it has looked at the others.
  int pauses_ = 0;  ///< how often it got out of their way.
  std::function<void()> while_it_looks_ = [] {};
  std::function<void()> while_it_pauses_ = [] {};
  DeviceClaims claims_{kMiB,
                       holdings_,
                       kOwn,
                       {.attachments =
                            [this] {
                              ++looks_;
                              while_it_looks_();
                              return alive_;
                            },
                        .is_own = [this](std::size_t) { return is_one_process_; },
                        .pause =
                            [this](int attempt) {
                              EXPECT_EQ(attempt, pauses_);
                              ++pauses_;
                              while_it_pauses_();
                            }}};
};

TEST_F(DeviceClaimsTest, TakesMemoryThatLivingProcessesDoNotHold) {
  other().memory = 600 * kKiB;
  holdings_[2].memory = kMiB;  // Of a process that has died.
  EXPECT_FALSE(claims_.take_memory(425 * kKiB));
  EXPECT_EQ(own().memory, 0U);
  EXPECT_TRUE(claims_.take_memory(400 * kKiB));
  EXPECT_TRUE(claims_.take_memory(24 * kKiB));
  EXPECT_FALSE(claims_.take_memory(1));
  EXPECT_EQ(own().memory, 424 * kKiB) << "what the others see";
  EXPECT_EQ(claims_.memory(), 424 * kKiB);
  claims_.give_back_memory(24 * kKiB);
  EXPECT_EQ(own().memory, 400 * kKiB);
  EXPECT_EQ(pauses_, 0);
}

TEST_F(DeviceClaimsTest, TakesNoMoreMemoryThanItsLimit) {
  other().memory = 500 * kKiB;
  claims_.set_limit(100 * kKiB);
  EXPECT_TRUE(claims_.take_memory(60 * kKiB));
  EXPECT_FALSE(claims_.take_memory(41 * kKiB));
  EXPECT_TRUE(claims_.take_memory(40 * kKiB));
  claims_.set_limit(50 * kKiB);
  EXPECT_FALSE(claims_.take_memory(1)) << "what it has taken is more than it may have now";
  EXPECT_EQ(claims_.capacity(), kMiB);
}

TEST_F(DeviceClaimsTest, RefusesAmountsThatWouldOverflow) {
  EXPECT_FALSE(claims_.take_memory(~Bytes{0}));
  ASSERT_TRUE(claims_.take_memory(1));
  EXPECT_FALSE(claims_.take_memory(~Bytes{0}));
  other().memory = ~Bytes{0};  // Damage.
  EXPECT_FALSE(claims_.take_memory(1));
}

TEST_F(DeviceClaimsTest, WhatOthersWriteInItsRecordChangesNothing) {
  ASSERT_TRUE(claims_.take_memory(400 * kKiB));
  own().memory = 0;
  EXPECT_FALSE(claims_.take_memory(800 * kKiB));
  EXPECT_EQ(claims_.memory(), 400 * kKiB);
}

TEST_F(DeviceClaimsTest, IfAnotherClaimsTheSameMemoryItWithdrawsAndTriesAgain) {
  while_it_looks_ = [this] {
    if (looks_ == 2) other().memory = 800 * kKiB;  // After its claim was published.
  };
  while_it_pauses_ = [this] {
    EXPECT_EQ(own().memory, 0U) << "it has withdrawn its claim";
    other().memory = 0;  // And so has the other.
  };
  EXPECT_TRUE(claims_.take_memory(800 * kKiB));
  EXPECT_EQ(pauses_, 1);
  EXPECT_EQ(own().memory, 800 * kKiB);
}

TEST_F(DeviceClaimsTest, IfTheOtherKeepsTheMemoryItGetsNone) {
  while_it_looks_ = [this] {
    if (looks_ == 2) other().memory = 800 * kKiB;
  };
  EXPECT_FALSE(claims_.take_memory(800 * kKiB));
  EXPECT_EQ(pauses_, 1);
  EXPECT_EQ(own().memory, 0U);
}

TEST_F(DeviceClaimsTest, AnAttackerCanCauseARefusalButNoEndlessAttempts) {
  while_it_looks_ = [this] { other().memory = looks_ % 2 == 0 ? kMiB : 0; };
  EXPECT_FALSE(claims_.take_memory(1));
  EXPECT_EQ(pauses_, DeviceClaims::kMostAttempts);
  EXPECT_EQ(own().memory, 0U);
}

TEST_F(DeviceClaimsTest, ATenantsLimitIsThatOfAllItsProcesses) {
  alive_ = Slots(0b110);
  claims_.set_tenant(5);
  claims_.set_limit(500 * kKiB);
  other().tenant = 5;
  other().memory = 300 * kKiB;
  holdings_[2].tenant = 6;
  holdings_[2].memory = 100 * kKiB;
  EXPECT_FALSE(claims_.take_memory(201 * kKiB));
  EXPECT_TRUE(claims_.take_memory(150 * kKiB));
  EXPECT_EQ(claims_.limited_memory(), 450 * kKiB);
  EXPECT_EQ(claims_.memory(), 150 * kKiB);
  // Both claim the rest at once: neither may have it while the other's claim stands.
  while_it_looks_ = [&] {
    if (own().memory == 200 * kKiB) other().memory = 350 * kKiB;
  };
  while_it_pauses_ = [&] { other().memory = 300 * kKiB; };
  EXPECT_FALSE(claims_.take_memory(50 * kKiB));
  while_it_looks_ = [] {};
  alive_ = Slots(0b100);
  EXPECT_TRUE(claims_.take_memory(350 * kKiB)) << "the other one has died";
}

TEST_F(DeviceClaimsTest, CountsContextsOnASharedDevice) {
  other().contexts = 1;
  EXPECT_FALSE(claims_.add_context(false));
  EXPECT_FALSE(claims_.add_context(false));
  EXPECT_EQ(own().contexts, 2);
  claims_.remove_context();
  EXPECT_EQ(own().contexts, 1);
}

TEST_F(DeviceClaimsTest, WantsAnExclusiveDeviceForItself) {
  other().contexts = 1;
  const auto refusal = claims_.add_context(true);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->holder, kOther);
  EXPECT_EQ(own().contexts, 0);
  is_one_process_ = true;
  EXPECT_FALSE(claims_.add_context(true)) << "another attachment of the same process";
  is_one_process_ = false;
  EXPECT_FALSE(claims_.add_context(true)) << "it has the device already";
  EXPECT_EQ(own().contexts, 2);
}

TEST_F(DeviceClaimsTest, ClientsOfMpsShareAnExclusiveDeviceWithEachOtherOnly) {
  other().contexts = 1;
  EXPECT_TRUE(claims_.add_context(true, true)) << "the other is no client";
  other().is_mps_client = 1;
  EXPECT_TRUE(claims_.add_context(true));
  EXPECT_FALSE(claims_.add_context(true, true));
  EXPECT_EQ(own().is_mps_client, 1U);
}

TEST_F(DeviceClaimsTest, ADeadProcessHoldsNoExclusiveDevice) {
  other().contexts = 1;
  alive_.reset();
  EXPECT_FALSE(claims_.add_context(true));
}

TEST_F(DeviceClaimsTest, OfTwoThatClaimADeviceAtOnceEachWithdraws) {
  while_it_looks_ = [this] {
    if (looks_ == 2) other().contexts = 1;
  };
  while_it_pauses_ = [this] {
    EXPECT_EQ(own().contexts, 0);
    other().contexts = 0;
  };
  EXPECT_FALSE(claims_.add_context(true));
  EXPECT_EQ(pauses_, 1);
  EXPECT_EQ(own().contexts, 1);
}

TEST_F(DeviceClaimsTest, OthersThatKeepClaimingADeviceCauseARefusal) {
  while_it_looks_ = [this] { other().contexts = looks_ % 2 == 0 ? 1 : 0; };
  const auto refusal = claims_.add_context(true);
  ASSERT_TRUE(refusal);
  EXPECT_FALSE(refusal->holder);
  EXPECT_EQ(pauses_, DeviceClaims::kMostAttempts);
  EXPECT_EQ(own().contexts, 0);
}

}  // namespace
}  // namespace gpemu::device
