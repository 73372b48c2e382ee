#pragma once
// How a test steers the NCCL that fake_nccl.cpp stands in for: of the calling thread, which is one rank.
extern "C" {

/// What ncclGetVersion says, to all.
void fake_nccl_version(int version);
/// From now on counts the calls of this rank, of which that with this number (from 1) fails, and the rank with it.
void fake_nccl_fail(long call);
/// The name of the call that failed; null if none has.
const char* fake_nccl_failed();
}
