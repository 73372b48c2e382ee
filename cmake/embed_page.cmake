# Makes an HTML page part of a library: writes a source that defines FUNCTION(), the page's parts in their order. In the
# page, a line "@include FILE@" stands for a file beside it, or for one of another folder if it says which, and "@data@"
# is a part of its own. Folders are those of the working directory.
# cmake -D PAGE=memory/.../report.html -D HEADER=headroom/... -D FUNCTION=headroom::memory::report_page
#     -D OUTPUT=page.cpp -P embed_page.cmake
cmake_minimum_required(VERSION 3.24)
cmake_path(GET PAGE PARENT_PATH folder)
file(READ ${PAGE} rest)

set(parts "")
function(add_part text)
    if(NOT text STREQUAL "")
        set(parts "${parts}    R\"page(${text})page\",\n" PARENT_SCOPE)
    endif()
endfunction()

# One literal per file, because compilers need to take no longer ones than 65,536 characters.
while(TRUE)
    string(REGEX MATCH "@(include [a-z_./]+|data)@" mark "${rest}")
    if(mark STREQUAL "")
        break()
    endif()
    string(FIND "${rest}" "${mark}" at)
    string(SUBSTRING "${rest}" 0 ${at} before)
    string(LENGTH "${mark}" length)
    math(EXPR at "${at} + ${length}")
    string(SUBSTRING "${rest}" ${at} -1 rest)
    add_part("${before}")
    if(mark STREQUAL "@data@")
        add_part("@data@")
    else()
        string(REGEX REPLACE "@include (.*)@" "\\1" name "${mark}")
        if(NOT name MATCHES "/")
            set(name ${folder}/${name})
        endif()
        file(READ ${name} contents)
        add_part("${contents}")
    endif()
endwhile()
add_part("${rest}")

file(WRITE ${OUTPUT} "#include <${HEADER}>

namespace {

// clang-format off
constexpr std::string_view kParts[] = {
${parts}};

}  // namespace

std::span<const std::string_view> ${FUNCTION}() { return kParts; }
")
