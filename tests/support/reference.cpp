#include <headroom/tests/support/reference.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <stdexcept>

namespace headroom::test {

namespace {

template <class T>
std::vector<double> convert(const char* data, std::int64_t count) {
    std::vector<double> values;
    for (std::int64_t i = 0; i < count; ++i) {
        T value;
        std::memcpy(&value, data + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
        values.push_back(static_cast<double>(value));
    }
    return values;
}

std::vector<double> decode(const std::string& dtype, const char* data, std::int64_t count) {
    if (dtype == "F64") return convert<double>(data, count);
    if (dtype == "F32") return convert<float>(data, count);
    if (dtype == "I64") return convert<std::int64_t>(data, count);
    if (dtype == "U8") return convert<std::uint8_t>(data, count);
    throw std::runtime_error("reference: dtype " + dtype);
}

/// The text between `open` and `close` from `position` on, which moves behind it; empty at the end.
std::string between(const std::string& text, std::size_t& position, char open, char close) {
    const std::size_t first = text.find(open, position);
    if (first == std::string::npos) return {};
    const std::size_t last = text.find(close, first + 1);
    position = last + 1;
    return text.substr(first + 1, last - first - 1);
}

std::vector<std::int64_t> numbers(const std::string& list) {
    std::vector<std::int64_t> all;
    for (std::size_t i = 0; i < list.size(); i = std::min(list.find(',', i), list.size() - 1) + 1) {
        all.push_back(std::stoll(list.substr(i)));
    }
    return all;
}

}  // namespace

Reference::Reference(const std::string& path) {
    std::ifstream stream(path, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
    std::uint64_t length = 0;
    if (bytes.size() < sizeof(length)) throw std::runtime_error("reference: can't read " + path);
    std::memcpy(&length, bytes.data(), sizeof(length));
    const std::string header = bytes.substr(sizeof(length), length);
    const char* data = bytes.data() + sizeof(length) + length;
    std::size_t position = 0;
    for (std::string key = between(header, position, '"', '"'); !key.empty();
         key = between(header, position, '"', '"')) {
        const std::string entry = between(header, position, '{', '}');
        std::size_t at = entry.find("\"dtype\":") + 8;
        ReferenceTensor& tensor = tensors_[key];
        tensor.dtype = between(entry, at, '"', '"');
        at = entry.find("\"shape\":");
        tensor.shape = kernels::Shape(numbers(between(entry, at, '[', ']')));
        at = entry.find("\"data_offsets\":");
        tensor.values = decode(tensor.dtype, data + numbers(between(entry, at, '[', ']')).at(0), tensor.shape.numel());
    }
}

double error_in_epsilons(const std::vector<double>& got, const std::vector<double>& want, double epsilon) {
    if (got.size() != want.size()) return std::numeric_limits<double>::infinity();
    double scale = 1, worst = 0;
    for (const double value : want) scale = std::max(scale, std::abs(value));
    for (std::size_t i = 0; i < got.size(); ++i) {
        const double error = std::abs(got[i] - want[i]);
        worst = error <= worst ? worst : error;  // NaN counts as the worst
        if (std::isnan(error)) return std::numeric_limits<double>::infinity();
    }
    return worst / (scale * epsilon);
}

}  // namespace headroom::test
