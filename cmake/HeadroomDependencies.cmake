# Third-party packages. scripts/setup installs them on Debian and Ubuntu.
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(dnnl REQUIRED CONFIG)
find_package(nlohmann_json REQUIRED)
find_package(ZLIB REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)  # oneDNN's threads, which are told to be one

if(HEADROOM_EXAMPLES)
    find_package(CLI11 REQUIRED)
endif()
if(HEADROOM_TESTS)
    find_package(GTest REQUIRED)
endif()
if(HEADROOM_BENCH)
    find_package(benchmark REQUIRED)
endif()
