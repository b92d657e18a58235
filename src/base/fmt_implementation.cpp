// SPDX-License-Identifier: Apache-2.0
// The definitions of fmt's shared library, for builds with GPEMU_PORTABLE.
#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {

template FMT_API dragonbox::decimal_fp<float> dragonbox::to_decimal(float) noexcept;
template FMT_API dragonbox::decimal_fp<double> dragonbox::to_decimal(double) noexcept;
template FMT_API thousands_sep_result<char> thousands_sep_impl(locale_ref);
template FMT_API char decimal_point_impl(locale_ref);
template FMT_API std::locale locale_ref::get<std::locale>() const;

}  // namespace detail
FMT_END_NAMESPACE
