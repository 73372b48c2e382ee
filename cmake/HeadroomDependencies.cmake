# Third-party packages. scripts/setup installs them on Debian and Ubuntu.
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(dnnl REQUIRED CONFIG)
find_package(nlohmann_json REQUIRED)
find_package(ZLIB REQUIRED)

# ThreadSanitizer does not know libgomp's barriers and reports correct loops.
set(HEADROOM_OPENMP_TARGET "")
if(NOT HEADROOM_SANITIZE STREQUAL "thread")
    find_package(OpenMP REQUIRED COMPONENTS CXX)
    set(HEADROOM_OPENMP_TARGET OpenMP::OpenMP_CXX)
endif()

if(HEADROOM_EXAMPLES)
    find_package(CLI11 REQUIRED)
endif()
if(HEADROOM_TESTS)
    find_package(GTest REQUIRED)
endif()
if(HEADROOM_BENCH)
    find_package(benchmark REQUIRED)
endif()
