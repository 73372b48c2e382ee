#include <headroom/training/data_task.hpp>

#include <exception>

namespace headroom::training {

void share_validation(Context& context, const std::function<void(const data::DataShard&)>& work,
                      const std::function<void(Group&)>& combine) {
    Group* const group = context.group();
    if (!group) return work({});
    std::exception_ptr unreadable;
    try {
        work({group->rank(), group->ranks(), group->ranks()});
    } catch (const FileError&) {
        unreadable = std::current_exception();
    }
    if (!context.dry() && any(*group, unreadable ? 1 : 0) && !unreadable)
        throw FileError("another process can't read a batch");
    if (unreadable) std::rethrow_exception(unreadable);
    if (!context.dry()) combine(*group);
}

}  // namespace headroom::training
