#include <cstdint>
#include <cstring>
#if defined(__x86_64__) || defined(_M_X64)
#include <immintrin.h>
#endif

#include "kernels.hpp"
#include "winograd.hpp"

#define NCPM_ISA ncpm::neural::avx512
#include "simd.hpp"
#include "pointwise_impl.hpp"
#include "convolution_impl.hpp"
#include "winograd_impl.hpp"

namespace ncpm::neural {

const Kernels& avx512_kernels() {
  using namespace avx512;
  using V = Vector<8>;
  static const Kernels kernels = {
      "avx512",
      convolve<Vector<16>, Vector<8>>,
      mix_channels<Vector<16>, Vector<8>>,
      transform_tile<V, ToPoints>,
      transform_tile<V, ToPixels>,
      transform<V, ToBoxPoints<V>, ToBoxPoints<V>>,
      transform<V, FromBoxPoints<V>, FromBoxPoints<V>>,
      multiply_points<Vector<16>, Vector<8>>,
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
  return kernels;
}

}  // namespace ncpm::neural
