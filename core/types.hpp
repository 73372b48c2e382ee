#pragma once
// Types of the libraries below that core's interface speaks of, under the names that its users write: `headroom::Dtype`
// is `headroom::kernels::Dtype`. What is not here is written with its library: `memory::MemoryScope`.
//
//     Tensor zeros(Context& context, const Shape& shape, Dtype dtype = Dtype::f32);
#include <headroom/kernels/dtype.hpp>
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
using kernels::kMaxRank;
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
using memory::Category;
using memory::DeviceMemory;
using memory::MemoryStatistics;
using memory::OutOfMemory;
using memory::PathId;

}  // namespace headroom
