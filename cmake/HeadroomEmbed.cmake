# headroom_embed_page(<library> <page> <header> <function>): makes an HTML page, with the files beside it that it
# includes, part of headroom_<library>. The header declares the function; see embed_page.cmake.
function(headroom_embed_page library page header function)
    set(script ${PROJECT_SOURCE_DIR}/cmake/embed_page.cmake)
    set(page ${PROJECT_SOURCE_DIR}/${library}/${page})
    set(source ${PROJECT_BINARY_DIR}/generated/${library}/${function}.cpp)
    cmake_path(GET page PARENT_PATH folder)
    file(GLOB parts CONFIGURE_DEPENDS ${folder}/*.html ${folder}/*.css ${folder}/*.js)
    add_custom_command(OUTPUT ${source}
        COMMAND ${CMAKE_COMMAND} -D PAGE=${page} -D HEADER=${header} -D FUNCTION=${function} -D OUTPUT=${source} -P ${script}
        DEPENDS ${parts} ${script} VERBATIM)
    target_sources(headroom_${library} PRIVATE ${source})
endfunction()
