#pragma once
// Runs a family's calls with cuDNN: opens it on first use, records why own kernels compute instead, and uses the plan
// that an earlier run or this one found fastest. `Library` is a family's class around cuDNN.
//
//     CudnnCalls<Cudnn>& calls = stream.state->get<CudnnCalls<Cudnn>>();
//     if (calls.takes(stream, problem)) calls.run(stream, problem, data, scratch);
#include <functional>
#include <memory>
#include <string>

#include <fmt/format.h>

#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/kernels/device/cudnn.hpp>
#include <headroom/kernels/device/internal/cuda_timing.hpp>
#include <headroom/kernels/device/plan_choices.hpp>
#include <headroom/kernels/internal/one_line.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::kernels {

/// A stream's cuDNN, with one handle for all families; if both members are empty, it was not needed so far.
struct OpenedCudnn {
    std::shared_ptr<const CudnnSession> session;
    std::string absence;            ///< why there is no cuDNN
    std::string attention_refusal;  ///< why it has no attention for this GPU

    void open(CudaStream& stream) {
        if (session || !absence.empty()) return;
        CudaDevice& device = *stream.device;
        const auto finish_work = [&device] {
            if (device.capturing()) return false;
            device.synchronize();
            return true;
        };
        try {
            session = open_cudnn({.capability = device.properties().capability(),
                                  .stream = device.native(),
                                  .description = {},
                                  .finish_work = finish_work});
        } catch (const DeviceError& error) {
            absence = error.what();
        }
    }
};

/// Part of a stream's state.
template <class Library>
class CudnnCalls {
  public:
    /// The last refusal of a call by cuDNN.
    std::string refusal;

    /// Opens cuDNN on first use; null if there is none.
    Library* open(CudaStream& stream) {
        stream.device->make_current();
        auto& cudnn = stream.state->get<OpenedCudnn>();
        cudnn.open(stream);
        if (!library_ && cudnn.session) library_ = std::make_unique<Library>(cudnn.session);
        return library_.get();
    }

    template <class Problem>
    bool takes(CudaStream& stream, const Problem& problem) {
        Library* const library = open(stream);
        if (!library) return false;
        const std::string& reason = library->plan(problem).refusal;
        if (!reason.empty()) refusal = reason;
        return reason.empty();
    }

    /// Only for problems that it takes.
    template <class Problem, class Data>
    void run(CudaStream& stream, const Problem& problem, const Data& data, std::byte* scratch) {
        choose(stream, problem, data, scratch);
        if (stream.device->capturing()) library_->choice(problem).captured = true;
        library_->run(problem, data, scratch);
    }

    /// Uses the plan that an earlier run found fastest or, with tuning, the one that this run finds.
    template <class Problem, class Data>
    void choose(CudaStream& stream, const Problem& problem, const Data& data, std::byte* scratch) {
        CudnnChoice& choice = library_->choice(problem);
        const bool tune = stream.compute.tune && !stream.device->capturing();  // trials wait for the device
        if (choice.tuned || (choice.known && !tune)) return;
        const std::string place = fmt::format("{}, {}", stream.device->properties().name, library_->version());
        auto& choices = stream.state->get<PlanChoices<Problem>>();
        const std::string* const earlier = choices.find(problem, place);
        choice.known = true;
        choice.tuned = earlier != nullptr;
        if (earlier) return library_->choose(problem, *earlier);
        if (!tune) return;
        auto& time = stream.state->get<TuningTime>();
        const TuningTrial trial(time);
        const auto in_time = [&] { return trial.left(); };
        const auto timer = std::bind_front(time.timer, std::ref(*stream.device));
        const std::string fastest = in_time() ? library_->choose_fastest(problem, data, scratch, timer, in_time)
                                              : library_->plan(problem).name;  // so that a later run has the same bits
        choice.tuned = true;  // even if no plan was found; after an exception it is tried again
        if (!fastest.empty()) choices.set(problem, place, fastest);
    }

    /// For reports.
    std::string text(CudaStream& stream) {
        if (stream.compute.own_kernels) return "own kernels, as ComputeOptions::own_kernels asks";
        const Library* const library = open(stream);
        if (!library) return one_line(fmt::format("own kernels: {}", stream.state->get<OpenedCudnn>().absence));
        const std::string text = library->version() + stream.state->get<TuningTime>().text();
        if (refusal.empty()) return text;
        return one_line(fmt::format("{}; own kernels at least once: {}", text, refusal));
    }

  private:
    std::unique_ptr<Library> library_;
};

}  // namespace headroom::kernels
