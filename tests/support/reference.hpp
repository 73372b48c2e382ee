#pragma once
// Reads reference values: safetensors files as `scripts/reference` writes them, small and trusted. Not for files of
// users, which files/safetensors.hpp reads and checks.
//
//     const test::Reference file(test::source_path("tests/reference/ops.safetensors"));
//     const test::ReferenceTensor& want = file.at("softmax/out0");
//     EXPECT_EQ(want.shape, (Shape{5, 70}));
#include <map>
#include <string>
#include <vector>

#include <headroom/kernels/shape.hpp>

namespace headroom::test {

struct ReferenceTensor {
    std::string dtype;  ///< "F64", "F32", "I64" or "U8"
    kernels::Shape shape;
    std::vector<double> values;  ///< in row-major order
};

class Reference {
  public:
    /// Errors: std::runtime_error if the file is not there or not as expected.
    explicit Reference(const std::string& path);

    const std::map<std::string, ReferenceTensor>& all() const { return tensors_; }
    bool has(const std::string& name) const { return tensors_.contains(name); }
    /// Errors: std::out_of_range.
    const ReferenceTensor& at(const std::string& name) const { return tensors_.at(name); }

  private:
    std::map<std::string, ReferenceTensor> tensors_;
};

/// The largest difference between `got` and the reference, as a multiple of epsilon * max(1, the reference's largest).
double error_in_epsilons(const std::vector<double>& got, const std::vector<double>& want, double epsilon);

}  // namespace headroom::test
