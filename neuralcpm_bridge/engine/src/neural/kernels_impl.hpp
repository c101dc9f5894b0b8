// The kernels of one instruction set. kernels_<isa>.cpp names its namespace NCPM_ISA, includes this file and picks the
// vectors: Wide for groups of 16 channels, V for all else.

#include "kernels.hpp"
#include "simd.hpp"
#include "winograd.hpp"

#include "pointwise_impl.hpp"

#include "convolution_impl.hpp"

#include "winograd_impl.hpp"

namespace NCPM_ISA {

template <class Wide, class V>
ncpm::neural::Kernels kernels(const char* isa) {
  return {
      isa,
      convolve<Wide, V>,
      mix_channels<Wide, V>,
      transform_tile<V, ToPoints>,
      transform_tile<V, ToPixels>,
      transform<V, ToBoxPoints<V>, ToBoxPoints<V>>,
      transform<V, FromBoxPoints<V>, FromBoxPoints<V>>,
      multiply_points<Wide, V>,
      silu_window<V>,
      silu_change<V>,
      add_silu_change<V>,
      silu_change_fixed<V>,
      from_fixed<V>,
      add<V>,
      pool<V>,
      site_energies<V>,
      fixed_sum,
      add_fixed,
  };
}

}  // namespace NCPM_ISA
