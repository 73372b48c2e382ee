"""The peak of what PyTorch's allocator of the CPU had live, which has no counter of its own, by the profiler."""

from torch.profiler import ProfilerActivity, profile


def profiled_peak(work):
    """In bytes, of what `work` allocates: its weights, moments and inputs are counted if it makes them."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        work()
    live = peak = 0
    for event in recorded.profiler.kineto_results.events():
        if event.name() == "[memory]":
            live += event.nbytes()
            peak = max(peak, live)
    return peak
