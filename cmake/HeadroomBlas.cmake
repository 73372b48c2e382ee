# cuBLASLt for kernels/matmul, where kernels are compiled by nvcc: its headers now, the library itself at run time, first on
# the loader's path and then where it was found here.
if(HEADROOM_CUDA_KERNELS)
    find_path(HEADROOM_CUBLAS_INCLUDE_DIR cublasLt.h HINTS ${HEADROOM_CUDA_INCLUDE_DIR}
        PATHS ${headroom_cuda_root} ${headroom_cuda_wheels} PATH_SUFFIXES include DOC "Folder of cublasLt.h")
    mark_as_advanced(HEADROOM_CUBLAS_INCLUDE_DIR)
    if(NOT HEADROOM_CUBLAS_INCLUDE_DIR AND HEADROOM_CUDA STREQUAL "ON")
        message(FATAL_ERROR "HEADROOM_CUDA=ON: cublasLt.h was not found. Install NVIDIA's toolkit with cuBLAS, or the Python "
                            "package nvidia-cublas, or configure with -DHEADROOM_CUDA=OFF.")
    elseif(NOT HEADROOM_CUBLAS_INCLUDE_DIR)
        message(STATUS "Without CUDA kernels: no cublasLt.h")
        set(HEADROOM_CUDA_KERNELS 0)
    endif()
endif()
if(HEADROOM_CUDA_KERNELS)
    file(STRINGS ${HEADROOM_CUBLAS_INCLUDE_DIR}/cublas_api.h headroom_cublas_major REGEX "^#define CUBLAS_VER_MAJOR [0-9]+")
    string(REGEX REPLACE ".* ([0-9]+).*" "\\1" headroom_cublas_major "${headroom_cublas_major}")
    cmake_path(GET HEADROOM_CUBLAS_INCLUDE_DIR PARENT_PATH headroom_cublas_root)
    find_path(HEADROOM_CUBLAS_FOLDER libcublasLt.so.${headroom_cublas_major}
        HINTS ${headroom_cublas_root} ${headroom_cuda_root} PATHS ${headroom_cuda_wheels}
        PATH_SUFFIXES lib64 lib targets/x86_64-linux/lib DOC "Folder of libcublasLt")
    mark_as_advanced(HEADROOM_CUBLAS_FOLDER)
endif()

# For the sources of a target that include cublasLt.h.
function(headroom_use_blas target)
    if(NOT HEADROOM_CUBLAS_INCLUDE_DIR OR NOT HEADROOM_CUDA_KERNELS)
        return()
    endif()
    target_include_directories(${target} SYSTEM PRIVATE ${HEADROOM_CUBLAS_INCLUDE_DIR} ${HEADROOM_CUDA_INCLUDE_DIR})
endfunction()

if(HEADROOM_CUBLAS_FOLDER)
    set_source_files_properties(${PROJECT_SOURCE_DIR}/kernels/matmul/cuda_blas_api.cpp PROPERTIES
        COMPILE_DEFINITIONS HEADROOM_CUBLAS_FOLDER="${HEADROOM_CUBLAS_FOLDER}/")
endif()

# tests/kernels/fake_cublaslt/*.cpp -> shared library that acts as libcublasLt on host memory, opened by its path.
function(headroom_fake_blas)
    if(NOT HEADROOM_CUBLAS_INCLUDE_DIR OR NOT HEADROOM_CUDA_KERNELS)
        return()
    endif()
    file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/kernels/fake_cublaslt/*.cpp)
    add_library(fake_cublaslt SHARED ${sources})
    headroom_compile_options(fake_cublaslt)
    target_compile_features(fake_cublaslt PUBLIC cxx_std_20)
    foreach(folder memory kernels tests)
        headroom_include_root(fake_cublaslt PRIVATE ${folder})
    endforeach()
    target_include_directories(fake_cublaslt SYSTEM PRIVATE ${HEADROOM_CUBLAS_INCLUDE_DIR} ${HEADROOM_CUDA_INCLUDE_DIR})
endfunction()

# Lets a test include cublasLt.h and open the library above.
function(headroom_use_fake_blas target)
    if(TARGET fake_cublaslt)
        headroom_use_blas(${target})
        add_dependencies(${target} fake_cublaslt)
        target_link_libraries(${target} PRIVATE ${CMAKE_DL_LIBS})
        target_compile_definitions(${target} PRIVATE HEADROOM_FAKE_CUBLASLT="$<TARGET_FILE:fake_cublaslt>"
            HEADROOM_CUBLAS_FOUND="$<$<BOOL:${HEADROOM_CUBLAS_FOLDER}>:${HEADROOM_CUBLAS_FOLDER}>")
    endif()
endfunction()
