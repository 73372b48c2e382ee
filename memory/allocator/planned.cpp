// Blocks that a learned plan places.
#include <algorithm>
#include <vector>

#include <headroom/memory/allocator/impl.hpp>

namespace headroom {

namespace {

/// Marks the number of a block of a step that is being recorded; other numbers are slots, counted from 1.
constexpr std::uint32_t kRecorded = std::uint32_t{1} << 31;

}  // namespace

void DeviceMemory::Impl::begin_step() {
    step_.fetch_add(1, std::memory_order_relaxed);
    if (!options_.plan) return;
    const Lock guard(lock_);
    const StepPlanner::Action action = planner_.begin_step();
    if (action == StepPlanner::Action::build) build_plan();
    if (action == StepPlanner::Action::drop) drop_plan(nullptr);
    const AllShards all(*this, nullptr);
    for (const auto& shard : shard_list_) shard->planned = plans();
}

bool DeviceMemory::Impl::plans() const noexcept { return planner_.recording() || planner_.following(); }

void DeviceMemory::Impl::build_plan() {
    Plan plan(planner_.recorder().requests());
    drain_all(nullptr);
    blocks_.prepare(1);
    Block* room = nullptr;
    if (plan.height() > 0) {
        room = common_.find(plan.height(), 0);
        if (!room && grow_range(common_, plan.height(), nullptr)) room = common_.find(plan.height(), 0);
    }
    if (!room) {
        planner_.give_up();
        return;
    }
    synchronize(room->pending, nullptr);
    blocks_.prepare(1);
    const std::size_t height = plan.height();
    planner_.follow(std::move(plan), room);
    common_.take(room, height, 0);
    room->state = BlockState::held;
}

std::vector<Block*> DeviceMemory::Impl::planned_blocks() const {
    std::vector<Block*> live;
    if (!planner_.following()) return live;
    blocks_.for_each([&](Block& block) {
        if (block.state == BlockState::live && is_planned(block)) live.push_back(&block);
    });
    std::sort(live.begin(), live.end(), [](const Block* a, const Block* b) { return a->data < b->data; });
    return live;
}

/// The room becomes free memory with live blocks in it.
void DeviceMemory::Impl::drop_plan(const Shard* locked) {
    const std::vector<Block*> live = planned_blocks();
    blocks_.prepare(2 * live.size() + 1);
    Block* const room = planner_.room();
    for (const PendingSet& pending : planner_.pending()) room->pending.merge(pending);
    for (Block* block : live) block->slot = 0;
    common_.dissolve(room, live);
    planner_.give_up();
    const AllShards all(*this, locked);
    for (const auto& shard : shard_list_) shard->planned = false;
}

Block* DeviceMemory::Impl::take_slot(std::size_t size, Shard& shard) {
    blocks_.prepare(1);
    PlanFollower& follower = planner_.follower();
    const std::optional<PlannedSlot> place = follower.next(size, shard.stream);
    if (!place) return nullptr;
    try {
        for (const std::uint32_t before : place->after) wait_for_others(planner_.pending(before), shard);
    } catch (...) {
        // They will not be named again for these bytes, nor will those that this stream need not wait for.
        PendingSet& pending = planner_.pending(place->slot);
        for (const std::uint32_t before : place->after) pending.merge(planner_.pending(before));
        pending.add(shard.stream, shard.log.next());
        follower.release(place->slot, true);
        throw;
    }
    Block* block = blocks_.make();
    block->data = planner_.room()->data + place->offset;
    block->size = size;
    block->arena = &common_;
    block->stream = shard.stream;
    block->slot = place->slot + 1;
    block->state = BlockState::live;
    ++planned_;
    return block;
}

void DeviceMemory::Impl::give_slot_back(Block* block, bool shared) {
    const std::uint32_t slot = block->slot - 1;
    planner_.pending(slot) = block->pending;
    planner_.follower().release(slot, shared);
    block->slot = 0;
    blocks_.recycle(block);
}

std::uint32_t DeviceMemory::Impl::record_request(std::size_t size, StreamId stream) {
    return kRecorded | planner_.recorder().on_allocate(size, stream);
}

void DeviceMemory::Impl::forget_request(Block* block) noexcept {
    if (planner_.recording()) planner_.recorder().on_free(block->slot & ~kRecorded);
    block->slot = 0;
}

bool DeviceMemory::Impl::is_planned(const Block& block) noexcept { return block.slot != 0 && block.slot < kRecorded; }

}  // namespace headroom
