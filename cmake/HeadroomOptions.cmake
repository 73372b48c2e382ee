# What a user may choose at configure time.
set(HEADROOM_CPU_ARCH native CACHE STRING "Value of -march: native for this machine, x86-64-v3 for packages")
set(HEADROOM_CUDA OFF CACHE STRING "OFF: this version has no CUDA kernels yet")
set(HEADROOM_SANITIZE "" CACHE STRING "Value of -fsanitize: empty, address,undefined or thread")
option(HEADROOM_EXAMPLES "Build the example programs" ${PROJECT_IS_TOP_LEVEL})
option(HEADROOM_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})
option(HEADROOM_BENCH "Build the benchmarks" ${PROJECT_IS_TOP_LEVEL})
option(HEADROOM_WERROR "Treat warnings as errors" OFF)

if(HEADROOM_CUDA AND NOT HEADROOM_CUDA STREQUAL "AUTO")
    message(FATAL_ERROR "HEADROOM_CUDA=${HEADROOM_CUDA}: this version of Headroom runs on CPUs only. "
                        "Configure with -DHEADROOM_CUDA=OFF.")
endif()
if(NOT HEADROOM_SANITIZE MATCHES "^(address|undefined|address,undefined|thread)?$")
    message(FATAL_ERROR "HEADROOM_SANITIZE=${HEADROOM_SANITIZE}: use address,undefined or thread, or leave it empty.")
endif()
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release or RelWithDebInfo" FORCE)
endif()
