// What a host never does, whatever the energy: rules stand beside terms and make ΔH infinite.
#pragma once

#include "flip.hpp"

namespace ncpm {

struct Rules {
  bool extinction = false;  // a cell's last pixel may not be taken

  bool forbid(Tissue& tissue, const Flip& flip) const {
    return (extinction && flip.old_id > 0 && tissue.volumes[flip.old_id] == 1) ||
           !tissue.has_shape(flip.new_id, flip.site);
  }
};

}  // namespace ncpm
