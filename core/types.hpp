#pragma once
// Short names for the types of the lower libraries that core's interface uses: `headroom::Dtype` is
// `headroom::kernels::Dtype`. Other types keep their library's namespace: `memory::MemoryScope`.
//
//     Tensor zeros(Context& context, const Shape& shape, Dtype dtype = Dtype::f32);
#include <headroom/core/category.hpp>
#include <headroom/kernels/dtype.hpp>
#include <headroom/kernels/int_pair.hpp>
#include <headroom/kernels/shape.hpp>
#include <headroom/kernels/stream.hpp>
#include <headroom/kernels/view.hpp>
#include <headroom/memory/buffer.hpp>
#include <headroom/memory/device_memory.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/memory/out_of_memory.hpp>
#include <headroom/memory/statistics.hpp>
#include <headroom/memory/tag.hpp>

namespace headroom {

using kernels::Dtype;
using kernels::IntPair;
using kernels::kMaxRank;
using kernels::MemoryFormat;
using kernels::Shape;
using kernels::Strides;
using kernels::View;

using kernels::ComputeOptions;
using kernels::CpuStream;
using kernels::CudaDevice;
using kernels::CudaStream;
using kernels::DryStream;
using kernels::Stream;
using kernels::StreamState;

using memory::Buffer;
using memory::DeviceMemory;
using memory::MemoryPeak;
using memory::MemoryStatistics;
using memory::OutOfMemory;
using memory::PathId;
using memory::PoolId;

}  // namespace headroom
