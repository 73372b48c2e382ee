# headroom_embed_page(<target> <page> <header> <function>): makes an HTML page, with the files that it includes, part of
# a target. The header declares the function, whose name is a qualified one; see embed_page.cmake.
function(headroom_embed_page target page header function)
    set(script ${PROJECT_SOURCE_DIR}/cmake/embed_page.cmake)
    set(source ${PROJECT_BINARY_DIR}/generated/${page}.cpp)
    cmake_path(GET page PARENT_PATH folder)
    file(GLOB parts CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/* ${PROJECT_SOURCE_DIR}/memory/history/page/*)
    add_custom_command(OUTPUT ${source}
        COMMAND ${CMAKE_COMMAND} -D PAGE=${page} -D HEADER=${header} -D FUNCTION=${function} -D OUTPUT=${source}
            -P ${script}
        DEPENDS ${parts} ${script} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} VERBATIM)
    target_sources(${target} PRIVATE ${source})
endfunction()
