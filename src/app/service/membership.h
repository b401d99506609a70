#pragma once
#include "base/ids.h"

#include <set>

namespace dgxmm::service {

/// Takes the deployment out of a set however the task ends.
class Membership {
 public:
  Membership(std::set<DeploymentId>& set, DeploymentId id) : set_(set), id_(id) {}
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;
  ~Membership() { end(); }
  void end() { set_.erase(id_); }

 private:
  std::set<DeploymentId>& set_;
  DeploymentId id_;
};

}  // namespace dgxmm::service
