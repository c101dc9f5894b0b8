// Winograd's convolution F(M, 3) for images that are one tile: M outputs of a 3-tap filter from M inputs with
// zeros around them, by M + 2 multiplications. y = At · [(G · filter) * (Bt · input)], along both axes.
//
// The interpolation points were chosen for the smallest float32 error: about 4e-6 for M = 5 where the direct
// sum has 4e-7, on values around 1.
#pragma once

namespace ncpm::neural {

inline constexpr int kLeastTile = 3, kMostTile = 5;

template <int M>
struct Winograd;

template <>
struct Winograd<3> {  // points 0, 1, -1, 2, infinity
  static constexpr double At[3][5] = {{1, 1, 1, 1, 0}, {0, 1, -1, 2, 0}, {0, 1, 1, 4, 1}};
  static constexpr double G[5][3] = {
      {1. / 2, 0, 0}, {-1. / 2, -1. / 2, -1. / 2}, {-1. / 6, 1. / 6, -1. / 6}, {1. / 6, 1. / 3, 2. / 3}, {0, 0, 1}};
  static constexpr double Bt[5][5] = {
      {2, -1, -2, 1, 0}, {0, -2, -1, 1, 0}, {0, 2, -3, 1, 0}, {0, -1, 0, 1, 0}, {0, 2, -1, -2, 1}};
};

template <>
struct Winograd<4> {  // points 0, 1, -1, 1/2, -2, infinity
  static constexpr double At[4][6] = {
      {1, 1, 1, 1, 1, 0}, {0, 1, -1, .5, -2, 0}, {0, 1, 1, .25, 4, 0}, {0, 1, -1, .125, -8, 1}};
  static constexpr double G[6][3] = {{1, 0, 0},
                                     {1. / 3, 1. / 3, 1. / 3},
                                     {-1. / 3, 1. / 3, -1. / 3},
                                     {-16. / 15, -8. / 15, -4. / 15},
                                     {1. / 15, -2. / 15, 4. / 15},
                                     {0, 0, 1}};
  static constexpr double Bt[6][6] = {{1, -1.5, -2, 1.5, 1, 0}, {0, -1, .5, 2.5, 1, 0}, {0, 1, -2.5, .5, 1, 0},
                                      {0, -2, -1, 2, 1, 0},     {0, .5, -1, -.5, 1, 0}, {0, 1, -1.5, -2, 1.5, 1}};
};

template <>
struct Winograd<5> {  // points 0, 1, -1, 1/2, -1/2, -2, infinity
  static constexpr double At[5][7] = {{1, 1, 1, 1, 1, 1, 0},
                                      {0, 1, -1, .5, -.5, -2, 0},
                                      {0, 1, 1, .25, .25, 4, 0},
                                      {0, 1, -1, .125, -.125, -8, 0},
                                      {0, 1, 1, .0625, .0625, 16, 1}};
  static constexpr double G[7][3] = {{2, 0, 0},
                                     {2. / 9, 2. / 9, 2. / 9},
                                     {2. / 3, -2. / 3, 2. / 3},
                                     {-16. / 15, -8. / 15, -4. / 15},
                                     {-16. / 9, 8. / 9, -4. / 9},
                                     {-2. / 45, 4. / 45, -8. / 45},
                                     {0, 0, 1}};
  static constexpr double Bt[7][7] = {{.5, .25, -2.5, -1.25, 2, 1, 0}, {0, -.5, -.75, 1.75, 3, 1, 0},
                                      {0, .5, -.25, -2.25, 1, 1, 0},   {0, -1, -2.5, 0, 2.5, 1, 0},
                                      {0, 1, -1.5, -2, 1.5, 1, 0},     {0, .25, 0, -1.25, 0, 1, 0},
                                      {0, .5, .25, -2.5, -1.25, 2, 1}};
};

// The whole convolution of a box of kBox inputs, kBox + 2 outputs, by as many multiplications: the product of two
// polynomials, from their values at the points 0, 1, -1, 2, -2, 1/2, -1/2, infinity.
inline constexpr int kBox = 6, kBoxPoints = kBox + 2;

// Of the filter, its taps reversed; scaled such that the way back (winograd_impl.hpp) has small round numbers.
inline constexpr double kBoxFilter[kBoxPoints][3] = {{1, 0, 0},
                                                     {2. / 9, 2. / 9, 2. / 9},
                                                     {2. / 9, -2. / 9, 2. / 9},
                                                     {1. / 360, 2. / 360, 4. / 360},
                                                     {1. / 360, -2. / 360, 4. / 360},
                                                     {32. / 45, 16. / 45, 8. / 45},
                                                     {32. / 45, -16. / 45, 8. / 45},
                                                     {0, 0, 1}};

}  // namespace ncpm::neural
