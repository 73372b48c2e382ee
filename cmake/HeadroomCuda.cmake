# What of CUDA there is. HEADROOM_HAS_CUDA (0 or 1): its headers, for the CUDA driver of memory/, whose functions are found
# in libcuda at run time. HEADROOM_CUDA_KERNELS: kernels/ has its CUDA side, compiled by nvcc. From a toolkit, or from
# NVIDIA's Python wheels. Without CUDA's kernels, tests run them in the emulator (HeadroomSimt.cmake).
set(HEADROOM_HAS_CUDA 0)
set(HEADROOM_CUDA_KERNELS 0)
set(headroom_cuda_oldest 11040)  # 11.4

if(HEADROOM_CUDA)
    find_package(Python3 COMPONENTS Interpreter QUIET)
    set(headroom_cuda_wheels)
    if(Python3_FOUND)  # nvidia-cuda-runtime-cu12: nvidia/cuda_runtime; nvidia-cuda-runtime for CUDA 13: nvidia/cu13
        execute_process(COMMAND ${Python3_EXECUTABLE} -c "import site; print(';'.join([*site.getsitepackages(), site.getusersitepackages()]))"
                        OUTPUT_VARIABLE headroom_cuda_sites OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
        foreach(folder IN LISTS headroom_cuda_sites)
            file(GLOB wheels ${folder}/nvidia/*)
            list(APPEND headroom_cuda_wheels ${wheels})
        endforeach()
    endif()
    file(GLOB headroom_cuda_local ${PROJECT_SOURCE_DIR}/build/cuda-toolkit/nvidia/*)  # from scripts/setup --develop
    list(APPEND headroom_cuda_wheels ${headroom_cuda_local})

    find_program(HEADROOM_NVCC nvcc HINTS ENV CUDA_PATH ENV CUDA_HOME PATHS /usr/local/cuda ${headroom_cuda_wheels}
        PATH_SUFFIXES bin)
    find_program(HEADROOM_CUOBJDUMP cuobjdump HINTS ENV CUDA_PATH ENV CUDA_HOME PATHS /usr/local/cuda ${headroom_cuda_wheels}
        PATH_SUFFIXES bin)  # of tests
    mark_as_advanced(HEADROOM_NVCC HEADROOM_CUOBJDUMP)
    set(headroom_cuda_root)  # nvcc's own toolkit
    if(HEADROOM_NVCC)
        execute_process(COMMAND ${HEADROOM_NVCC} --dryrun - OUTPUT_QUIET ERROR_VARIABLE headroom_nvcc_text)
        string(REGEX MATCH "TOP=([^\n]+)" headroom_nvcc_text "${headroom_nvcc_text}")
        file(REAL_PATH "${CMAKE_MATCH_1}" headroom_cuda_root)
        execute_process(COMMAND ${HEADROOM_NVCC} --version OUTPUT_VARIABLE headroom_nvcc_version ERROR_QUIET)
        string(REGEX MATCH "release ([0-9.]+)" headroom_nvcc_version "${headroom_nvcc_version}")
        set(headroom_nvcc_version ${CMAKE_MATCH_1})
        if(headroom_nvcc_version VERSION_LESS 12)
            message(STATUS "CUDA kernels are not compiled: ${HEADROOM_NVCC} is older than CUDA 12, which brought C++20")
            set(HEADROOM_NVCC "")
        endif()
    endif()
    find_path(HEADROOM_CUDA_INCLUDE_DIR cuda.h HINTS ${headroom_cuda_root} ENV CUDA_PATH ENV CUDA_HOME
        PATHS /usr/local/cuda ${headroom_cuda_wheels}
        PATH_SUFFIXES include DOC "Folder of cuda.h")
    find_library(HEADROOM_CUDART cudart_static HINTS ${headroom_cuda_root} PATHS ${headroom_cuda_wheels}
        PATH_SUFFIXES lib64 lib targets/x86_64-linux/lib DOC "CUDA's runtime as a static library")
    mark_as_advanced(HEADROOM_CUDA_INCLUDE_DIR HEADROOM_CUDART)

    set(headroom_cuda_problem "cuda.h was not found")
    if(EXISTS ${HEADROOM_CUDA_INCLUDE_DIR}/cuda.h)
        file(STRINGS ${HEADROOM_CUDA_INCLUDE_DIR}/cuda.h headroom_cuda_version REGEX "^#define CUDA_VERSION [0-9]+")
        string(REGEX REPLACE "^#define CUDA_VERSION ([0-9]+).*" "\\1" headroom_cuda_version "${headroom_cuda_version}")
        set(headroom_cuda_problem "${HEADROOM_CUDA_INCLUDE_DIR}/cuda.h is older than CUDA 11.4")
        if(headroom_cuda_version GREATER_EQUAL headroom_cuda_oldest)
            set(HEADROOM_HAS_CUDA 1)
        endif()
    endif()
    if(NOT HEADROOM_HAS_CUDA AND HEADROOM_CUDA STREQUAL "ON")
        message(FATAL_ERROR "HEADROOM_CUDA=ON: ${headroom_cuda_problem}. Install NVIDIA's toolkit or the Python package "
                            "nvidia-cuda-runtime-cu12, name the folder with -DHEADROOM_CUDA_INCLUDE_DIR=..., or "
                            "configure with -DHEADROOM_CUDA=OFF.")
    elseif(NOT HEADROOM_HAS_CUDA)
        message(STATUS "Without the CUDA driver: ${headroom_cuda_problem}")
    endif()
endif()

# Device code takes long to compile: AUTO compiles it for the GPU that is here, or for those that are named.
set(headroom_CUDA_ARCHITECTURES ${HEADROOM_CUDA_ARCHITECTURES})
set(headroom_device_code ${HEADROOM_CUDA})
if(HEADROOM_CUDA STREQUAL "EMULATED")
    set(headroom_device_code OFF)
elseif(HEADROOM_CUDA STREQUAL "AUTO" AND NOT HEADROOM_CUDA_ARCHITECTURES)
    include(HeadroomGpu)
    if(HEADROOM_GPU)
        set(headroom_CUDA_ARCHITECTURES ${HEADROOM_GPU}-real)
    else()
        set(headroom_device_code OFF)
        message(STATUS "Without CUDA kernels: no GPU is here (-DHEADROOM_CUDA=ON compiles them for all)")
    endif()
endif()

if(headroom_device_code)
    if(HEADROOM_NVCC AND HEADROOM_HAS_CUDA AND HEADROOM_CUDART)
        set(HEADROOM_CUDA_KERNELS 1)
        if(CMAKE_CXX_COMPILER_LAUNCHER)
            set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
        endif()
        set(headroom_NVCC ${HEADROOM_NVCC})
        if(NOT headroom_CUDA_ARCHITECTURES AND headroom_nvcc_version VERSION_LESS 12.8)
            set(headroom_CUDA_ARCHITECTURES 75-real 80-real 86-real 89-real 90)
        elseif(NOT headroom_CUDA_ARCHITECTURES)
            set(headroom_CUDA_ARCHITECTURES 75-real 80-real 86-real 89-real 90-real 100-real 120)
        endif()
        include(HeadroomCudaLanguage)
        headroom_enable_cuda()
    elseif(HEADROOM_CUDA STREQUAL "ON")
        message(FATAL_ERROR "HEADROOM_CUDA=ON: nvcc of CUDA 12 or newer and libcudart_static.a are needed, found "
                            "\"${HEADROOM_NVCC}\" and \"${HEADROOM_CUDART}\". Install NVIDIA's toolkit or the Python packages "
                            "nvidia-cuda-nvcc and nvidia-cuda-runtime, or configure with -DHEADROOM_CUDA=OFF.")
    else()
        message(STATUS "Without CUDA kernels: no nvcc of CUDA 12 or newer")
    endif()
endif()

# Sources named cuda_* are for builds with CUDA, in kernels/ for those that nvcc compiles, and without_cuda.cpp is for the
# others. Tests of kernels named emulated_* are the emulator's. Takes out of the list what this build lacks.
function(headroom_filter_cuda list)
    set(kept ${${list}})
    if(NOT HEADROOM_HAS_CUDA)
        list(FILTER kept EXCLUDE REGEX "/cuda_[^/]*\\.cpp$")
    endif()
    if(HEADROOM_CUDA_KERNELS)
        list(FILTER kept EXCLUDE REGEX "/without_cuda\\.cpp$")
    else()
        list(FILTER kept EXCLUDE REGEX "kernels/([^/]*/)?cuda_[^/]*\\.cpp$")  # and tests of them
    endif()
    if(HEADROOM_CUDA_KERNELS)
        list(FILTER kept EXCLUDE REGEX "kernels/emulated_[^/]*_test\\.cpp$")
    endif()
    headroom_filter_cudnn(kept)
    set(${list} ${kept} PARENT_SCOPE)
endfunction()

# Adds FOLDER/*/*.cu to a library.
function(headroom_device_code target folder)
    if(HEADROOM_CUDA_KERNELS)
        file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*/*.cu)
        headroom_device_sources(${target} ${sources})
    endif()
endfunction()

# Adds sources of device code to a target. What must equal another device's bits may not fuse a multiply with an add.
function(headroom_device_sources target)
    set(sources ${ARGN})
    set(exact ${sources})
    list(FILTER exact INCLUDE REGEX "/(random|dropout|step_control)/")
    if(NOT HEADROOM_CUDA_KERNELS)
        # Reports of sanitizers name lines; pragmas and kMaxThreads are nvcc's. A 64-bit number never becomes a smaller one
        # unsaid: clang says more by the same name.
        set(flags -O1 -g1 -Wno-unknown-pragmas $<$<CXX_COMPILER_ID:Clang>:-Wno-unused-const-variable>
            $<$<CXX_COMPILER_ID:GNU>:-Werror=conversion> -Wno-sign-conversion -Wno-float-conversion)
        if(HEADROOM_COVERAGE)
            list(APPEND flags --coverage)
            target_link_options(${target} PUBLIC --coverage)
        endif()
        set_source_files_properties(${sources} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "${flags}"  # CMake says -x c++
            SKIP_PRECOMPILE_HEADERS ON SKIP_UNITY_BUILD_INCLUSION ON)
        set_source_files_properties(${exact} PROPERTIES COMPILE_OPTIONS "${flags};-ffp-contract=off")
        target_sources(${target} PRIVATE ${sources})
        return()
    endif()
    set_source_files_properties(${exact} PROPERTIES COMPILE_OPTIONS -fmad=false)
    if(TARGET ${target}_device)
        target_sources(${target}_device PRIVATE ${sources})
        return()
    endif()
    # As objects: programs are linked by the C++ compiler as ever.
    add_library(${target}_device OBJECT ${sources})
    headroom_compile_options(${target}_device)
    target_include_directories(${target}_device PRIVATE $<TARGET_PROPERTY:${target},INCLUDE_DIRECTORIES>)
    target_compile_features(${target}_device PRIVATE cxx_std_20)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${target}_device>)
    target_include_directories(${target} SYSTEM PRIVATE ${HEADROOM_CUDA_INCLUDE_DIR})
    target_link_libraries(${target} PRIVATE ${HEADROOM_CUDART} Threads::Threads ${CMAKE_DL_LIBS} rt)
    # For .cu sources of others that include our headers.
    target_compile_options(${target} INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr>)
endfunction()

# Lets the sources of a target include cuda.h; whoever links it need not.
function(headroom_use_cuda target)
    if(HEADROOM_HAS_CUDA)
        target_include_directories(${target} SYSTEM PRIVATE ${HEADROOM_CUDA_INCLUDE_DIR})
    endif()
endfunction()
