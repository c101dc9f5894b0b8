#include "ncpm_library.h"

#include <stdexcept>

#if defined(_WIN32)
#include <windows.h>
#else
#include <dlfcn.h>
#endif

namespace {

#if defined(_WIN32)
void* open_library(const std::string& path) { return reinterpret_cast<void*>(LoadLibraryA(path.c_str())); }
void close_library(void* handle) { FreeLibrary(reinterpret_cast<HMODULE>(handle)); }
void* find_symbol(void* handle, const char* name) {
  return reinterpret_cast<void*>(GetProcAddress(reinterpret_cast<HMODULE>(handle), name));
}
std::string open_error() { return "error " + std::to_string(GetLastError()); }
#else
void* open_library(const std::string& path) { return dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL); }
void close_library(void* handle) { dlclose(handle); }
void* find_symbol(void* handle, const char* name) { return dlsym(handle, name); }
std::string open_error() {
  const char* text = dlerror();
  return text ? text : "no reason given";
}
#endif

}  // namespace

std::string NcpmLibrary::file_name() {
#if defined(_WIN32)
  return "ncpm.dll";
#elif defined(__APPLE__)
  return "libncpm.dylib";
#else
  return "libncpm.so";
#endif
}

NcpmLibrary::NcpmLibrary(const std::vector<std::string>& candidates) {
  std::string reasons;
  for (const std::string& candidate : candidates) {
    handle_ = open_library(candidate);
    if (handle_) {
      path_ = candidate;
      break;
    }
    reasons += (reasons.empty() ? "" : "; ") + open_error();
  }
  if (!handle_)
    throw std::runtime_error("The engine's library was not found (" + reasons +
                             "): name it in the attribute library=\"…/" + file_name() +
                             "\", in the environment variable NEURALCPM_LIBRARY, or put it beside the model file.");
  bind(abi_version, "ncpm_abi_version");
  if (abi_version() != NCPM_ABI_VERSION)
    throw std::runtime_error(path_ + " speaks version " + std::to_string(abi_version()) +
                             " of the engine's interface, but this plugin was built for version " +
                             std::to_string(NCPM_ABI_VERSION) + ": build the plugin and the library from one release.");
  bind(last_error, "ncpm_last_error");
  bind(load, "ncpm_load");
  bind(free_model, "ncpm_free_model");
  bind(type_count, "ncpm_type_count");
  bind(type_name, "ncpm_type_name");
  bind(property_count, "ncpm_property_count");
  bind(property_name, "ncpm_property_name");
  bind(geometry, "ncpm_geometry");
  bind(member_count, "ncpm_member_count");
  bind(temperature, "ncpm_temperature");
  bind(mirror_create, "ncpm_mirror_create");
  bind(free_mirror, "ncpm_free_mirror");
  bind(mirror_load, "ncpm_mirror_load");
  bind(mirror_follow, "ncpm_mirror_follow");
  bind(mirror_appear, "ncpm_mirror_appear");
  bind(mirror_set_property, "ncpm_mirror_set_property");
  bind(mirror_delta, "ncpm_mirror_delta");
  bind(mirror_commit, "ncpm_mirror_commit");
  bind(mirror_compare, "ncpm_mirror_compare");
  bind(mirror_delta_spread, "ncpm_mirror_delta_spread");
  bind(mirror_opinion, "ncpm_mirror_opinion");
  bind(mirror_outside, "ncpm_mirror_outside");
  bind(mirror_range, "ncpm_mirror_range");
}

NcpmLibrary::~NcpmLibrary() {
  if (handle_) close_library(handle_);
}

void NcpmLibrary::check(int code) const {
  if (code != NCPM_OK) throw std::runtime_error(last_error());
}

template <class Function>
void NcpmLibrary::bind(Function& function, const char* name) {
  function = reinterpret_cast<Function>(find_symbol(handle_, name));
  if (!function) throw std::runtime_error(path_ + " lacks the function " + name + ": it is not the engine's library.");
}
