// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gpemu::report {

/// The colours of all plots: one per cause of time, the same in every report, and one per class of
/// operation.
enum class Colour : std::uint8_t {
  kCompute,      ///< the GPU computes; if a step's two passes are shown, the forward pass.
  kBackward,     ///< the backward pass and the optimizer.
  kMemory,       ///< the bandwidth of the GPU's memory.
  kLatency,      ///< the least time of any kernel.
  kCopy,         ///< copies over the link.
  kOthers,       ///< other GPUs, streams or processes: exchange of gradients, waits for their work.
  kHostWork,     ///< the host's cores: preprocessing, the program's own code, launches.
  kHostWait,     ///< the host waits for storage, or is blocked.
  kUnknown,      ///< none of these, or not known.
  kNone,         ///< nobody waits for it.
  kTotal,        ///< the sum of the others.
  kMatmul,       ///< the classes of operations from here on.
  kConvolution,  //
  kAttention,    //
  kNormalization,  //
  kPooling,        //
  kElementwise,    //
  kReduction,      //
  kOptimizer,      //
  kIndexing,       //
};
inline constexpr std::size_t kColourCount = 20;

/// What a colour looks like. Text on it is `ink`.
struct Shade {
  std::string_view light;  ///< on white.
  std::string_view dark;   ///< on a dark page.
  std::string_view ink;
};

inline constexpr std::string_view kWhite = "#ffffff";
inline constexpr std::string_view kInk = "#1f2328";

/// Source of the causes' colours: Okabe and Ito, "Color Universal Design", 2008; of the classes':
/// Tol, "Colour Schemes", 2021, "muted". Both can be told apart with colour blindness. Dark pages
/// use lighter colours where these would be too dark.
inline constexpr std::array<Shade, kColourCount> kShades = {{
    {"#0072b2", "#0072b2", kWhite}, {"#00476f", "#6a9fd8", kWhite}, {"#56b4e9", "#56b4e9", kInk},
    {"#f0e442", "#f0e442", kInk},   {"#e69f00", "#e69f00", kInk},   {"#cc79a7", "#cc79a7", kInk},
    {"#009e73", "#009e73", kInk},   {"#d55e00", "#d55e00", kWhite}, {"#8c959f", "#8c959f", kInk},
    {"#d0d7de", "#484f58", kInk},   {kInk, "#e6edf3", kWhite},      {"#332288", "#8f84e0", kWhite},
    {"#44aa99", "#44aa99", kInk},   {"#882255", "#c2628f", kWhite}, {"#88ccee", "#88ccee", kInk},
    {"#999933", "#999933", kInk},   {"#ddcc77", "#ddcc77", kInk},   {"#117733", "#3f9a5c", kWhite},
    {"#cc6677", "#cc6677", kInk},   {"#aa4499", "#c26ab4", kWhite},
}};

[[nodiscard]] constexpr const Shade& shade(Colour colour) {
  return kShades[static_cast<std::size_t>(colour)];
}

/// Returns the colour of the `index`th of several things that are not causes.
[[nodiscard]] constexpr Colour colour_at(std::size_t index) {
  constexpr std::array kOrder = {Colour::kCompute, Colour::kHostWait, Colour::kHostWork,
                                 Colour::kOthers,  Colour::kMemory,   Colour::kCopy,
                                 Colour::kTotal,   Colour::kUnknown};
  return kOrder[index % kOrder.size()];
}

}  // namespace gpemu::report
