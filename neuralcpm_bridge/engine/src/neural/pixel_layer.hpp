// The first layer. Up to its first SiLU it is linear in the pixels, so X, Y and the skip path are sums of table
// entries (pixel_table.hpp), kept in fixed point for the background and every cell.
#pragma once

#include "cellwise_layer.hpp"
#include "pixel_table.hpp"

namespace ncpm::neural {

class PixelLayer final : public CellwiseLayer {
 public:
  PixelLayer(const Model& model, const Plan& plan, const LayerMaps& maps, Workspace& workspace, Outlet& outlet);

  LayerTiles tiles() const override;
  void accept(const Pass& pass) override;

  // The sums of the background of a lattice without pixels.
  void reset();
  // Adds (by = 1) or takes away (by = -1) a pixel from the sums of the background and of its cell.
  void put_pixel(int y, int x, int pixel, std::int32_t id, std::int32_t type, int by);

  // read_ahead.cpp: reads what a proposal will need.
  void read_background(const Pass& pass) const;
  void read_cells(const Pass& pass) const;

 private:
  using Fixed = Array<std::int32_t>;

  void receive_input(Pass&) override {}
  void background_first(Pass& pass, const Rect& known) override;
  void background_phi(Pass& pass) override;
  bool cell_first(Pass& pass, Candidate& cell) override;
  void activate_x(const Pass& pass, const Candidate& cell, const Rect& rect, float* to, int to_pitch) override;
  void activate_y(const Pass& pass, const Candidate& cell, const Rect& rect, float* to, int to_pitch) override;
  void background_output(Pass& pass) override;
  void add_cell_skip(const Pass& pass, const Candidate& cell) override;

  template <class Visit>
  void for_blocks_around(int y, int x, int taps, Visit visit) const;
  void put_background(int y, int x, const PixelTable& table, const std::int32_t* entries, Fixed& sums, int by);
  void put_cell(int y, int x, const PixelTable& table, int pixel, std::int32_t id, Field field, int by);
  void load_fixed(const Pass& pass, const PixelTable& table, const Fixed& cache, const Rect& rect, float* to);
  View view_fixed(const Pass& pass, const Candidate& cell, Field field, const PixelTable& table, const Rect& rect);
  void activate(const Pass& pass, const Candidate& cell, Field field, const PixelTable& table, const float* base,
                const float* activation, const Rect& rect, float* to, int to_pitch);

  const std::int32_t first_id_;                      // smaller ids are no cells
  const PixelTable x_table_, y_table_, skip_table_;  // skip: of the background, with the biases of the output
  const PixelTable cell_skip_table_;
  Fixed x_, y_, skip_;  // the background's
};

}  // namespace ncpm::neural
