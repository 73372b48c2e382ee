#pragma once
// The BERT whose weights, outputs and gradients tests/reference has from transformers.
#include <string>

#include <headroom/nn/bert.hpp>
#include <headroom/tests/support/source_path.hpp>

namespace headroom::nn {

inline constexpr BertOptions kReferenceBert{.vocabulary = 13,
                                            .block = 9,
                                            .layers = 2,
                                            .heads = 2,
                                            .width = 8,
                                            .hidden = 12,
                                            .dropout = 0,
                                            .attention_dropout = 0};

inline std::string reference_bert_file() { return test::source_path("tests/reference/bert_initial.safetensors"); }

}  // namespace headroom::nn
