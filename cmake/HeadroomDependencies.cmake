# Third-party packages. scripts/setup installs them on Debian and Ubuntu.
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(dnnl REQUIRED CONFIG)
find_package(nlohmann_json REQUIRED)
find_package(ZLIB REQUIRED)
find_package(PNG REQUIRED)
find_package(JPEG REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(utf8proc REQUIRED)
find_path(STB_INCLUDE_DIR stb/stb_easy_font.h REQUIRED DOC "Folder of the stb headers")  # letters for pictures
mark_as_advanced(STB_INCLUDE_DIR)
find_package(OpenMP REQUIRED COMPONENTS CXX)  # oneDNN's threads, which are told to be one

if(HEADROOM_EXAMPLES)
    find_package(CLI11 REQUIRED)
endif()
if(HEADROOM_TESTS)
    find_package(GTest REQUIRED)
endif()
if(HEADROOM_BENCH)
    find_package(benchmark REQUIRED)
endif()
