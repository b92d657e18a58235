// SPDX-License-Identifier: Apache-2.0
#include "gpemu/calibrate/collectives.hpp"

#include <array>
#include <cmath>

#include <gtest/gtest.h>

#include "gpemu/profile/collective_tables.hpp"

namespace gpemu::calibrate {
namespace {

using topology::LinkClass;

constexpr std::array kLinks = {LinkClass::kNvlink, LinkClass::kPciePeer, LinkClass::kPcieStaged,
                               LinkClass::kRdma, LinkClass::kSocket};

CollectiveRows measured() {
  return collective_rows(profile::read_collective_tables(GPEMU_COLLECTIVES_FOLDER).value()).value();
}

TEST(Collectives, TheConstantsAreThoseThatFit) {
  const CollectiveRows rows = measured();
  for (const LinkClass link : kLinks) {
    const auto fitted = fit_collectives(rows, link);
    ASSERT_TRUE(fitted) << fitted.error().message;
    for (std::size_t i = 0; i < topology::kShares; ++i) {
      EXPECT_NEAR(topology::fitted_shares(link).at(i) / fitted->at(i), 1, 0.01)
          << topology::kLinkClassNames.at(static_cast<std::size_t>(link)) << ", share " << i;
    }
    const auto predicted = evaluate_collectives(rows, link);
    ASSERT_TRUE(predicted);
    const auto bars = collective_bars(rows, *predicted);
    for (std::size_t i = 0; i < bars.size(); ++i) {
      EXPECT_NEAR(topology::bars_of(link).at(i) / bars.at(i), 1, 0.01);
    }
  }
}

/// Returns the mean error of sizes from `least` to `most`, each machine as predicted from others.
double mean_error(const CollectiveRows& rows, LinkClass link, Bytes least, Bytes most) {
  double sum = 0;
  int count = 0;
  const auto predicted = evaluate_collectives(rows, link).value();
  for (const PredictedCollective& one : predicted) {
    const CollectiveRow& row = rows.rows[one.row];
    if (row.bytes < least || row.bytes > most) continue;
    sum += std::abs(one.seconds / row.seconds - 1);
    ++count;
  }
  return count == 0 ? INFINITY : sum / count;
}

TEST(Collectives, MachinesArePredictedFromOthers) {
  constexpr Bytes kAll = ~Bytes{0};
  const CollectiveRows rows = measured();
  EXPECT_LT(mean_error(rows, LinkClass::kNvlink, 0, 64 * kKiB), 0.30);
  EXPECT_LT(mean_error(rows, LinkClass::kNvlink, kMiB, 16 * kMiB), 0.25);
  EXPECT_LT(mean_error(rows, LinkClass::kNvlink, 256 * kMiB, kAll), 0.07);
  EXPECT_LT(mean_error(rows, LinkClass::kPciePeer, 0, 64 * kKiB), 0.25);
  EXPECT_LT(mean_error(rows, LinkClass::kPciePeer, kMiB, 16 * kMiB), 0.12);
  EXPECT_LT(mean_error(rows, LinkClass::kPciePeer, 256 * kMiB, kAll), 0.05);
  EXPECT_LT(mean_error(rows, LinkClass::kRdma, 0, 64 * kKiB), 0.35);
  EXPECT_LT(mean_error(rows, LinkClass::kRdma, kMiB, 16 * kMiB), 0.30);
  EXPECT_LT(mean_error(rows, LinkClass::kRdma, 256 * kMiB, kAll), 0.15);
  EXPECT_LT(mean_error(rows, LinkClass::kSocket, 0, 64 * kKiB), 0.50);
  EXPECT_LT(mean_error(rows, LinkClass::kSocket, kMiB, 16 * kMiB), 0.40);
  EXPECT_LT(mean_error(rows, LinkClass::kSocket, 256 * kMiB, kAll), 0.20);
}

TEST(Collectives, AMachineThatIsLeftOutChangesNothing) {
  CollectiveRows rows = measured();
  const std::size_t machine = rows.rows.front().machine;
  const LinkClass link = rows.rows.front().fabric.slowest();
  const auto before = fit_collectives(rows, link, machine);
  for (CollectiveRow& row : rows.rows) {
    if (row.machine == machine) row.seconds *= 100;
  }
  EXPECT_EQ(fit_collectives(rows, link, machine).value(), before.value());
  EXPECT_NE(fit_collectives(rows, link).value(), fit_collectives(measured(), link).value());
}

TEST(CollectiveRowsOf, RefuseNamesThatMeanNothing) {
  profile::CollectiveTables tables;
  tables.groups.push_back({.machine = "m",
                           .ranks = 2,
                           .nodes = 1,
                           .gpu = "g",
                           .generation = "ampere",
                           .inside = "rope",
                           .line_rate = 1,
                           .searched_rate = 1,
                           .channels = 1,
                           .between = "none"});
  ASSERT_FALSE(collective_rows(tables));
  tables.groups[0].inside = "nvlink";
  EXPECT_TRUE(collective_rows(tables));
  tables.times.push_back({.group = 0, .collective = "all-shrug", .bytes = 1, .seconds = 1});
  EXPECT_EQ(collective_rows(tables).error().message, "times.csv: 'all-shrug' is no collective");
}

}  // namespace
}  // namespace gpemu::calibrate
