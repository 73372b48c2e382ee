# Every header of a library compiles on its own. A header that some source of its library includes first is proven by
# that source; for each other one a source is made that includes nothing else. Building it is the test.
function(headroom_header_checks)
    get_property(libraries GLOBAL PROPERTY HEADROOM_LIBRARIES)
    foreach(library IN LISTS libraries)
        file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${library}/*.cpp ${PROJECT_SOURCE_DIR}/${library}/*/*.cpp)
        file(GLOB headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
            ${PROJECT_SOURCE_DIR}/${library}/*.hpp ${PROJECT_SOURCE_DIR}/${library}/*/*.hpp
            ${PROJECT_SOURCE_DIR}/${library}/*/*/*.hpp)
        foreach(source IN LISTS sources)
            file(STRINGS ${source} first REGEX "^#include" LIMIT_COUNT 1)
            string(REGEX REPLACE "^#include <headroom/(.*)>.*" "\\1" first "${first}")
            list(REMOVE_ITEM headers "${first}")
        endforeach()
        set(alone)
        foreach(header IN LISTS headers)
            set(source ${PROJECT_BINARY_DIR}/tests/headers/${header}.cpp)
            file(CONFIGURE OUTPUT ${source} CONTENT "#include <headroom/${header}>\n")
            list(APPEND alone ${source})
        endforeach()
        if(alone)
            add_library(headers_${library} OBJECT ${alone})
            headroom_compile_options(headers_${library})
            target_compile_options(headers_${library} PRIVATE -O0 -Wno-unknown-pragmas)  # nothing to optimise; pragmas of nvcc's
            target_link_libraries(headers_${library} PRIVATE headroom_${library})
            add_dependencies(tests_docs headers_${library})
        endif()
    endforeach()
endfunction()
