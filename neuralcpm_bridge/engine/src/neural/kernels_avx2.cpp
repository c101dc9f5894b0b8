#include <cstdint>
#include <cstring>
#if defined(__x86_64__) || defined(_M_X64)
#include <immintrin.h>
#endif

#include "kernels.hpp"
#include "winograd.hpp"

#define NCPM_ISA ncpm::neural::avx2
#include "simd.hpp"
#include "pointwise_impl.hpp"
#include "convolution_impl.hpp"
#include "winograd_impl.hpp"

namespace ncpm::neural {

const Kernels& avx2_kernels() {
  using namespace avx2;
  using V = Vector<8>;
  static const Kernels kernels = {
      "avx2",
      convolve<Vector<8>, Vector<8>>,
      mix_channels<Vector<8>, Vector<8>>,
      transform_tile<V, ToPoints>,
      transform_tile<V, ToPixels>,
      transform<V, ToBoxPoints<V>, ToBoxPoints<V>>,
      transform<V, FromBoxPoints<V>, FromBoxPoints<V>>,
      multiply_points<Vector<8>, Vector<8>>,
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
