#pragma once
// The list of all built-in ops, type-erased, for code that iterates over them: gradient checks, layouts, dry runs,
// benchmarks, the table in the documentation. A new op is one line in all_ops.cpp; pointwise ops are added
// automatically from the list in their formula's header. To call an op, include its own header.
//
//     for (const OpEntry& op : all_ops()) {
//         for (const ErasedSample& sample : op.samples()) check(*op.table, sample);
//     }
#include <span>

#include <headroom/core/apply.hpp>

namespace headroom {

/// In a fixed order; every name appears once.
std::span<const OpEntry> all_ops();

}  // namespace headroom
