// Drawing one history: levels stacked by category, the reserved line, the budget, axes.

// What part of the horizontal axis is shown; the same for all histories. Places on it are those of events or times, less
// what is folded before them.
class View {
    constructor(histories, mode) {
        this.histories = histories;
        this.mode = mode;
        this.shape = "levels";  // or "blocks"
        this.folds = true;      // long stretches are folded
        this.showAll();
    }

    wholeOf(history) {
        if (this.mode === "events") return history.count + 1;
        return history.count > 0 ? Math.max(history.time[history.count - 1] * 1.005, 1) : 1;
    }
    // What may be folded: [[from, to], ...], in events or times.
    stretchesOf(history) {
        history.stretches ??= {};
        return history.stretches[this.mode] ??=
            history.longStretches(event => this.mode === "events" ? event + 1 : history.time[event], this.wholeOf(history));
    }
    foldsOf(history) { return this.folds ? this.stretchesOf(history) : []; }
    // From an event or a time to its place on the axis, and back.
    placeOf(history, at) {
        let place = at;
        for (const [from, to] of this.foldsOf(history)) if (at > from) place -= Math.min(at, to) - from;
        return place;
    }
    unfold(history, place) {
        let at = place;
        for (const [from, to] of this.foldsOf(history)) if (at > from) at += to - from;
        return at;
    }
    extentOf(history) { return this.placeOf(history, this.wholeOf(history)); }
    get extent() { return Math.max(1, ...this.histories.map(h => this.extentOf(h))); }
    get span() { return this.to - this.from; }
    get whole() { return this.from <= 0 && this.to >= this.extent; }

    showAll() {
        this.from = 0;
        this.to = this.extent;
    }
    move(by) {
        const shift = Math.min(Math.max(by, -this.from), this.extent - this.to);
        this.from += shift;
        this.to += shift;
    }
    // Around a point that stays where it is.
    zoom(factor, around) {
        const least = Math.min(this.mode === "events" ? 4 : 200, this.extent);
        const span = Math.min(Math.max(this.span * factor, least), this.extent);
        const share = (around - this.from) / this.span;
        this.from = around - share * span;
        this.to = this.from + span;
        this.move(0);
    }

    // The steps in which the histories have their peaks, with some room beside them.
    showPeaks() {
        const ends = this.histories.flatMap(history => history.stepAround(history.focus).map(s => this.startOf(history, s)));
        const from = Math.min(...ends), to = Math.max(...ends), room = 0.04 * (to - from);
        this.from = 0;
        this.to = this.extent;
        this.zoom((to - from + 2 * room) / this.span, 0);
        this.move(from - room);
    }

    startOf(history, state) { return this.placeOf(history, this.mode === "events" ? state : history.timeOf(state)); }
    endOf(history, state) {
        if (this.mode === "events") return this.placeOf(history, state + 1);
        return state < history.count ? this.placeOf(history, history.time[state]) : this.extentOf(history);
    }
    stateAt(history, x) {
        const at = this.unfold(history, x);
        if (this.mode === "time") return history.stateAt(at);
        return Math.min(Math.max(Math.floor(at), 0), history.count);
    }
}

// For each of `width` columns the states with the most and the fewest live bytes; -1 after the end.
function columnsOf(history, view, width) {
    const most = new Int32Array(width).fill(-1), fewest = new Int32Array(width).fill(-1);
    const {total} = history, end = view.extentOf(history), perColumn = view.span / width;
    let state = view.stateAt(history, view.from);
    for (let x = 0; x < width && view.from + x * perColumn <= end; ++x) {
        const to = view.from + (x + 1) * perColumn;
        let high = state, low = state;
        while (state < history.count && view.startOf(history, state + 1) < to) {
            ++state;
            if (total[state] > total[high]) high = state;
            if (total[state] < total[low]) low = state;
        }
        most[x] = high;
        fewest[x] = low;
    }
    return {most, fewest};
}

class Chart extends Plot {
    constructor(canvas, history, scale) {
        super(canvas, {left: 74, right: 10, top: 20, bottom: 24});
        Object.assign(this, {history, scale});
    }

