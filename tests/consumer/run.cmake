# Installs the build in BUILD to a fresh prefix below WORK, builds the project beside this file against it, runs its
# programs; then does the same with the program in README.md, and with one that takes the allocator alone. Where the
# examples were built, two of the programs compare models of their own.
# cmake -D BUILD=... -D WORK=... -D CXX=... -D BUILD_TYPE=... -D VERSION=... -P run.cmake
function(run)
    execute_process(COMMAND ${ARGV} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
    if(NOT status EQUAL 0)
        list(JOIN ARGV " " command)
        message(NOTICE "${output}")
        message(FATAL_ERROR "failed: ${command}")
    endif()
    set(output "${output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
file(GLOB_RECURSE links LIST_DIRECTORIES true ${WORK}/prefix/include/*)
foreach(path IN LISTS links)
    if(IS_SYMLINK ${path})
        message(FATAL_ERROR "${path} is a link into the source tree")
    endif()
endforeach()

# The programs that were built, and what they send users to.
file(GLOB programs ${BUILD}/examples/train_*)
if(programs)
    list(APPEND programs ${CMAKE_CURRENT_LIST_DIR}/../../scripts/convert_pth)
endif()
foreach(program IN LISTS programs)
    cmake_path(GET program FILENAME name)
    run(${WORK}/prefix/bin/${name} --help)
endforeach()

# The first C++ block of README.md.
file(READ ${CMAKE_CURRENT_LIST_DIR}/../../README.md readme)
string(FIND "${readme}" "```cpp\n" start)
math(EXPR start "${start} + 7")
string(SUBSTRING "${readme}" ${start} -1 readme)
string(FIND "${readme}" "```" end)
string(SUBSTRING "${readme}" 0 ${end} readme)
file(WRITE ${WORK}/readme.cpp "${readme}")

run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR} -B ${WORK}/build -G Ninja -DCMAKE_PREFIX_PATH=${WORK}/prefix
    -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_BUILD_TYPE=${BUILD_TYPE}
    -DREADME_PROGRAM=${WORK}/readme.cpp)
run(${CMAKE_COMMAND} --build ${WORK}/build)
run(${WORK}/build/consumer)
message(STATUS "${output}")
string(FIND "${output}" "headroom ${VERSION}" found)
if(found LESS 0)
    message(FATAL_ERROR "the consumer does not report version ${VERSION}")
endif()

run(${CMAKE_COMMAND} -E chdir ${WORK} ${WORK}/build/trainer)
message(STATUS "${output}")
find_program(MPIRUN mpirun)
file(GLOB_RECURSE plugin ${WORK}/prefix/*/libheadroom_mpi.so)
if(MPIRUN AND plugin)  # which leaves memory behind that it does not give back
    run(${CMAKE_COMMAND} -E chdir ${WORK} ${CMAKE_COMMAND} -E env HEADROOM_MPI=${plugin}
        ASAN_OPTIONS=$ENV{ASAN_OPTIONS}:detect_leaks=0
        ${MPIRUN} --allow-run-as-root --oversubscribe --bind-to none -np 2 ${WORK}/build/trainer together)
    message(STATUS "${output}")
endif()

run(${WORK}/build/readme ${CMAKE_CURRENT_LIST_DIR}/../../LICENSE)
message(STATUS "${output}")
string(REGEX MATCH "step 100: loss ([0-9.]+)" found "${output}")
if(NOT found OR NOT CMAKE_MATCH_1 LESS 4.0)  # it begins at log(256), 5.5
    message(FATAL_ERROR "the program in README.md does not learn")
endif()
string(REGEX MATCH "predicted peak: ([0-9]+) bytes.*measured peak: ([0-9]+) bytes" found "${output}")
if(NOT found OR NOT CMAKE_MATCH_1 EQUAL CMAKE_MATCH_2)
    message(FATAL_ERROR "the program in README.md does not take the memory that it predicts")
endif()

# memory_speed and what_fits for models of the project's own: what is measured is what was predicted, and files name them.
function(expect_equal what value expected)
    if(NOT value STREQUAL expected)
        message(FATAL_ERROR "${what} is \"${value}\", not \"${expected}\"")
    endif()
endfunction()
if(EXISTS ${BUILD}/libheadroom_examples.a)
    foreach(model network rotation)
        set(file ${WORK}/${model})
        run(${WORK}/build/speed --model ${model} --effective-batch 8 --threads 1 --steps 2 --rounds 1 --budgets 2
            --json ${file}.json --html ${file}.html --memory-history ${file}_history.html)
        message(STATUS "${output}")
        file(READ ${file}.html page)
        string(FIND "${page}" "\"model\":\"${model}\"" found)
        if(found LESS 0)
            message(FATAL_ERROR "the page of ${model} does not name it")
        endif()
        file(READ ${file}.json json)
        string(JSON name GET "${json}" model)
        expect_equal("the model of ${file}.json" "${name}" ${model})
        string(JSON rows LENGTH "${json}" rows)
        if(rows LESS 7)
            message(FATAL_ERROR "${model} was trained in ${rows} ways alone")
        endif()
        math(EXPR last "${rows} - 1")
        foreach(row RANGE ${last})
            string(JSON technique GET "${json}" rows ${row} technique)
            foreach(bytes peak_bytes_allocated peak_bytes_reserved)
                string(JSON measured GET "${json}" rows ${row} ${bytes})
                string(JSON predicted GET "${json}" rows ${row} ${bytes}_predicted)
                expect_equal("${bytes} of ${model}, ${technique}," "${measured}" "${predicted}")
            endforeach()
            string(JSON same GET "${json}" rows ${row} same_bits)
            expect_equal("same_bits of ${model}, ${technique}," "${same}" ON)
        endforeach()
    endforeach()
    run(${WORK}/build/fits --model all --batch 1000 --gpu-memory 1GB,8GB --json ${WORK}/fits.json)
    message(STATUS "${output}")
    file(READ ${WORK}/fits.json json)
    string(JSON rows LENGTH "${json}" rows)
    expect_equal("the number of methods on GPUs" ${rows} 12)  # none, cheap, blocks and plan; none and plan
    foreach(row RANGE 11)
        set(model network)
        if(row GREATER 7)
            set(model rotation)
        endif()
        string(JSON name GET "${json}" rows ${row} model)
        expect_equal("the model of row ${row}" ${name} ${model})
    endforeach()
    execute_process(COMMAND ${WORK}/build/fits --model unet RESULT_VARIABLE status ERROR_VARIABLE output)
    expect_equal("the exit code for a model that is not there" ${status} 2)
    expect_equal("what is said of it" "${output}"
        "fits: --model: unet not in {all,network,rotation} (--help lists the options)\n")
elseif(EXISTS ${BUILD}/examples/memory_speed AND EXISTS ${BUILD}/examples/what_fits)
    message(FATAL_ERROR "the programs were built, and headroom_examples was not")
endif()

# The allocator alone, where the packages that other components need can't be found.
set(missing dnnl OpenMP nlohmann_json OpenSSL ZLIB PNG JPEG utf8proc)
list(TRANSFORM missing PREPEND -DCMAKE_DISABLE_FIND_PACKAGE_)
list(TRANSFORM missing APPEND =ON)
set(components ${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR}/components -B ${WORK}/components -G Ninja
    -DCMAKE_PREFIX_PATH=${WORK}/prefix -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_BUILD_TYPE=${BUILD_TYPE} ${missing})
run(${components} -DCOMPONENTS=memory -DOPTIONAL=data)
string(FIND "${output}" "memory found: \"TRUE\"\n-- data found: \"\"" found)
if(found LESS 0)
    message(FATAL_ERROR "optional components are not reported right:\n${output}")
endif()
run(${CMAKE_COMMAND} --build ${WORK}/components)
run(${WORK}/components/memory_only)
message(STATUS "${output}")

# Configures with components that are refused, for this reason.
function(expect_refused names reason)
    execute_process(COMMAND ${components} "-DCOMPONENTS=${names}" RESULT_VARIABLE status OUTPUT_VARIABLE output
        ERROR_VARIABLE output)
    string(REGEX REPLACE "[ \n]+" " " output "${output}")  # CMake breaks lines
    string(FIND "${output}" "${reason}" found)
    if(status EQUAL 0 OR found LESS 0)
        message(FATAL_ERROR "COMPONENTS ${names} is not refused with \"${reason}\":\n${output}")
    endif()
endfunction()
expect_refused("memory;memry"
    "there is no component \"memry\"; there are memory, kernels, core, files, plan, nn, optim, data, dist, training")
expect_refused(optim "component optim needs the package dnnl, which was not found")

# Where the examples were not built, the package is without them.
file(GLOB_RECURSE archive ${WORK}/prefix/*/libheadroom_examples.a)
if(archive)
    file(REMOVE ${archive})
    expect_refused(examples "there is no component \"examples\"; there are memory, kernels, core, files, plan, nn, optim, data, dist, training")
    run(${components} -DCOMPONENTS=memory)
endif()
