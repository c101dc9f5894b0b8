// What is handed out to other languages: whoever uses it holds it alone.
#pragma once

#include <mutex>

#include "error.hpp"
#include "mirror.hpp"
#include "state.hpp"

namespace ncpm {

class Guard {
 public:
  // Never waits: two threads on one state is a mistake of the caller, and waiting could deadlock an interpreter.
  std::unique_lock<std::mutex> claim() {
    std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
    if (!lock) throw Error("This state is in use by another thread: wait for it, or give every thread its own state.");
    return lock;
  }

 private:
  std::mutex mutex_;
};

struct GuardedState : Guard {
  State state;

  GuardedState(std::shared_ptr<const Model> model, const Lattice& lattice, std::vector<std::int32_t> ids,
               std::vector<std::int32_t> types, StateOptions options, Properties properties = {})
      : state(std::move(model), lattice, std::move(ids), std::move(types), options, std::move(properties)) {}
};

struct GuardedMirror : Guard {
  Mirror mirror;

  GuardedMirror(std::shared_ptr<const Model> model, const Lattice& lattice, StateOptions options)
      : mirror(std::move(model), lattice, options) {}
};

}  // namespace ncpm
