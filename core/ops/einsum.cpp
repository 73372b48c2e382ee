#include <headroom/core/ops/einsum.hpp>

#include <algorithm>
#include <cctype>
#include <string>

#include <fmt/format.h>

#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/checks.hpp>
#include <headroom/core/ops/matmul.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {

namespace {

bool has(const std::string& labels, char label) { return labels.find(label) != std::string::npos; }

[[noreturn]] void refuse(std::string_view equation, const std::string& why) {
    throw Error(fmt::format("einsum: \"{}\": {}", equation, why));
}

/// The letters of an equation, without spaces.
struct Equation {
    std::vector<std::string> in;
    std::string out;

    explicit Equation(std::string_view text) {
        std::string rest;
        std::copy_if(text.begin(), text.end(), std::back_inserter(rest), [](char c) { return c != ' '; });
        const std::size_t arrow = rest.find("->");
        const std::string left = rest.substr(0, arrow);
        for (std::size_t begin = 0; begin <= left.size();) {
            const std::size_t end = std::min(left.find(',', begin), left.size());
            in.push_back(left.substr(begin, end - begin));
            begin = end + 1;
        }
        out = arrow == std::string::npos ? once(left) : rest.substr(arrow + 2);
        for (const std::string& labels : in) check(text, labels);
        check(text, out);
        for (const char label : out) {
            if (!has(left, label))
                refuse(text, fmt::format("the result has the letter {}, which no operand has", label));
        }
    }

  private:
    static std::string once(const std::string& left) {
        std::string result;
        for (const char label : left) {
            if (label != ',' && std::count(left.begin(), left.end(), label) == 1) result += label;
        }
        std::sort(result.begin(), result.end());
        return result;
    }
    static void check(std::string_view text, const std::string& labels) {
        for (const char label : labels) {
            if (!std::isalpha(static_cast<unsigned char>(label))) refuse(text, "axes must be named by letters");
            if (std::count(labels.begin(), labels.end(), label) > 1)
                refuse(text, fmt::format("{} appears twice in {}", label, labels));
        }
    }
};

struct Operand {
    Tensor x;
    std::string labels;

    std::int64_t size(char label) const { return x.size(static_cast<int>(labels.find(label))); }
    /// Axes in another order.
    void arrange(const std::string& wanted) {
        for (std::size_t i = 0; i < wanted.size(); ++i) {
            const std::size_t from = labels.find(wanted[i]);
            x = x.transpose(static_cast<int>(i), static_cast<int>(from));
            std::swap(labels[i], labels[from]);
        }
    }
    /// Sums over the axes that nobody else has.
    void sum_unless(const std::string& needed) {
        for (std::size_t i = labels.size(); i-- > 0;) {
            if (has(needed, labels[i])) continue;
            x = sum(std::move(x), static_cast<int>(i));
            labels.erase(i, 1);
        }
    }
};

/// The letters that `test` holds for.
template <class Test>
std::string select(const std::string& labels, Test&& test) {
    std::string result;
    std::copy_if(labels.begin(), labels.end(), std::back_inserter(result), test);
    return result;
}

/// The product of the axes' sizes.
std::int64_t product_of(const Operand& operand, const std::string& labels) {
    std::int64_t product = 1;
    for (const char label : labels) product *= operand.size(label);
    return product;
}

Operand contract(Operand a, Operand b, const std::string& out) {
    const std::string batch = select(out, [&](char c) { return has(a.labels, c) && has(b.labels, c); });
    const std::string rows = select(a.labels, [&](char c) { return !has(b.labels, c); });
    const std::string columns = select(b.labels, [&](char c) { return !has(a.labels, c); });
    const std::string inner = select(a.labels, [&](char c) { return has(b.labels, c) && !has(out, c); });
    Shape shape;
    for (const char label : batch) shape.push_back(a.size(label));
    for (const char label : rows) shape.push_back(a.size(label));
    for (const char label : columns) shape.push_back(b.size(label));
    const std::int64_t batches = product_of(a, batch), m = product_of(a, rows), n = product_of(b, columns);
    const std::int64_t k = product_of(a, inner);
    a.arrange(batch + rows + inner);
    b.arrange(batch + inner + columns);
    a.x = a.x.reshape({batches, m, k});
    b.x = b.x.reshape({batches, k, n});
    Tensor c = inner.empty() ? a.x * b.x : batches == 1 ? matmul(a.x.select(0, 0), b.x.select(0, 0)) : matmul(a.x, b.x);
    return {c.reshape(shape), batch + rows + columns};
}

Tensor result(std::vector<Operand> in, const std::string& out) {
    if (in.size() == 2) {
        in[0].sum_unless(out + in[1].labels);
        in[1].sum_unless(out + in[0].labels);
        in[0] = contract(std::move(in[0]), std::move(in[1]), out);
    } else {
        in[0].sum_unless(out);
    }
    in[0].arrange(out);
    return std::move(in[0].x);
}

}  // namespace

Tensor einsum(std::string_view equation, std::vector<Tensor> operands) {
    const Equation parsed(equation);
    if (operands.size() != parsed.in.size() || operands.empty() || operands.size() > 2) {
        refuse(equation,
               fmt::format("names {} operands, got {}; one or two are supported", parsed.in.size(), operands.size()));
    }
    std::vector<Operand> in;
    for (std::size_t i = 0; i < operands.size(); ++i) {
        check_defined("einsum", {{"an operand", operands[i]}});
        if (static_cast<std::size_t>(operands[i].rank()) != parsed.in[i].size()) {
            refuse(equation, fmt::format("{} must have one letter for each axis of {}", parsed.in[i],
                                         operands[i].shape().to_string()));
        }
        in.push_back({std::move(operands[i]), parsed.in[i]});
    }
    if (in.size() == 2) {
        for (const char label : in[0].labels) {
            if (!has(in[1].labels, label) || in[0].size(label) == in[1].size(label)) continue;
            throw ShapeError(fmt::format("einsum: \"{}\": the sizes of {} differ, {} and {}", equation, label,
                                         in[0].size(label), in[1].size(label)));
        }
    }
    return as_op("einsum", [&] { return result(std::move(in), parsed.out); });
}

}  // namespace headroom
