"""The time that the host needs to queue work for a GPU."""
import statistics
import time


def queueing_seconds(work, synchronize, runs):
    """Seconds that the host needs for one call of `work`, which queues kernels: the median of `runs` calls (at most 9). Before
    each, the host waits until the GPU has done all work, as it would be timed at the GPU's pace if the queue were full."""
    seconds = []
    for _ in range(min(runs, 9)):
        synchronize()
        begin = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begin)
    return statistics.median_high(seconds)
