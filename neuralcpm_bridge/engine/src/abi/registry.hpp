// Handles that may come back null, freed or from somewhere else.
#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>

namespace ncpm::abi {

// Keeps the objects behind handles alive. A handle is looked up, never dereferenced before it is known;
// a call in progress shares ownership, so that freeing its handle elsewhere cannot pull the object away.
template <typename Object>
class Registry {
 public:
  Object* add(std::shared_ptr<Object> object) {
    const std::lock_guard<std::mutex> lock(mutex_);
    Object* handle = object.get();
    objects_.emplace(handle, std::move(object));
    return handle;
  }

  std::shared_ptr<Object> find(const void* handle) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = objects_.find(handle);
    return found == objects_.end() ? nullptr : found->second;
  }

  // The object dies outside of the lock, when its last user lets go.
  std::shared_ptr<Object> remove(const void* handle) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = objects_.find(handle);
    if (found == objects_.end()) return nullptr;
    std::shared_ptr<Object> object = std::move(found->second);
    objects_.erase(found);
    return object;
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<const void*, std::shared_ptr<Object>> objects_;
};

}  // namespace ncpm::abi