    y(bytes) { return this.top + Math.round(this.height * (1 - bytes / this.bytes)); }
    get blocks() { return this.shape === "blocks"; }
    // What the vertical axis reaches up to.
    get bytes() { return this.blocks ? Math.max(this.history.layout.bytes * 1.02, 1) : this.scale.bytes; }
    x(view, at) { return this.left + this.width * (at - view.from) / view.span; }
    // The column below a place on the page, and what it shows.
    columnAt(clientX) {
        const x = Math.floor((clientX - this.canvas.getBoundingClientRect().left) * this.ratio) - this.left;
        return Math.min(Math.max(x, 0), this.width - 1);
    }
    positionOf(view, column) { return view.from + (column + 0.5) * view.span / this.width; }

    draw(view, colors, alone) {
        const {context: c} = this;
        this.shape = view.shape;
        this.columns = columnsOf(this.history, view, this.width);
        this.clear(colors);
        this.drawEnded(view, colors);
        this.drawRows(this.bytes, roundBytesText, colors);
        c.save();
        c.beginPath();
        c.rect(this.left, this.top, this.width, this.height);
        c.clip();
        if (this.blocks) {
            this.drawBlocks(view, colors, alone);
        } else {
            // What is reached within a column is faint, what holds throughout it is solid.
            this.drawStack(this.columns.most, colors, alone, 0.5);
            this.drawStack(this.columns.fewest, colors, alone, 1);
            this.drawReserved(colors);
        }
        c.restore();
        this.drawBudget(colors);
        this.drawSteps(view, colors);
        this.drawFolds(view, colors);
        this.drawBottom(view, colors);
    }

    // From left to right its life, from bottom to top its addresses: [left, top, width, height].
    rectangleOf(view, b) {
        const {history} = this, {block} = history, low = history.offsetOf(block.place[b]);
        const from = this.x(view, view.startOf(history, block.begin[b] + 1));
        const to = block.end[b] < history.count ? view.startOf(history, block.end[b] + 1) : view.extentOf(history);
        const top = this.y(low + block.bytes[b]);
        return [from, top, Math.max(this.x(view, to) - from, 0.5), Math.max(this.y(low) - top, 0.5)];
    }

    drawBlocks(view, colors, alone) {
        const {context: c, history} = this, {block} = history;
        c.strokeStyle = colors.plot;
        c.lineWidth = Math.max(1, this.ratio / 2);
        for (let b = 0; b < block.count; ++b) {
            const [x, y, width, height] = this.rectangleOf(view, b);
            if (x > this.left + this.width || x + width < this.left) continue;
            c.globalAlpha = alone === null || alone === block.category[b] ? 1 : 0.15;
            c.fillStyle = colors.category[block.category[b]];
            c.fillRect(x, y, width, height);
            if (width > 3 * this.ratio && height > 3 * this.ratio) c.strokeRect(x, y, width, height);
        }
        c.globalAlpha = 1;
    }

    // The block below a place on the page; -1 if there is none.
    blockAt(view, clientX, clientY) {
        const box = this.canvas.getBoundingClientRect();
        const x = (clientX - box.left) * this.ratio, y = (clientY - box.top) * this.ratio;
        for (let b = this.history.block.count - 1; b >= 0; --b) {
            const [left, top, width, height] = this.rectangleOf(view, b);
            if (x >= left && x < left + width && y >= top && y < top + height) return b;
        }
        return -1;
    }

    drawEnded(view, colors) {
        const end = this.x(view, view.extentOf(this.history));
        if (end >= this.left + this.width) return;
        this.context.fillStyle = colors.ended;
        this.context.fillRect(Math.max(end, this.left), this.top, this.width, this.height);
        this.context.clearRect(this.left + this.width, this.top, this.canvas.width, this.height);
    }

