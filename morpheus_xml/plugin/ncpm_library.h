// The engine's C interface (ncpm.h), loaded at run time: Morpheus itself need not be linked against it.
#ifndef NCPM_LIBRARY_H
#define NCPM_LIBRARY_H

#include <string>
#include <vector>

#include "ncpm.h"

class NcpmLibrary {
 public:
  // Opens the first of the candidates that loads. Throws std::runtime_error with a sentence where none does, or
  // where the library speaks another version of the interface.
  explicit NcpmLibrary(const std::vector<std::string>& candidates);
  ~NcpmLibrary();
  NcpmLibrary(const NcpmLibrary&) = delete;
  NcpmLibrary& operator=(const NcpmLibrary&) = delete;

  // The platform's name of the library: libncpm.so, libncpm.dylib or ncpm.dll.
  static std::string file_name();

  // Throws std::runtime_error with the engine's own sentence unless `code` is NCPM_OK.
  void check(int code) const;

  decltype(&ncpm_abi_version) abi_version = nullptr;
  decltype(&ncpm_last_error) last_error = nullptr;
  decltype(&ncpm_load) load = nullptr;
  decltype(&ncpm_free_model) free_model = nullptr;
  decltype(&ncpm_type_count) type_count = nullptr;
  decltype(&ncpm_type_name) type_name = nullptr;
  decltype(&ncpm_property_count) property_count = nullptr;
  decltype(&ncpm_property_name) property_name = nullptr;
  decltype(&ncpm_geometry) geometry = nullptr;
  decltype(&ncpm_member_count) member_count = nullptr;
  decltype(&ncpm_temperature) temperature = nullptr;
  decltype(&ncpm_mirror_create) mirror_create = nullptr;
  decltype(&ncpm_free_mirror) free_mirror = nullptr;
  decltype(&ncpm_mirror_load) mirror_load = nullptr;
  decltype(&ncpm_mirror_follow) mirror_follow = nullptr;
  decltype(&ncpm_mirror_appear) mirror_appear = nullptr;
  decltype(&ncpm_mirror_set_property) mirror_set_property = nullptr;
  decltype(&ncpm_mirror_delta) mirror_delta = nullptr;
  decltype(&ncpm_mirror_commit) mirror_commit = nullptr;
  decltype(&ncpm_mirror_compare) mirror_compare = nullptr;
  decltype(&ncpm_mirror_delta_spread) mirror_delta_spread = nullptr;
  decltype(&ncpm_mirror_opinion) mirror_opinion = nullptr;
  decltype(&ncpm_mirror_outside) mirror_outside = nullptr;
  decltype(&ncpm_mirror_range) mirror_range = nullptr;

 private:
  template <class Function>
  void bind(Function& function, const char* name);

  void* handle_ = nullptr;
  std::string path_;
};

#endif
