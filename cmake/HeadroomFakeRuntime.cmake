# What tests/kernels/runtime_*_test.cpp are linked to, in any build that has CUDA's headers: the host's side of a GPU
# (cuda_*.cpp of kernels/device, and cuDNN's, compiled with a stand-in for the frontend's headers), over a runtime that stands
# in for CUDA's.
function(headroom_fake_runtime)
    if(NOT HEADROOM_HAS_CUDA)
        return()
    endif()
    set(tests ${PROJECT_SOURCE_DIR}/tests/kernels)
    set(kernels ${PROJECT_SOURCE_DIR}/kernels)
    file(GLOB sources CONFIGURE_DEPENDS ${tests}/fake_runtime/*.cpp ${tests}/fake_cudnn/*.cpp ${kernels}/device/cuda_*.cpp)
    add_library(fake_runtime OBJECT ${sources}
        ${kernels}/attention/cuda_cudnn.cpp ${kernels}/attention/cuda_attention.cpp
        ${kernels}/convolution/cuda_cudnn.cpp ${kernels}/convolution/cuda_convolution.cpp)
    headroom_test_options(fake_runtime)
    target_compile_features(fake_runtime PUBLIC cxx_std_20)
    foreach(folder memory kernels tests)
        headroom_include_root(fake_runtime PUBLIC ${folder})
    endforeach()
    target_include_directories(fake_runtime PRIVATE ${tests}/fake_cudnn)  # before the real one's
    target_include_directories(fake_runtime SYSTEM PUBLIC ${HEADROOM_CUDA_INCLUDE_DIR})
    target_link_libraries(fake_runtime PUBLIC fmt::fmt)
    foreach(library fake_cudnn fake_cudart)
        file(GLOB sources CONFIGURE_DEPENDS ${tests}/${library}/library/*.cpp)
        add_library(${library} SHARED ${sources})
        headroom_test_options(${library})
    endforeach()
endfunction()

function(headroom_use_fake_runtime target)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:fake_runtime>)
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/tests/kernels/fake_cudnn)
    target_include_directories(${target} SYSTEM PRIVATE ${HEADROOM_CUDA_INCLUDE_DIR})
    target_link_libraries(${target} PRIVATE ${CMAKE_DL_LIBS})
    add_dependencies(${target} fake_cudnn fake_cudart)
    target_compile_definitions(${target} PRIVATE HEADROOM_FAKE_CUDNN="$<TARGET_FILE:fake_cudnn>"
        HEADROOM_FAKE_CUDART="$<TARGET_FILE:fake_cudart>"
        HEADROOM_CUDNN_FOUND="$<$<BOOL:${HEADROOM_CUDNN_FOLDER}>:${HEADROOM_CUDNN_FOLDER}>"
        HEADROOM_CUDART_FOUND="$<$<BOOL:${HEADROOM_CUDART_FOLDER}>:${HEADROOM_CUDART_FOLDER}>")
endfunction()