    drawStack(states, colors, alone, opacity) {
        const {context: c, history} = this, base = new Float64Array(this.width);
        for (const category of history.stack) {
            const live = history.live[category];
            c.beginPath();
            for (let x = 0; x < this.width && states[x] >= 0;) {
                let end = x + 1;
                const bytes = live[states[x]], from = base[x];
                while (end < this.width && states[end] >= 0 && live[states[end]] === bytes && base[end] === from) ++end;
                if (bytes > 0) {
                    const low = this.y(from), high = this.y(from + bytes);
                    c.rect(this.left + x, high, end - x, low - high);
                    base.fill(from + bytes, x, end);
                }
                x = end;
            }
            c.globalAlpha = opacity * (alone === null || alone === category ? 1 : 0.15);
            c.fillStyle = colors.category[category];
            c.fill();
        }
        c.globalAlpha = 1;
    }

    drawReserved(colors) {
        const {history} = this, {most} = this.columns, points = [];
        for (let x = 0; x < this.width && most[x] >= 0; ++x) {
            const y = this.y(history.mapped[most[x]]) + this.crisp;
            points.push([this.left + x, y], [this.left + x + 1, y]);
        }
        this.drawLine(points, colors.reserved);
    }

    get showsBudget() { return !this.blocks && this.history.limit > 0 && this.history.limit <= this.scale.bytes; }

    drawBudget(colors) {
        const {ratio} = this, {limit} = this.history;
        if (!this.showsBudget) return;
        const y = this.y(limit);
        this.drawLine([this.left, this.left + this.width].map(x => [x, y + this.crisp]), colors.alert, [6, 4]);
        this.label(`${this.history.limitName.toLowerCase()} ${bytesText(limit)}`, this.left + 6 * ratio, y - 5 * ratio, colors.alert, colors);
    }

    drawBottom(view, colors) {
        const step = roundStep(view.span / (this.width / (110 * this.ratio)));
        for (let at = Math.ceil(view.from / step) * step; at <= view.to; at += step) {
            const real = view.unfold(this.history, at);
            const text = view.mode === "time" ? markText(real, step, Math.max(real, view.to)) : Math.round(real).toLocaleString("en");
            this.mark(this.x(view, at), view.mode === "events" && at + step > view.to ? `${text} events` : text, colors);
        }
    }

    // Where a stretch is left out, and how much it is.
    drawFolds(view, colors) {
        const {ratio, history} = this;
        for (const [from, to] of view.foldsOf(history)) {
            const x = this.x(view, view.placeOf(history, from));
            if (x < this.left || x > this.left + this.width) continue;
            this.drawLine([this.top, this.top + this.height].map(y => [Math.round(x) + this.crisp, y]), colors.ink, [2, 3]);
            const much = view.mode === "time" ? timeText(to - from) : `${Math.round(to - from).toLocaleString("en")} events`;
            this.flag(`${much} folded`, x, this.top + this.height - 16 * ratio, colors.quiet, colors);
        }
    }

    // Numbers above the first event of each step, round ones where there is no room for all.
    drawSteps(view, colors) {
        const {context: c, ratio, history} = this, {steps} = history, seen = [];
        for (let i = 0; i < steps.length; i += 2) {
            const x = this.x(view, view.placeOf(history, view.mode === "time" ? history.time[steps[i]] : steps[i] + 0.5));
            if (x >= this.left - 1 && x <= this.left + this.width) seen.push({x, step: steps[i + 1]});
        }
        if (seen.length === 0) return;
        const gaps = seen.slice(1).map(({x}, i) => x - seen[i].x).sort((a, b) => a - b);
        const needed = 62 * ratio, apart = gaps[gaps.length >> 1] ?? needed;  // the usual step decides
        const stride = apart >= needed ? 1 : roundStep(needed / Math.max(apart, 1e-6));
        let room = -Infinity;
        // Before the first step lies what is set up, which is often short.
        if (seen.length > 1 && seen[0].step === 0 && seen[1].x - seen[0].x < needed) seen.shift();
        const round = seen.filter(({step}) => step % stride === 0);
        for (const {x, step} of round.length > 0 ? round : seen) {
            if (x < room) continue;
            room = x + needed;
            this.plain(stepText(step), x + 4 * ratio, this.top - 8 * ratio, colors, "left");
            c.fillStyle = colors.quiet;
            c.globalAlpha = 0.35;
            c.fillRect(Math.round(x), this.top - 14 * ratio, Math.ceil(ratio), this.height + 14 * ratio);
            c.globalAlpha = 1;
        }
    }
}
