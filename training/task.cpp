#include <headroom/training/task.hpp>

#include <headroom/memory/error.hpp>

namespace headroom::training {

void Task::divide(const data::LoaderShare& /*share*/) {
    throw Error("the task's data can't be shared out among processes: it does not override Task::divide");
}

}  // namespace headroom::training
