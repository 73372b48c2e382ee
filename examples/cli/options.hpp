#pragma once
// Flags of the types that programs have, and the ranges that the parser checks: what is outside is wrong usage. CLI11's
// templates are compiled here alone, which takes longer than all else in a program.
//
//     add_option(app, "--batch", batch, "images in a step")->check(whole(1, 1 << 20));
//     add_option(app, "--lr", rate, "learning rate")->check(real(0, 1e30));
//     add_option(app, "--dtype", dtype, "of products")->check(one_of({"f32", "bf16"}));
#include <cstdint>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace headroom::cli {

/// As CLI::App::add_option and add_flag.
CLI::Option* add_option(CLI::App& app, const std::string& name, std::string& value, const std::string& what);
CLI::Option* add_option(CLI::App& app, const std::string& name, std::int64_t& value, const std::string& what);
CLI::Option* add_option(CLI::App& app, const std::string& name, std::uint64_t& value, const std::string& what);
CLI::Option* add_option(CLI::App& app, const std::string& name, int& value, const std::string& what);
CLI::Option* add_option(CLI::App& app, const std::string& name, double& value, const std::string& what);
CLI::Option* add_option(CLI::App& app, const std::string& name, std::vector<std::string>& value,
                        const std::string& what);
CLI::Option* add_flag(CLI::App& app, const std::string& name, bool& value, const std::string& what);

/// The name that a flag had in an earlier release: wrong usage, which says the name of today. Help leaves it out.
void refuse_old(CLI::App& app, const std::string& old, const std::string& name);

CLI::Validator whole(std::int64_t least, std::int64_t most);
CLI::Validator real(double least, double most);
/// Any number that 64 bits hold; CLI11 lets negative and larger ones wrap around.
CLI::Validator natural();
CLI::Validator one_of(const std::vector<std::string>& names);

}  // namespace headroom::cli
