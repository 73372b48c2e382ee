# NCCL, which is opened when a program needs it (dist/nccl_api.cpp), and not linked: where it is found now is the last place where it
# is looked for then. Its header is for a test, which compares it with what dist/ says of it.
function(headroom_use_nccl)
    if(HEADROOM_HAS_CUDA)
        find_path(HEADROOM_NCCL_INCLUDE_DIR nccl.h HINTS ${HEADROOM_CUDA_INCLUDE_DIR} PATHS ${headroom_cuda_root} ${headroom_cuda_wheels}
            PATH_SUFFIXES include DOC "Folder of nccl.h")
        find_file(HEADROOM_NCCL_LIBRARY libnccl.so.2 HINTS ${headroom_cuda_root} ${HEADROOM_NCCL_INCLUDE_DIR}/.. PATHS ${headroom_cuda_wheels}
            PATH_SUFFIXES lib lib64 DOC "Path of libnccl.so.2")
        mark_as_advanced(HEADROOM_NCCL_INCLUDE_DIR HEADROOM_NCCL_LIBRARY)
    endif()
    set(found)
    if(HEADROOM_NCCL_LIBRARY)
        set(found ${HEADROOM_NCCL_LIBRARY})
    endif()
    set_source_files_properties(${PROJECT_SOURCE_DIR}/dist/nccl_api.cpp PROPERTIES
        COMPILE_DEFINITIONS HEADROOM_NCCL_BUILT="${found}" SKIP_PRECOMPILE_HEADERS ON)
endfunction()
