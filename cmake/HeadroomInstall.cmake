# Headers, libraries and the CMake package, so that find_package(headroom) works from an install prefix.
include(CMakePackageConfigHelpers)
set(headroom_package ${CMAKE_INSTALL_LIBDIR}/cmake/headroom)

get_property(libraries GLOBAL PROPERTY HEADROOM_LIBRARIES)
set(targets headroom)
foreach(name IN LISTS libraries)
    list(APPEND targets headroom_${name})
    install(DIRECTORY ${PROJECT_SOURCE_DIR}/headroom/${name} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/headroom
            FILES_MATCHING PATTERN "*.hpp" PATTERN "*.cuh"
            PATTERN internal EXCLUDE PATTERN memory/allocator EXCLUDE PATTERN memory/driver EXCLUDE)
endforeach()
install(TARGETS ${targets} EXPORT headroom)
install(FILES ${HEADROOM_INCLUDE_ROOTS}/umbrella/headroom/headroom.hpp ${HEADROOM_INCLUDE_ROOTS}/memory/headroom/config.hpp
              ${HEADROOM_INCLUDE_ROOTS}/memory/headroom/version.hpp
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/headroom)

install(EXPORT headroom NAMESPACE headroom:: FILE headroom-targets.cmake DESTINATION ${headroom_package})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/headroom-config.cmake.in
    ${PROJECT_BINARY_DIR}/headroom-config.cmake INSTALL_DESTINATION ${headroom_package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/headroom-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/headroom-config.cmake ${PROJECT_BINARY_DIR}/headroom-config-version.cmake
              ${PROJECT_SOURCE_DIR}/cmake/HeadroomCudaLanguage.cmake
        DESTINATION ${headroom_package})
