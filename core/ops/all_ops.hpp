#pragma once
// The list of all ops that Headroom brings, without their types. Code that goes through all ops reads it: gradient
// checks, layouts, dry runs, benchmarks, the table in the documentation. A new op is one line in all_ops.cpp; a
// pointwise one is there already, from the list in its formula's header. Not for calling an op: include its own header.
//
//     for (const OpEntry& op : all_ops()) {
//         for (const ErasedSample& sample : op.samples()) check(*op.table, sample);
//     }
#include <span>

#include <headroom/core/apply.hpp>

namespace headroom {

/// In a fixed order, every name once.
std::span<const OpEntry> all_ops();

}  // namespace headroom
