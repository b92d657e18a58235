// SPDX-License-Identifier: Apache-2.0
#include "gpemu/containers/cdi_spec.hpp"

#include <vector>

#include <gtest/gtest.h>

#include "gpemu/base/file.hpp"
#include "gpemu/base/temporary_folder.hpp"

namespace gpemu::containers {
namespace {

TEST(CdiSpecTest, NamesWhatADeviceAdds) {
  const TemporaryFolder folder = TemporaryFolder::create(testing::TempDir(), "gpemu-cdi-").value();
  const std::vector<CdiDevice> devices = {
      {.name = "0",
       .edits = {.environment = {{"A", "x=y"}},
                 .mounts = {{.host = "/h/gpemu", .container = "/opt/gpemu"},
                            {.host = "/h/n", .container = "/run/gpemu", .read_only = false}}}}};
  const auto path = folder.path() / "made/cdi.json";
  write_cdi_spec(path, "gpemu/gpu", devices).value();
  EXPECT_EQ(read_file(path).value(), R"({
  "cdiVersion": "0.5.0",
  "devices": [
    {
      "containerEdits": {
        "env": [
          "A=x=y"
        ],
        "mounts": [
          {
            "containerPath": "/opt/gpemu",
            "hostPath": "/h/gpemu",
            "options": [
              "ro",
              "rbind",
              "nosuid",
              "nodev"
            ]
          },
          {
            "containerPath": "/run/gpemu",
            "hostPath": "/h/n",
            "options": [
              "rw",
              "rbind",
              "nosuid",
              "nodev"
            ]
          }
        ]
      },
      "name": "0"
    }
  ],
  "kind": "gpemu/gpu"
}
)");
}

}  // namespace
}  // namespace gpemu::containers
