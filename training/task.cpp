#include <headroom/training/task.hpp>

#include <headroom/memory/error.hpp>
#include <headroom/optim/gradient_accumulator.hpp>

namespace headroom::training {

void Task::divide(const data::DataShard& /*share*/) {
    throw Error("the task can't divide its data among processes; override Task::divide");
}

void Task::figure(std::string_view name, const Loss& figure) const {
    if (accumulator_) accumulator_->figure(name, figure);
}

}  // namespace headroom::training
