// The Python module `_engine`: the same classes the C ABI serves, with numpy arrays.
#include "convert.hpp"
#include "neural_term.hpp"

NB_MODULE(_engine, m) {
  nanobind::set_leak_warnings(false);  // a thread that still holds a state when the program ends is no user's concern
  m.doc() = "Exact incremental energy differences of cellular Potts models, and their Metropolis dynamics.";
  nanobind::exception<ncpm::Error>(m, "EngineError", PyExc_ValueError);
  m.def("isa", &ncpm::selected_isa, "The instruction set the kernels run on.");
  ncpm::python::bind_model(m);
  ncpm::python::bind_state(m);
  ncpm::python::bind_mirror(m);
  ncpm::python::bind_host_calls(m);
}
