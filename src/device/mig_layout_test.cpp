// SPDX-License-Identifier: Apache-2.0
#include "gpemu/device/mig_layout.hpp"

#include <algorithm>
#include <filesystem>
#include <random>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "gpemu/profile/gpu_spec.hpp"

namespace gpemu::device {
namespace {

using profile::GpuSpec;
using profile::MigProfile;

std::vector<MigProfile> profiles_of(const std::string& gpu) {
  const Result<GpuSpec> spec =
      profile::load_gpu_spec(std::filesystem::path(GPEMU_GPUS_FOLDER) / (gpu + ".toml"));
  EXPECT_TRUE(spec) << spec.error().message;
  return spec ? spec->mig_profiles : std::vector<MigProfile>{};
}

// The profiles of the A30, which has four slices and a second profile with media extensions.
// Source: nvidia-smi mig -lgip and -lgipp of an A30.
std::vector<MigProfile> four_slices() {
  const auto profile = [](std::string name, int id, int nvml, int compute, int memory,
                          std::vector<int> starts) {
    MigProfile made;
    made.media_extensions = name.ends_with("+me");
    made.name = std::move(name);
    made.id = id;
    made.nvml_profile = nvml;
    made.compute_slices = compute;
    made.memory_slices = memory;
    made.starts = std::move(starts);
    return made;
  };
  return {profile("1g.6gb", 14, 0, 1, 1, {0, 1, 2, 3}),
          profile("1g.6gb+me", 21, 7, 1, 1, {0, 1, 2, 3}), profile("2g.12gb", 5, 1, 2, 2, {0, 2}),
          profile("2g.12gb+me", 6, 8, 2, 2, {0, 2}), profile("4g.24gb", 0, 3, 4, 4, {0})};
}

struct Made {
  int profile, start, size;
};

// Creates one instance after the other, and returns where each is; -1 if it cannot be made.
std::vector<std::string> placements(const std::vector<MigProfile>& profiles,
                                    const std::vector<int>& ids) {
  MigLayout layout(profiles);
  std::vector<std::string> made;
  for (const int profile : ids) {
    const Result<int> id = layout.create(profile);
    if (!id) {
      made.push_back(id.error().code == ErrorCode::kUnavailable ? "no room" : "wrong error");
      continue;
    }
    made.push_back(fmt::format("{}@{}:{}", *id, layout.instance(*id)->start,
                               layout.profile(profile)->memory_slices));
  }
  return made;
}

using Placements = std::vector<std::string>;

// The next three are the sequences of NVIDIA's MIG guide.
TEST(MigLayout, PlacesSixInstancesAsTheGuideShows) {
  EXPECT_EQ(placements(profiles_of("A100-SXM4-40GB"), {14, 19, 19, 19, 19, 19}),
            (Placements{"5@4:2", "13@6:1", "7@0:1", "8@1:1", "9@2:1", "10@3:1"}));
}

TEST(MigLayout, PlacesFourInstancesAsTheGuideShows) {
  EXPECT_EQ(placements(profiles_of("A100-SXM4-40GB"), {9, 19, 14, 19}),
            (Placements{"2@4:4", "7@0:1", "4@2:2", "8@1:1"}));
}

TEST(MigLayout, HasNoRoomForTheLastOneInTheOtherOrder) {
  const Placements made = placements(profiles_of("A100-SXM4-40GB"), {19, 19, 14, 9});
  EXPECT_NE(made[2], "no room");
  EXPECT_EQ(made[3], "no room");
}

TEST(MigLayout, GivesHalvesTheIdsThatNvidiaSmiPrints) {
  EXPECT_EQ(placements(profiles_of("A100-SXM4-40GB"), {9, 9}), (Placements{"2@4:4", "1@0:4"}));
}

TEST(MigLayout, RefusesPlacementsThatTheProfileDoesNotHave) {
  const std::vector<MigProfile> profiles = profiles_of("A100-SXM4-40GB");
  MigLayout layout(profiles);
  const Result<int> id = layout.create(9, 2);
  ASSERT_FALSE(id);
  EXPECT_EQ(id.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(id.error().message, "3g.20gb cannot begin at memory slice 2; it can at 0, 4");
}

TEST(MigLayout, AGpuInstanceWithComputeInstancesStays) {
  const std::vector<MigProfile> profiles = profiles_of("A100-SXM4-40GB");
  MigLayout layout(profiles);
  ASSERT_EQ(layout.create(9), 2);
  ASSERT_EQ(layout.create_compute(2, 2), 0);
  const Result<void> refused = layout.destroy(2);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  ASSERT_TRUE(layout.destroy_compute(2, 0));
  EXPECT_TRUE(layout.destroy(2));
}

TEST(MigLayout, ReadsNoDamageFromWords) {
  const std::vector<MigProfile> profiles = profiles_of("A100-SXM4-40GB");
  std::mt19937_64 random(1);
  for (int i = 0; i < 10'000; ++i) {
    MigLayout::Words words{};
    // Half of the words have a first byte that names a profile.
    for (std::uint64_t& word : words) word = random() & (i % 2 == 0 ? ~0ULL : ~0xf8ULL);
    const MigLayout layout(profiles, words);
    int slices = 0;
    for (const MigInstance& instance : layout.instances()) {
      slices += layout.profile(instance.profile)->memory_slices;
    }
    EXPECT_LE(slices, 8);
    EXPECT_EQ(MigLayout(profiles, layout.words()), layout);
  }
}

// A second account of what is on a GPU, by other means: it paints slices and tries everything.
class BruteForce {
 public:
  explicit BruteForce(const std::vector<MigProfile>& profiles) : profiles_(profiles) {
    for (const MigProfile& profile : profiles) {
      total_ = std::max(total_, profile.starts.back() + profile.memory_slices);
    }
  }

  // How many more of this profile fit, by filling all free places in every order that matters.
  [[nodiscard]] int most(const MigProfile& profile) const { return most(profile, painted(), 0); }

  [[nodiscard]] bool fits(const MigProfile& profile, int start) const {
    return fits(painted(), profile, start) && !(profile.media_extensions && media_taken());
  }

  // The place that leaves the most placements possible; the lowest of several.
  [[nodiscard]] int chosen(const MigProfile& profile) const {
    int best = -1;
    int best_left = -1;
    for (int start = 0; start < total_; ++start) {
      if (std::ranges::count(profile.starts, start) == 0 || !fits(profile, start)) continue;
      std::string after = painted();
      for (int i = 0; i < profile.memory_slices; ++i)
        after[static_cast<std::size_t>(start + i)] = 'x';
      int left = 0;
      for (const MigProfile& other : profiles_) {
        if (other.name.contains('+')) continue;
        for (const int at : other.starts) left += fits(after, other, at) ? 1 : 0;
      }
      if (left > best_left) {
        best = start;
        best_left = left;
      }
    }
    return best;
  }

  void add(const MigProfile& profile, int start) {
    made_.push_back({profile.id, start, profile.memory_slices});
  }
  void remove(int start) {
    std::erase_if(made_, [start](const Made& made) { return made.start == start; });
  }
  [[nodiscard]] const std::vector<Made>& made() const { return made_; }

 private:
  [[nodiscard]] std::string painted() const {
    std::string slices(static_cast<std::size_t>(total_), '.');
    for (const Made& made : made_) {
      for (int i = 0; i < made.size; ++i) slices[static_cast<std::size_t>(made.start + i)] = 'x';
    }
    return slices;
  }
  [[nodiscard]] bool media_taken() const {
    return std::ranges::any_of(made_, [this](const Made& made) {
      return std::ranges::any_of(profiles_, [&](const MigProfile& profile) {
        return profile.id == made.profile && profile.name.contains('+');
      });
    });
  }
  [[nodiscard]] static bool fits(const std::string& slices, const MigProfile& profile, int start) {
    const std::string part = slices.substr(static_cast<std::size_t>(start),
                                           static_cast<std::size_t>(profile.memory_slices));
    return part == std::string(static_cast<std::size_t>(profile.memory_slices), '.');
  }
  [[nodiscard]] int most(const MigProfile& profile, std::string slices, std::size_t from) const {
    if (profile.name.contains('+') && media_taken()) return 0;
    int best = 0;
    for (std::size_t i = from; i < profile.starts.size(); ++i) {
      if (!fits(slices, profile, profile.starts[i])) continue;
      std::string after = slices;
      for (int k = 0; k < profile.memory_slices; ++k) {
        after[static_cast<std::size_t>(profile.starts[i] + k)] = 'x';
      }
      const int more = profile.name.contains('+') ? 0 : most(profile, after, i + 1);
      best = std::max(best, 1 + more);
    }
    return best;
  }

  const std::vector<MigProfile>& profiles_;
  std::vector<Made> made_;
  int total_ = 0;
};

// Creates and destroys at random, 100,000 steps in all, and compares every answer in every state.
void compare_with_brute_force(const std::vector<MigProfile>& profiles, int steps,
                              std::uint64_t seed) {
  std::mt19937_64 random(seed);
  MigLayout layout(profiles);
  BruteForce expected(profiles);
  std::set<MigLayout::Words> seen;
  int refused = 0;
  int most_instances = 0;
  for (int step = 0; step < steps; ++step) {
    // The answers depend on the instances only: each state is checked when it is first reached.
    const bool is_new = seen.insert(layout.words()).second;
    for (const MigProfile& profile : profiles) {
      if (!is_new) break;
      ASSERT_EQ(layout.free_count(profile), expected.most(profile)) << profile.name << step;
      ASSERT_EQ(layout.default_start(profile).value_or(-1), expected.chosen(profile))
          << profile.name << step;
    }
    const std::vector<Made> made = expected.made();
    if (random() % 5 < 2 && !made.empty()) {
      const int start = made[random() % made.size()].start;
      const auto found = std::ranges::find(layout.instances(), start, &MigInstance::start);
      ASSERT_NE(found, layout.instances().end());
      ASSERT_TRUE(layout.destroy(found->id));
      expected.remove(start);
    } else {
      constexpr std::size_t kSmallest = 0;
      const MigProfile& profile =
          profiles[random() % 2 == 0 ? kSmallest : random() % profiles.size()];
      std::optional<int> start;
      if (random() % 2 == 0) start = profile.starts[random() % profile.starts.size()];
      const int place =
          start ? (expected.fits(profile, *start) ? *start : -1) : expected.chosen(profile);
      const Result<int> id = layout.create(profile.id, start);
      ASSERT_EQ(id.has_value(), place >= 0) << profile.name << step;
      if (!id) {
        ASSERT_EQ(id.error().code, ErrorCode::kUnavailable);
        ++refused;
        continue;
      }
      ASSERT_EQ(layout.instance(*id)->start, place);
      expected.add(profile, place);
    }
    most_instances = std::max(most_instances, static_cast<int>(layout.instances().size()));
    ASSERT_EQ(layout.instances().size(), expected.made().size());
    ASSERT_EQ(MigLayout(profiles, layout.words()), layout);
  }
  // The sequence reaches a GPU without room, and one with as many instances as it can have.
  EXPECT_GT(refused, steps / 10);
  EXPECT_EQ(most_instances, profiles.front().max_instances());
}

TEST(MigLayout, AgreesWithBruteForceOnTheA100) {
  compare_with_brute_force(profiles_of("A100-SXM4-40GB"), 70'000, 1);
}

TEST(MigLayout, AgreesWithBruteForceOnAGpuWithFourSlices) {
  compare_with_brute_force(four_slices(), 30'000, 2);
}

TEST(MigLayout, OtherGpusHaveThePlacementsOfTheA100) {
  const std::vector<MigProfile> known = profiles_of("A100-SXM4-40GB");
  for (const char* gpu : {"A100-PCIE-40GB", "A100-SXM4-80GB", "H100-PCIE-80GB", "H100-SXM5-80GB",
                          "H200-SXM-141GB", "B200-SXM-180GB"}) {
    const std::vector<MigProfile> profiles = profiles_of(gpu);
    ASSERT_EQ(profiles.size(), known.size()) << gpu;
    for (std::size_t i = 0; i < known.size(); ++i) {
      EXPECT_EQ(profiles[i].id, known[i].id) << gpu;
      EXPECT_EQ(profiles[i].nvml_profile, known[i].nvml_profile) << gpu;
      EXPECT_EQ(profiles[i].memory_slices, known[i].memory_slices) << gpu;
      EXPECT_EQ(profiles[i].starts, known[i].starts) << gpu;
    }
  }
}

// All ways to fill a GPU instance with compute instances, against slices painted here.
TEST(MigLayout, ComputeInstancesDoNotOverlapAndFillTheFirstPlace) {
  const std::vector<MigProfile> profiles = profiles_of("A100-SXM4-40GB");
  std::mt19937_64 random(3);
  for (int round = 0; round < 1000; ++round) {
    MigLayout layout(profiles);
    const int id = *layout.create(profiles[random() % profiles.size()].id);
    const int slices = layout.profile(layout.instance(id)->profile)->compute_slices;
    const std::span<const MigComputeProfile> kinds = mig_compute_profiles(slices);
    EXPECT_EQ(kinds.back().slices, slices);
    for (int step = 0; step < 12; ++step) {
      std::string painted(static_cast<std::size_t>(slices), '.');
      for (const MigComputeInstance& made : layout.instance(id)->compute) {
        const auto kind = std::ranges::find(kinds, made.profile, &MigComputeProfile::id);
        for (int k = 0; k < kind->slices; ++k) {
          char& slice = painted.at(static_cast<std::size_t>(made.start + k));
          ASSERT_EQ(slice, '.');
          slice = 'x';
        }
      }
      const MigComputeProfile& kind = kinds[random() % kinds.size()];
      int first = -1;
      for (const int start : kind.starts) {
        const std::string part =
            painted.substr(static_cast<std::size_t>(start), static_cast<std::size_t>(kind.slices));
        if (first < 0 && !part.contains('x')) first = start;
      }
      const Result<int> made = layout.create_compute(id, kind.id);
      ASSERT_EQ(made.has_value(), first >= 0);
      if (made) {
        EXPECT_EQ(layout.compute_instance(id, *made)->start, first);
      }
      if (random() % 3 == 0 && !layout.instance(id)->compute.empty()) {
        const std::vector<MigComputeInstance>& all = layout.instance(id)->compute;
        ASSERT_TRUE(layout.destroy_compute(id, all[random() % all.size()].id));
      }
      ASSERT_EQ(MigLayout(profiles, layout.words()), layout);
    }
  }
}

}  // namespace
}  // namespace gpemu::device
