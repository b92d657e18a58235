// SPDX-License-Identifier: Apache-2.0
#include "gpemu/report/page.hpp"

#include <gtest/gtest.h>

namespace gpemu::report {
namespace {

bool says(const std::string& text, std::string_view words) {
  return text.find(words) != std::string::npos;
}

TEST(Page, AlignsColumnsOfNumbersOnly) {
  Page page("t");
  page.table({"what", "limited by", "± (%)"}, {{"1", "compute 9 %", "±15"}, {"2", "copies", "-"}});
  const std::string html = page.html();
  EXPECT_TRUE(says(html,
                   "<th class=\"short\">what</th><th class=\"short\">limited by</th>"
                   "<th class=\"number\">± (%)</th>"));
  EXPECT_TRUE(says(html, "<td class=\"short\">compute 9 %</td><td class=\"number\">±15</td>"));
}

TEST(Page, EscapesCellsAndTips) {
  Page page("<t>");
  page.table({"a"}, {{PageCell("x<y>", "\"whole\" <name>")}});
  const std::string html = page.html();
  EXPECT_TRUE(
      says(html, "<td class=\"short\" title=\"&quot;whole&quot; &lt;name&gt;\">x&lt;y&gt;</td>"));
  EXPECT_TRUE(says(html, "<h1>&lt;t&gt;</h1>"));
}

TEST(Page, RecoloursPlotsOnADarkPage) {
  const std::string html = Page("t").html();
  const Shade& total = shade(Colour::kTotal);
  EXPECT_NE(total.light, total.dark);
  EXPECT_TRUE(says(html, "svg .c10 { fill: " + std::string(total.dark)));
  EXPECT_EQ(static_cast<int>(Colour::kTotal), 10);
}

TEST(Page, HasEachPlotForWideAndForNarrowScreens) {
  Page page("t");
  page.plot(StackedBars{.title = "bars", .x_label = "time", .unit = "s", .parts = {}, .bars = {}});
  const std::string html = page.html();
  EXPECT_TRUE(says(html, "<div class=\"wide\">\n<svg"));
  EXPECT_TRUE(says(html, "<div class=\"narrow\">\n<svg"));
}

}  // namespace
}  // namespace gpemu::report
