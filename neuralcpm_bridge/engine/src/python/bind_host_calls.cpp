#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "convert.hpp"
#include "host_calls.hpp"

namespace ncpm::python {
namespace {

using Numbers = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <typename Target>
std::uintptr_t address_of(Target* target) {
  return reinterpret_cast<std::uintptr_t>(target);
}

HostCalls::Combine combine_named(const std::string& name) {
  if (name.empty()) return HostCalls::Combine::None;
  if (name == "Min") return HostCalls::Combine::Min;
  if (name == "Max") return HostCalls::Combine::Max;
  if (name == "ArithmeticAverage") return HostCalls::Combine::Mean;
  throw Error("Amplitudes were to be combined by '" + name + "', but Min, Max and ArithmeticAverage exist: use one.");
}

HostCalls::Cells cells_of(const Indices& addresses, const Indices& host_ids, const Numbers& factors) {
  if (addresses.size() != host_ids.size() || addresses.size() != factors.size())
    throw Error("Addresses, ids and factors of cells must be equally many: give one of each per cell.");
  HostCalls::Cells cells;
  cells.reserve(addresses.size());
  for (std::size_t i = 0; i < addresses.size(); ++i)
    cells[reinterpret_cast<const void*>(std::uintptr_t(addresses(i)))] = {host_ids(i), factors(i)};
  return cells;
}

}  // namespace

void bind_host_calls(nb::module_& m) {
  using Self = HostCalls;
  nb::class_<Self>(m, "HostCalls", "A mirror that a host's own compiled code asks, by addresses.")
      .def(nb::new_([](std::uintptr_t before_next) {
             return std::make_shared<Self>(reinterpret_cast<int (*)()>(before_next));
           }),
           nb::arg("before_next"))
      .def_prop_ro_static("answer_entry", [](nb::handle) { return address_of(&Self::answer_entry); })
      .def_prop_ro_static("change_entry", [](nb::handle) { return address_of(&Self::change_entry); })
      .def_prop_ro_static("ignore_entry", [](nb::handle) { return address_of(&Self::ignore_entry); })
      .def(
          "object",
          [](Self& self, const std::vector<std::uintptr_t>& table) {
            std::vector<const void*> functions;
            for (const std::uintptr_t function : table) functions.push_back(reinterpret_cast<const void*>(function));
            return address_of(self.object(std::move(functions)));
          },
          nb::arg("table"))
      .def(
          "serve",
          [](Self& self, std::shared_ptr<GuardedMirror> mirror, const Indices& addresses, const Indices& host_ids,
             const Numbers& factors, double factor, const std::string& combine, double temperature, bool committee,
             double shrink) {
            self.serve(std::move(mirror), cells_of(addresses, host_ids, factors),
                       {factor, combine_named(combine), temperature, committee, shrink});
          },
          nb::arg("mirror"), nb::arg("addresses").noconvert(), nb::arg("host_ids").noconvert(),
          nb::arg("factors").noconvert(), nb::kw_only(), nb::arg("factor"), nb::arg("combine"), nb::arg("temperature"),
          nb::arg("committee"), nb::arg("shrink"))
      .def("hold", &Self::hold)
      .def("keep", &Self::keep, nb::arg("error"))
      .def_prop_ro("error", &Self::error)
      .def("take_tally",
           [](Self& self) {
             const Self::Tally tally = self.take_tally();
             return std::make_tuple(tally.calls, tally.accepted, tally.timed, tally.seconds, tally.disagreement,
                                    tally.most, tally.weight);
           })
      .def_prop_ro("has_written", [](const Self& self) { return !self.written().empty(); })
      .def("written",
           [](const Self& self) {
             nb::dict found;
             for (const auto& [site, cell] : self.written()) found[nb::int_(site)] = nb::int_(address_of(cell));
             return found;
           })
      .def("forget_written", &Self::forget_written);
}

}  // namespace ncpm::python
