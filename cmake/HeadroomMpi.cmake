# The plug-in by which processes reach each other (dist/internal/mpi_plugin.hpp), compiled against the MPI that is found.
# A build without one has no plug-in, and its programs train in one process.
option(HEADROOM_MPI "Build the plug-in for MPI where one is found" ON)

# Tells the library dist where its plug-in lies.
function(headroom_use_mpi)
    set(folder headroom)
    target_compile_definitions(headroom_dist PRIVATE
        HEADROOM_MPI_BUILT="${PROJECT_BINARY_DIR}/dist/libheadroom_mpi.so"
        HEADROOM_MPI_FROM_PROGRAM="${CMAKE_INSTALL_LIBDIR}/${folder}/libheadroom_mpi.so"
        HEADROOM_MPI_INSTALLED="${CMAKE_INSTALL_FULL_LIBDIR}/${folder}/libheadroom_mpi.so")
    if(HEADROOM_MPI)
        set(MPI_CXX_SKIP_MPICXX ON)  # the C interface alone
        find_package(MPI QUIET COMPONENTS CXX)
    endif()
    if(NOT MPI_CXX_FOUND)
        message(STATUS "MPI: none, so that programs train in one process")
        return()
    endif()
    message(STATUS "MPI: ${MPI_CXX_LIBRARY_VERSION_STRING}")
    add_library(headroom_mpi MODULE ${PROJECT_SOURCE_DIR}/dist/plugins/mpi/mpi_plugin.cpp)
    headroom_compile_options(headroom_mpi)
    target_compile_features(headroom_mpi PRIVATE cxx_std_20)
    headroom_include_root(headroom_mpi PRIVATE dist)
    target_link_libraries(headroom_mpi PRIVATE MPI::MPI_CXX)
    set_target_properties(headroom_mpi PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/dist)
    add_dependencies(headroom_dist headroom_mpi)
    install(TARGETS headroom_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/${folder})
endfunction()
