# The emulator that runs CUDA kernels in tests, the kernels as it runs them, and the example kernels that prove it. See
# docs/kernel_tests.md. HEADROOM_CUDA_EMULATED: tests have it in place of GPUs.
set(HEADROOM_CUDA_EMULATED 0)
if(HEADROOM_TESTS AND NOT HEADROOM_CUDA_KERNELS)
    set(HEADROOM_CUDA_EMULATED 1)
endif()

# Lets a target of the tests include what kernels and the emulator are made of; nothing of it needs linking.
function(headroom_simt_includes target)
    target_compile_features(${target} PUBLIC cxx_std_20)
    foreach(folder memory kernels tests)
        headroom_include_root(${target} PUBLIC ${folder})
    endforeach()
endfunction()

# headroom_simt_library(<target> <sources>): .cu files as C++, for the emulator.
function(headroom_simt_library target)
    set_source_files_properties(${ARGN} PROPERTIES LANGUAGE CXX)  # CMake says -x c++ for it
    add_library(${target} STATIC ${ARGN})
    headroom_compile_options(${target})
    # Reports of sanitizers name lines; kMaxThreads is nvcc's.
    target_compile_options(${target} PRIVATE -g1 $<$<CXX_COMPILER_ID:Clang>:-Wno-unused-const-variable>)
    headroom_simt_includes(${target})
endfunction()

# headroom_nvcc_check(<target> <sources>): compiles .cu files for GPUs where nvcc is found. Building it is the test.
function(headroom_nvcc_check target)
    if(NOT HEADROOM_NVCC OR HEADROOM_SANITIZE)
        return()
    endif()
    set(cubins)
    foreach(source IN LISTS ARGN)
        cmake_path(GET source STEM name)
        foreach(architecture sm_75 sm_80 sm_90)
            set(cubin ${PROJECT_BINARY_DIR}/cubins/${target}/${name}.${architecture}.cubin)
            add_custom_command(OUTPUT ${cubin}
                COMMAND ${HEADROOM_NVCC} -std=c++20 -O3 -arch=${architecture} -cubin
                    $<$<BOOL:${HEADROOM_WERROR}>:-Werror$<SEMICOLON>all-warnings>
                    -I${HEADROOM_INCLUDE_ROOTS}/memory -I${HEADROOM_INCLUDE_ROOTS}/kernels -I${HEADROOM_INCLUDE_ROOTS}/tests
                    -MMD -MF ${cubin}.d -o ${cubin} ${source}
                DEPENDS ${source} DEPFILE ${cubin}.d
                COMMENT "nvcc ${architecture} ${name}.cu" VERBATIM COMMAND_EXPAND_LISTS)
            list(APPEND cubins ${cubin})
        endforeach()
    endforeach()
    file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/cubins/${target})
    add_custom_target(${target} ALL DEPENDS ${cubins})
endfunction()

# headroom_simt: the emulator. headroom_emulated_kernels: the CUDA side of kernels/ for it, and the device and libraries
# that stand in for CUDA's there (tests/simt/gpu). Objects, so that they come before what stands in for them in the library
# (kernels/without_cuda.cpp). Nothing that is installed needs it.
function(headroom_simt)
    file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/simt/*.cpp)
    list(FILTER sources EXCLUDE REGEX "_test\\.cpp$")
    add_library(headroom_simt STATIC ${sources})
    headroom_compile_options(headroom_simt)
    headroom_simt_includes(headroom_simt)
    target_link_libraries(headroom_simt PUBLIC fmt::fmt)
    if(HEADROOM_SANITIZE STREQUAL thread)  # the scheduler belongs to no CUDA thread: sanitizers.hpp says why
        target_compile_options(headroom_simt PRIVATE -fno-sanitize=thread)
        target_compile_definitions(headroom_simt PRIVATE HEADROOM_SIMT_TSAN)
    endif()

    if(HEADROOM_CUDA_EMULATED)
        set(folder ${PROJECT_SOURCE_DIR}/kernels)
        file(GLOB kernels CONFIGURE_DEPENDS ${folder}/*/*.cu)
        file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/simt/gpu/*.cpp ${folder}/*/without_cudnn.cpp)
        add_library(headroom_emulated_kernels OBJECT ${sources})
        headroom_compile_options(headroom_emulated_kernels)
        headroom_device_sources(headroom_emulated_kernels ${kernels})
        target_compile_definitions(headroom_emulated_kernels PUBLIC HEADROOM_CUDA_KERNELS=1)
        target_link_libraries(headroom_emulated_kernels PUBLIC headroom_simt headroom_kernels)
        target_link_options(headroom_emulated_kernels INTERFACE -Wl,--export-dynamic-symbol=headroom_emulated_gpu)
    endif()
endfunction()

# headroom_simt_kernels: tests/simt/kernels/*.cu. simt_nvcc: the same for GPUs. simt_twins: some of them written without
# Block.
function(headroom_simt_tests)
    file(GLOB kernels CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/simt/kernels/*.cu)
    headroom_simt_library(headroom_simt_kernels ${kernels})
    headroom_nvcc_check(simt_nvcc ${kernels})
    file(GLOB twins CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/simt/twins/*.cu)
    headroom_nvcc_check(simt_twins ${twins})
    if(TARGET simt_nvcc)
        add_custom_target(tests_simt DEPENDS simt_nvcc simt_twins)
        set(environment HEADROOM_CUBINS=${PROJECT_BINARY_DIR}/cubins HEADROOM_CUOBJDUMP=${HEADROOM_CUOBJDUMP})
        if(HEADROOM_CUDA_KERNELS)
            list(APPEND environment HEADROOM_DEVICE_OBJECTS=${PROJECT_BINARY_DIR}/CMakeFiles/headroom_kernels_device.dir)
        endif()
        headroom_script_tests(simt ${environment})
    endif()
endfunction()
