// SPDX-License-Identifier: Apache-2.0
#include "gpemu/kernels/kernel_effect.hpp"

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "gpemu/kernels/arguments.hpp"
#include "gpemu/kernels/kernel_name.hpp"

#include "written_memory.hpp"

namespace gpemu::kernels {
namespace {

/// Calls the function of a visitor that takes the alternative.
template <typename... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};

/// Returns what a kernel writes if nothing else is known about it.
WrittenEffect written_effect(const KernelName& name, const FindCode& find_code) {
  if (auto known = known_parameters(name, find_code)) return *std::move(known);
  std::vector<ParameterPlace> places;
  const bool pytorch = name.function.starts_with("at::");
  if (find_code && (!pytorch || has_unsized(name))) {
    const CodeFacts facts = find_code();
    if (facts.access.known && facts.access.widest == 0) return {};
    if (auto text = read_ptx(facts.ptx, name.mangled)) {
      return text->written.empty() ? WrittenEffect() : WrittenEffect(*std::move(text));
    }
    places = facts.places;
  }
  auto parameters = parameters_effect(name, places);
  return parameters ? WrittenEffect(*std::move(parameters)) : WrittenEffect();
}

/// Stores an effect if it was recognised.
template <typename Effect>
bool take(std::optional<Effect> recognised, KernelEffect* effect) {
  if (!recognised) return false;
  effect->recognised = *std::move(recognised);
  return true;
}

/// Recognises a kernel of PyTorch. Returns whether every launch then shows what it writes.
bool recognise(const KernelName& name, const FindCode& find_code, KernelEffect* effect) {
  const std::string_view function = name.function;
  const bool pytorch = function.starts_with("at::native::");
  if (pytorch && name.parameters.size() >= 3 &&
      (contains(function, "vectorized_elementwise_kernel") ||
       contains(function, "unrolled_elementwise_kernel"))) {
    std::visit([effect](const auto& kind) { effect->recognised = kind; }, elements_effect(name));
    return !std::holds_alternative<std::monostate>(effect->recognised);
  }
  if (pytorch && contains(function, "multi_tensor_apply_kernel") && !name.parameters.empty()) {
    return take(lists_effect(name, find_code), effect);
  }
  // These may find other arguments at a launch.
  if (function.starts_with("at::native::elementwise_kernel<") && name.parameters.size() == 2) {
    effect->recognised = strided_effect(function);
    return false;
  }
  if (function.starts_with("at::native::reduce_kernel<")) {
    effect->recognised = reduction_effect(name);
    return false;
  }
  if (take(motion_effect(name), effect)) return false;
  if (take(held_effect(name), effect)) return false;
  if (take(packed_effect(name), effect)) return true;
  return contains(function, "NonZeroOp<") && take(nonzero_effect(name), effect);
}

/// The same for kernels that PyTorch compiles at run time.
bool recognise_jitted(const KernelName& name, const FindCode& find_code, KernelEffect* effect) {
  if (name.is_cpp || take(jitted_reduction_effect(name.mangled, find_code), effect)) return false;
  return take(jitted_effect(name.mangled, find_code), effect);
}

/// Finds what a kernel writes when it is first asked for.
std::function<const WrittenEffect&()> find_later(const KernelName& name,
                                                 const FindCode& find_code) {
  struct Found {
    std::once_flag once;
    WrittenEffect effect;
  };
  return [name, find_code, found = std::make_shared<Found>()]() -> const WrittenEffect& {
    std::call_once(found->once, [&] { found->effect = written_effect(name, find_code); });
    return found->effect;
  };
}

}  // namespace

KernelEffect kernel_effect(std::string_view mangled_name, const FindCode& find_code,
                           WriterId writer) {
  KernelEffect effect;
  if (mangled_name.empty()) return effect;
  const KernelName name = read_kernel_name(mangled_name);
  const bool shows_all =
      recognise(name, find_code, &effect) || recognise_jitted(name, find_code, &effect);
  if (std::holds_alternative<std::monostate>(effect.recognised)) {
    effect.written = written_effect(name, find_code);
    if (std::holds_alternative<std::monostate>(effect.written)) return effect;
  } else if (!shows_all) {
    effect.written_otherwise = find_later(name, find_code);
  }
  effect.writer = writer;
  return effect;
}

namespace {

void describe(const WrittenEffect& effect, const Launch& launch, KernelWork* work) {
  std::visit(Overloaded{
                 [](std::monostate) {},
                 [&](const ParametersEffect& kind) { describe_parameters(kind, launch, work); },
                 [&](const PtxFacts& kind) { describe_text(kind, launch, work); },
             },
             effect);
}

}  // namespace

void describe_work(const KernelEffect& effect, const Launch& launch, KernelWork* work) {
  work->clear();
  work->writer = effect.writer;
  if (effect.writer == 0 || launch.arguments == nullptr) return;
  const bool as_expected = std::visit(
      Overloaded{
          [&](std::monostate) { return describe(effect.written, launch, work), true; },
          [&](const FillEffect& kind) { return describe_fill(kind, launch, work), true; },
          [&](const ElementsEffect& kind) { return describe_elements(kind, launch, work), true; },
          [&](const StridedEffect& kind) { return describe_strided(kind, launch, work); },
          [&](const ReductionEffect& kind) { return describe_reduction(kind, launch, work); },
          [&](const ListsEffect& kind) { return describe_lists(kind, launch, work), true; },
          [&](const NonzeroEffect& kind) { return describe_nonzero(kind, launch, work), true; },
          [&](const PackedEffect& kind) { return describe_packed(kind, launch, work), true; },
          [&](const HeldEffect& kind) { return describe_held(kind, launch, work); },
          [&](const MotionEffect& kind) { return describe_motion(kind, launch, work); },
      },
      effect.recognised);
  if (!as_expected) describe(effect.written_otherwise(), launch, work);
}

}  // namespace gpemu::kernels
