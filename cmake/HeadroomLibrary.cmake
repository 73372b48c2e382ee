# One folder, one library, one include root: build/include/<name>/headroom/<name> is a link to <name>, so that a source
# can include only what lies below it in the stack. include/headroom is for editors, and compiles nothing.
include(GNUInstallDirs)
set(HEADROOM_INCLUDE_ROOTS ${PROJECT_BINARY_DIR}/include)

# Makes `#include <headroom/FOLDER/...>` work for targets that link TARGET.
function(headroom_include_root target scope folder)
    cmake_path(GET folder PARENT_PATH parent)
    string(REPLACE "/" "_" root ${folder})
    file(MAKE_DIRECTORY ${HEADROOM_INCLUDE_ROOTS}/${root}/headroom/${parent})
    file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${folder} ${HEADROOM_INCLUDE_ROOTS}/${root}/headroom/${folder} SYMBOLIC)
    target_include_directories(${target} ${scope} $<BUILD_INTERFACE:${HEADROOM_INCLUDE_ROOTS}/${root}>)
endfunction()

# headroom_library(<name> [OPTIMISE <level>] [USES <libraries below>] [PACKAGES <others' packages>] [LINKS <public targets>]
# [PRIVATE <private targets>]) compiles <name>/*.cpp and <name>/*/*.cpp into headroom_<name>, known as
# headroom::<name>, component <name> of the installed package, which finds PACKAGES for it. OPTIMISE: as
# headroom_optimise has it.
function(headroom_library name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "OPTIMISE" "USES;PACKAGES;LINKS;PRIVATE")
    file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${name}/*.cpp ${PROJECT_SOURCE_DIR}/${name}/*/*.cpp)
    file(GLOB headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${name}/*.hpp ${PROJECT_SOURCE_DIR}/${name}/*/*.hpp)
    headroom_filter_cuda(sources)
    if(NOT sources AND NOT headers)
        return()
    endif()

    set(target headroom_${name})
    set(scope PUBLIC)
    if(sources)
        add_library(${target} STATIC ${sources})
        target_link_libraries(${target} PRIVATE ${arg_PRIVATE})
        headroom_compile_options(${target})
        if(arg_OPTIMISE)
            headroom_optimise(${target} ${arg_OPTIMISE})
        endif()
        if(NOT name STREQUAL kernels)  # of whose loops each is optimised by itself
            headroom_in_batches(${target} 24)
        endif()
    else()
        add_library(${target} INTERFACE)
        set(scope INTERFACE)
    endif()
    add_library(headroom::${name} ALIAS ${target})
    set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
    target_compile_features(${target} ${scope} cxx_std_20)
    headroom_include_root(${target} ${scope} ${name})
    target_include_directories(${target} ${scope} $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

    foreach(lower IN LISTS arg_USES)
        if(TARGET headroom_${lower})
            target_link_libraries(${target} ${scope} headroom_${lower})
        endif()
    endforeach()
    target_link_libraries(${target} ${scope} ${arg_LINKS})
    set_property(GLOBAL APPEND PROPERTY HEADROOM_LIBRARIES ${name})
    set_property(GLOBAL PROPERTY HEADROOM_USES_${name} ${arg_USES})
    set_property(GLOBAL PROPERTY HEADROOM_PACKAGES_${name} ${arg_PACKAGES})
endfunction()

# headroom::headroom links the whole stack and brings <headroom/headroom.hpp>. The generated headers belong to the
# lowest library, so that everything above sees them.
function(headroom_umbrella)
    set(generated ${HEADROOM_INCLUDE_ROOTS}/memory/headroom)
    configure_file(${PROJECT_SOURCE_DIR}/cmake/config.hpp.in ${generated}/config.hpp @ONLY)
    configure_file(${PROJECT_SOURCE_DIR}/cmake/version.hpp.in ${generated}/version.hpp @ONLY)
    set(HEADROOM_INCLUDES "#include <headroom/config.hpp>\n#include <headroom/version.hpp>\n")
    foreach(folder memory core core/ops files plan nn optim data dist training)
        file(GLOB headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/${folder}/*.hpp)
        foreach(header IN LISTS headers)
            string(APPEND HEADROOM_INCLUDES "#include <headroom/${header}>\n")
        endforeach()
    endforeach()
    configure_file(${PROJECT_SOURCE_DIR}/cmake/headroom.hpp.in
        ${HEADROOM_INCLUDE_ROOTS}/umbrella/headroom/headroom.hpp @ONLY)

    add_library(headroom INTERFACE)
    add_library(headroom::headroom ALIAS headroom)
    target_include_directories(headroom INTERFACE $<BUILD_INTERFACE:${HEADROOM_INCLUDE_ROOTS}/umbrella>)
    get_property(libraries GLOBAL PROPERTY HEADROOM_LIBRARIES)
    foreach(name IN LISTS libraries)
        target_link_libraries(headroom INTERFACE headroom_${name})
    endforeach()
endfunction()

# What must have the bits of another device, or of another library, may not fuse a multiply with an add.
file(GLOB headroom_exact_sources CONFIGURE_DEPENDS
    ${PROJECT_SOURCE_DIR}/kernels/random/*.cpp ${PROJECT_SOURCE_DIR}/kernels/dropout/*.cpp
    ${PROJECT_SOURCE_DIR}/kernels/step_control/*.cpp ${PROJECT_SOURCE_DIR}/data/image_color.cpp)
set_source_files_properties(${headroom_exact_sources} PROPERTIES COMPILE_OPTIONS -ffp-contract=off
    SKIP_PRECOMPILE_HEADERS ON)
