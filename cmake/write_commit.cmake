# Writes the header that says which commit the sources are of, if it says another one: for files of results.
#   cmake -DSOURCE=... -DHEADER=... -P write_commit.cmake
execute_process(COMMAND git describe --always --dirty --abbrev=8 --exclude=* WORKING_DIRECTORY ${SOURCE}
                OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
file(CONFIGURE OUTPUT ${HEADER} @ONLY CONTENT [[
#pragma once
namespace headroom::cli {
/// Empty if the sources came without their history; "-dirty" behind it: with changes.
inline constexpr const char* kCommit = "@commit@";
}  // namespace headroom::cli
]])
