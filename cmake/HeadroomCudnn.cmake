# cuDNN for kernels/attention and kernels/convolution, where kernels are compiled by nvcc: the headers of cuDNN 9 and of its C++
# frontend now, the library itself at run time, first on the loader's path and then where it was found here. Without them the
# project's own kernels do it all.
set(HEADROOM_HAS_CUDNN 0)
set(headroom_cudnn_frontend_oldest 1.32)

if(HEADROOM_CUDA_KERNELS)
    find_path(HEADROOM_CUDNN_FRONTEND_INCLUDE_DIR cudnn_frontend.h
        HINTS ${PROJECT_SOURCE_DIR}/build/cudnn-frontend  # from scripts/setup --develop
        PATHS ${headroom_cuda_root} ${headroom_cuda_wheels} ${headroom_cuda_sites}
        PATH_SUFFIXES include DOC "Folder of cudnn_frontend.h")
    find_path(HEADROOM_CUDNN_INCLUDE_DIR cudnn.h HINTS ${HEADROOM_CUDA_INCLUDE_DIR}
        PATHS ${headroom_cuda_root} ${headroom_cuda_wheels} PATH_SUFFIXES include DOC "Folder of cudnn.h")
    mark_as_advanced(HEADROOM_CUDNN_FRONTEND_INCLUDE_DIR HEADROOM_CUDNN_INCLUDE_DIR)

    # Reads major.minor out of a header's defines.
    function(headroom_header_version file prefix suffix result)
        set(version)
        if(EXISTS ${file})
            file(STRINGS ${file} lines REGEX "^#define ${prefix}(MAJOR|MINOR)${suffix} [0-9]+")
            list(TRANSFORM lines REPLACE "^.* ([0-9]+).*$" "\\1")
            list(JOIN lines "." version)
        endif()
        set(${result} ${version} PARENT_SCOPE)
    endfunction()
    headroom_header_version("${HEADROOM_CUDNN_INCLUDE_DIR}/cudnn_version.h" CUDNN_ "" headroom_cudnn_version)
    headroom_header_version("${HEADROOM_CUDNN_FRONTEND_INCLUDE_DIR}/cudnn_frontend_version.h" CUDNN_FRONTEND_ _VERSION
        headroom_cudnn_frontend_version)
    if(NOT headroom_cudnn_version VERSION_GREATER_EQUAL 9 OR headroom_cudnn_version VERSION_GREATER_EQUAL 10)
        message(STATUS "Attention and convolutions by own kernels: no headers of cuDNN 9 (found: \"${headroom_cudnn_version}\")")
    elseif(NOT headroom_cudnn_frontend_version VERSION_GREATER_EQUAL headroom_cudnn_frontend_oldest)
        message(STATUS "Attention and convolutions by own kernels: no headers of cuDNN's frontend ${headroom_cudnn_frontend_oldest} or newer "
                       "(found: \"${headroom_cudnn_frontend_version}\")")
    else()
        set(HEADROOM_HAS_CUDNN 1)
        message(STATUS "Attention and convolutions by cuDNN ${headroom_cudnn_version}, frontend ${headroom_cudnn_frontend_version}, "
                       "where its library is found at run time")
        cmake_path(GET HEADROOM_CUDNN_INCLUDE_DIR PARENT_PATH headroom_cudnn_root)
        find_path(HEADROOM_CUDNN_FOLDER libcudnn.so.9 HINTS ${headroom_cudnn_root} ${headroom_cuda_root}
            PATHS ${headroom_cuda_wheels} PATH_SUFFIXES lib64 lib DOC "Folder of libcudnn")
        cmake_path(GET HEADROOM_CUDART PARENT_PATH headroom_cudart_folder)
        math(EXPR headroom_cudart_major "${headroom_cuda_version} / 1000")
        find_path(HEADROOM_CUDART_FOLDER libcudart.so.${headroom_cudart_major} HINTS ${headroom_cudart_folder} ${headroom_cuda_root}
            PATHS ${headroom_cuda_wheels} PATH_SUFFIXES lib64 lib targets/x86_64-linux/lib DOC "Folder of the shared libcudart")
        mark_as_advanced(HEADROOM_CUDNN_FOLDER HEADROOM_CUDART_FOLDER)
    endif()
endif()

# Takes out of a list of sources what is for builds with cuDNN, or what stands in for it.
function(headroom_filter_cudnn list)
    set(kept ${${list}})
    if(HEADROOM_HAS_CUDNN OR NOT HEADROOM_CUDA_KERNELS)
        list(FILTER kept EXCLUDE REGEX "/without_cudnn\\.cpp$")
    endif()
    if(NOT HEADROOM_HAS_CUDNN)
        list(FILTER kept EXCLUDE REGEX "/(attention|convolution)/cuda_[^/]*\\.cpp$|/cuda_cudnn_(graph|test|convolution_test)\\.cpp$")
    endif()
    set(${list} ${kept} PARENT_SCOPE)
endfunction()

# For the sources that include the frontend: three megabytes of headers, and nothing in them that -O3 would make faster.
function(headroom_use_cudnn)
    if(NOT HEADROOM_HAS_CUDNN)
        return()
    endif()
    set(sources attention/cuda_cudnn.cpp convolution/cuda_cudnn.cpp device/cuda_cudnn_graph.cpp)
    list(TRANSFORM sources PREPEND "${PROJECT_SOURCE_DIR}/kernels/")
    set(folders ${HEADROOM_CUDNN_FRONTEND_INCLUDE_DIR} ${HEADROOM_CUDNN_INCLUDE_DIR} ${HEADROOM_CUDA_INCLUDE_DIR})
    list(TRANSFORM folders PREPEND "-isystem")
    set_source_files_properties(${sources} PROPERTIES COMPILE_OPTIONS "-O1;${folders}"
        SKIP_PRECOMPILE_HEADERS ON)
    set(found)
    foreach(folder HEADROOM_CUDNN_FOLDER HEADROOM_CUDART_FOLDER)
        if(${folder})
            list(APPEND found "${folder}=\"${${folder}}/\"")
        endif()
    endforeach()
    set_source_files_properties(${sources} PROPERTIES COMPILE_DEFINITIONS "${found}")
endfunction()

# tests/kernels/fake_driver/*.cpp -> shared library that acts as a libcuda without a GPU, for cuDNN to find by its name.
function(headroom_fake_driver)
    if(NOT HEADROOM_HAS_CUDNN)
        return()
    endif()
    file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/kernels/fake_driver/*.cpp)
    add_library(fake_driver SHARED ${sources})
    headroom_compile_options(fake_driver)
    set_target_properties(fake_driver PROPERTIES NO_SONAME ON)
    target_link_options(fake_driver PRIVATE -Wl,-soname,libcuda.so.1)
endfunction()

# Lets a test open it.
function(headroom_use_fake_driver target)
    if(TARGET fake_driver)
        add_dependencies(${target} fake_driver)
        target_link_libraries(${target} PRIVATE ${CMAKE_DL_LIBS})
        target_compile_definitions(${target} PRIVATE HEADROOM_FAKE_DRIVER="$<TARGET_FILE:fake_driver>")
    endif()
endfunction()
