# headroom_enable_cuda(): CMake's CUDA language with the compiler and the architectures that Headroom was built with, unless
# others were chosen before. A macro, since a language belongs to the whole project. Installed with the package.
macro(headroom_enable_cuda)
    if(NOT CMAKE_CUDA_COMPILER)
        set(CMAKE_CUDA_COMPILER ${headroom_NVCC})
    endif()
    if(NOT CMAKE_CUDA_ARCHITECTURES)
        set(CMAKE_CUDA_ARCHITECTURES ${headroom_CUDA_ARCHITECTURES})
    endif()
    enable_language(CUDA)
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # Debian 12's CMake knows no C++20 for nvcc
        set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
        set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
    endif()
endmacro()
