# HEADROOM_GPU: the compute capability of the first GPU here, such as 86, or empty; looked for once in a build folder. Asks
# nvidia-smi, which comes with the driver.
if(NOT DEFINED HEADROOM_GPU)
    execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader OUTPUT_VARIABLE headroom_gpu ERROR_QUIET)
    string(REGEX MATCH "^([0-9]+)\\.([0-9]+)" headroom_gpu "${headroom_gpu}")
    set(HEADROOM_GPU "${CMAKE_MATCH_1}${CMAKE_MATCH_2}" CACHE STRING "Compute capability of the GPU that was here first, such as 86")
    mark_as_advanced(HEADROOM_GPU)
endif()
