#pragma once
// Steers and asks the library that stands in for cuBLASLt in tests: it computes on the host's memory, at once, what its
// descriptors say, and refuses what the documentation of cuBLASLt forbids. Its algorithms differ in nothing but their
// number, counted from 0 in the order in which they are proposed.
//
//     const BlasApi api = load_blas({HEADROOM_FAKE_CUBLASLT});
//     fake_blas().refuse = true;
#include <string>

#include <dlfcn.h>

struct FakeBlas {
    bool refuse = false;         ///< there is no algorithm for anything
    bool fail = false;           ///< cublasLtMatmul fails
    int proposals = 0;           ///< how often algorithms were asked for
    int products = 0;            ///< calls of cublasLtMatmul that succeeded
    int last_algorithm = -1;     ///< of the last of them
    int failing_algorithm = -1;  ///< this one can't run
    int compute_type = -1;       ///< of the last product, a cublasComputeType_t
    unsigned reductions = 0;     ///< that were allowed when algorithms were last asked for
    int handles = 0;             ///< that are open
    int objects = 0;             ///< descriptors, layouts and preferences that are not destroyed
    std::string problem;         ///< what the last call did wrong, in words
};

extern "C" FakeBlas* fake_blas_state();

#ifdef HEADROOM_FAKE_CUBLASLT  // its file, for tests, which open it as they would cuBLASLt
inline FakeBlas& fake_blas() {
    void* library = dlopen(HEADROOM_FAKE_CUBLASLT, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    return *reinterpret_cast<decltype(&fake_blas_state)>(dlsym(library, "fake_blas_state"))();
}
#endif
