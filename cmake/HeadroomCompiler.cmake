# Language, flags, sanitizers and the compiler cache.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(PROJECT_IS_TOP_LEVEL)
    set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
endif()

# How many bits a loop of ours uses is decided here: every target of the project is compiled with these.
function(headroom_compile_options target)
    set(stores)
    if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
        # A shape is set to zero by a few stores, not by an instruction (rep stos) that takes tens of cycles to start.
        set(stores -mmemset-strategy=vector_loop:512:noalign,libcall:-1:noalign)
    endif()
    set(flags
        -march=${HEADROOM_CPU_ARCH} -fno-math-errno -fno-trapping-math -fopenmp-simd ${stores}
        -Wall -Wextra -Wpedantic
        $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>  # GCC 12's own AVX-512 intrinsics raise it (PR 105593)
        $<$<CXX_COMPILER_ID:GNU>:-Wno-psabi>  # vectors wider than the machine's are passed inside of a source only
        $<$<CXX_COMPILER_ID:Clang>:-Wno-pass-failed>  # loops over double call the standard library: not vectorised, and known
        $<$<BOOL:${HEADROOM_WERROR}>:-Werror>)
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${flags}>")
    # nvcc: constexpr functions are the device's as well.
    set(flags --expt-relaxed-constexpr $<$<BOOL:${HEADROOM_WERROR}>:-Werror=all-warnings>)
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:${flags}>")
    if(HEADROOM_SANITIZE)
        target_compile_options(${target} PRIVATE -fno-omit-frame-pointer)
        # PUBLIC: a program that links an instrumented library needs its run time too.
        target_compile_options(${target} PUBLIC -fsanitize=${HEADROOM_SANITIZE})
        target_link_options(${target} PUBLIC -fsanitize=${HEADROOM_SANITIZE})
        if(HEADROOM_SANITIZE MATCHES undefined)
            target_compile_options(${target} PRIVATE -fno-sanitize-recover=undefined)
        endif()
    endif()
endfunction()

# What the C++ sources of a library include most is compiled once. Sources with flags of their own are left out, since GCC
# takes a precompiled header only with the flags that made it. The preset `portable` has none: there each source shows that
# it includes what it needs.
# As target_precompile_headers: PRIVATE and the headers, or REUSE_FROM and a target with the same flags.
function(headroom_precompile target)
    target_precompile_headers(${target} ${ARGN})
    # So that ccache sees what is precompiled.
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>)
endfunction()

# Compiles the sources of a target `size` at a time. Most of a source's time goes to its headers and to templates that its
# neighbours use as well. The preset `portable` compiles each source by itself, so that each includes what it needs.
function(headroom_in_batches target size)
    if(HEADROOM_UNITY)
        set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${size})
    endif()
endfunction()

# A release's optimisation is the build type's, -O3, where loops over numbers run: in kernels, and in data's images. Elsewhere
# it costs the compiler's time alone: LEVEL is -O2 where a step passes, -O1 where nobody waits for what runs.
function(headroom_optimise target level)
    target_compile_options(${target} PRIVATE $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:${level}>)
endfunction()

function(headroom_quick_options target)
    headroom_compile_options(${target})
    headroom_optimise(${target} -O1)
endfunction()

# Objects are shared between build folders: paths are hashed relative to the build, and what "native" means on
# this machine is part of the hash.
find_program(HEADROOM_CCACHE ccache)
if(HEADROOM_CCACHE AND PROJECT_IS_TOP_LEVEL AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    execute_process(COMMAND ${CMAKE_CXX_COMPILER} -march=${HEADROOM_CPU_ARCH} -E -v -x c++ /dev/null
                    OUTPUT_QUIET ERROR_VARIABLE headroom_arch_text)
    string(REGEX MATCHALL " (-m[^ ]+|--param [^ ]+|-target-(cpu|feature) [^ ]+)" headroom_arch_text "${headroom_arch_text}")
    file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/cpu_arch.txt CONTENT "${headroom_arch_text}\n")
    cmake_path(IS_PREFIX CMAKE_SOURCE_DIR ${CMAKE_BINARY_DIR} NORMALIZE headroom_build_inside)
    set(headroom_ccache_base /)
    if(headroom_build_inside)
        set(headroom_ccache_base ${CMAKE_SOURCE_DIR})
    endif()
    set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${headroom_ccache_base}
        CCACHE_EXTRAFILES=${CMAKE_BINARY_DIR}/cpu_arch.txt CCACHE_NOHASHDIR=1
        CCACHE_COMMENTS=1  # GCC knows a precompiled header's files by their bytes, comments too: each includes them once
        CCACHE_SLOPPINESS=pch_defines,time_macros  # what it asks for where headers are precompiled
        ${PROJECT_SOURCE_DIR}/cmake/ccache-compile ${HEADROOM_CCACHE})
endif()
