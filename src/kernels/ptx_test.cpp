// SPDX-License-Identifier: Apache-2.0
#include "gpemu/kernels/ptx.hpp"

#include <string>

#include <gtest/gtest.h>

namespace gpemu::kernels {
namespace {

std::string kernel_of(const std::string& body) {
  return ".version 8.4\n.target sm_80\n.visible .entry run(\n"
         "  .param .u64 .ptr .global .align 1 run_param_0,\n"
         "  .param .u64 .ptr .global .align 1 run_param_1,\n  .param .u32 run_param_2\n)\n"
         ".reqntid 128\n{\n.reg .b64 %rd<9>;\nld.param.u64 %rd1, [run_param_0];\n"
         "ld.param.u64 %rd2, [run_param_1];\nld.param.u32 %r1, [run_param_2];\n" +
         body + "\nret;\n}\n";
}

TEST(Ptx, SaysWhatIsWritten) {
  const auto facts = read_ptx(kernel_of("mul.wide.s32 %rd3, %r1, 4;\nadd.s64 %rd4, %rd1, %rd3;\n"
                                        "@%p1 ld.global.v2.b32 { %r2, %r3 }, [ %rd4 + 0 ];\n"
                                        "mad.wide.s32 %rd5, %r1, 4, %rd2; // to the result\n"
                                        "@%p1 st.global.v4.b32 [ %rd5 + 0 ], { %r2, %r3 };"),
                              "run");
  ASSERT_TRUE(facts.has_value());
  ASSERT_EQ(facts->written.size(), 1U);
  EXPECT_EQ(facts->written[0].argument, 1U);
  EXPECT_FALSE(facts->written[0].updates);
  EXPECT_FALSE(facts->written[0].in_loop);
  EXPECT_EQ(facts->written[0].bytes_of_thread, 16U);
  EXPECT_EQ(facts->written[0].element_bytes, 4U);
  EXPECT_FALSE(facts->written[0].fixed);
  EXPECT_EQ(facts->integers, std::vector<IntegerArgument>{{.argument = 2}});
}

TEST(Ptx, TellsUpdatesAndLoops) {
  const auto facts = read_ptx(kernel_of("$L__BB0_1:\nld.global.b16 %rs1, [%rd1];\n"
                                        "st.global.b16 [%rd1], %rs1;\nst.global.b64 [%rd2], %rd7;\n"
                                        "ld.global.b64 %rd8, [%rd2];\n@%p2 bra $L__BB0_1;"),
                              "run");
  ASSERT_TRUE(facts.has_value());
  ASSERT_EQ(facts->written.size(), 2U);
  EXPECT_TRUE(facts->written[0].updates);
  EXPECT_TRUE(facts->written[0].in_loop);
  EXPECT_TRUE(facts->written[0].fixed);
  // A value that is read after it was written is new.
  EXPECT_FALSE(facts->written[1].updates);
  EXPECT_EQ(facts->written[1].element_bytes, 8U);
}

TEST(Ptx, KnowsNothingOfAddressesFromElsewhere) {
  EXPECT_FALSE(
      read_ptx(kernel_of("ld.global.b64 %rd3, [%rd1];\nst.global.b32 [%rd3], %r1;"), "run"));
  EXPECT_FALSE(read_ptx(kernel_of("call.uni (retval0), fill, (param0);"), "run"));
  EXPECT_FALSE(read_ptx(kernel_of("mov.b64 %rd3, run_param_0;"), "run"));
  EXPECT_FALSE(
      read_ptx(kernel_of("cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 4;"), "run"));
  EXPECT_FALSE(read_ptx(
      kernel_of("wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%rd1], {%f1, %f2}, %r1;"),
      "run"));
  EXPECT_TRUE(read_ptx(kernel_of("call.uni __assertfail, (param0, param1);"), "run"));
  EXPECT_FALSE(read_ptx(kernel_of(""), "ru"));
}

TEST(Ptx, ReadsWhatDebuggersAreGiven) {
  std::string text = kernel_of(".loc 1 2 3\nst.global.b32 [%rd1+4], %r1;");
  for (char& c : text) {
    if (c == '\n') c = '\0';
  }
  const auto facts = read_ptx(text, "run");
  ASSERT_TRUE(facts.has_value());
  ASSERT_EQ(facts->written.size(), 1U);
  EXPECT_EQ(facts->written[0].argument, 0U);
}

}  // namespace
}  // namespace gpemu::kernels
