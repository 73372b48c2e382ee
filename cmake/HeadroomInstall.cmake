# Headers, libraries and the CMake package, so that find_package(headroom) works from an install prefix. A library is a
# component of the package, with targets in a file of its own.
include(CMakePackageConfigHelpers)
set(headroom_package ${CMAKE_INSTALL_LIBDIR}/cmake/headroom)

get_property(libraries GLOBAL PROPERTY HEADROOM_LIBRARIES)
set(components ${libraries})
if(TARGET headroom_examples)
    list(APPEND components examples)
    set(built_examples OPTIONAL)  # as the programs
    install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples/compare ${PROJECT_SOURCE_DIR}/examples/models
            DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/headroom/examples FILES_MATCHING PATTERN "*.hpp")
endif()
set(HEADROOM_COMPONENTS "set(headroom_COMPONENTS ${components})\n")
foreach(name IN LISTS components)
    foreach(list USES PACKAGES)
        get_property(value GLOBAL PROPERTY HEADROOM_${list}_${name})
        string(APPEND HEADROOM_COMPONENTS "set(headroom_${name}_${list} ${value})\n")
    endforeach()
    install(TARGETS headroom_${name} EXPORT headroom-${name} ${built_${name}})
    install(EXPORT headroom-${name} NAMESPACE headroom:: FILE headroom-${name}.cmake DESTINATION ${headroom_package})
endforeach()
foreach(name IN LISTS libraries)
    install(DIRECTORY ${PROJECT_SOURCE_DIR}/${name} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/headroom FILES_MATCHING PATTERN "*.hpp"
            PATTERN "*.cuh")
endforeach()
install(TARGETS headroom EXPORT headroom)
install(FILES ${HEADROOM_INCLUDE_ROOTS}/umbrella/headroom/headroom.hpp ${HEADROOM_INCLUDE_ROOTS}/memory/headroom/config.hpp
              ${HEADROOM_INCLUDE_ROOTS}/memory/headroom/version.hpp
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/headroom)

install(EXPORT headroom NAMESPACE headroom:: FILE headroom-all.cmake DESTINATION ${headroom_package})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/headroom-config.cmake.in
    ${PROJECT_BINARY_DIR}/headroom-config.cmake INSTALL_DESTINATION ${headroom_package} PATH_VARS CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/headroom-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/headroom-config.cmake ${PROJECT_BINARY_DIR}/headroom-config-version.cmake
              ${PROJECT_SOURCE_DIR}/cmake/HeadroomCudaLanguage.cmake ${PROJECT_SOURCE_DIR}/cmake/Findutf8proc.cmake
        DESTINATION ${headroom_package})
