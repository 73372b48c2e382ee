// One history on the page: its figures in text, its chart and what is marked in it.

const ENDLESS = 2 ** 50;  // a rehearsal's memory where nothing limits it: Profile::endless

class Panel {
    // `first` is the panel that others are compared with, or null.
    constructor(history, scale, height, first) {
        this.history = history;
        this.moment = history.focus;  // the state that the tables show
        this.canvas = element("canvas", {
            tabindex: 0, role: "application", "aria-roledescription": "chart", style: `height: ${height}px`,
            "aria-label": `${history.title}: live bytes over time; peak ${bytesText(history.peak)}, ` +
                          `reserved ${bytesText(history.peakReserved)}`,
        });
        this.chart = new Chart(this.canvas, history, scale);
        this.root = element("section", {class: "panel"},
            element("div", {}, element("h2", {}, history.title), this.figures(first)), ...this.notes(), this.canvas);
    }

    figures(first) {
        const {history: h} = this, list = element("dl", {class: "figures"});
        const add = (name, bytes, rest, kind = "") => list.append(element("div", {class: kind, title: exactText(bytes)},
            element("dt", {}, name), element("dd", {}, bytesText(bytes), " ", element("small", {}, rest))));
        const saved = first && first.history.peak ? 1 - h.peak / first.history.peak : 0;
        add("Peak of live bytes", h.peak,
            !first ? "" : `${percentText(Math.abs(saved))} ${saved >= 0 ? "below" : "above"} ${first.history.title}`, "main");
        add("Peak reserved", h.peakReserved, h.peak ? `${percentText(h.peakReserved / h.peak - 1)} more` : "");
        if (h.limit && h.limit < ENDLESS) {
            add(h.limitName, h.limit, `${percentText(h.peakReserved / h.limit)} used${this.chart.showsBudget ? "" : ", beyond the chart"}`);
        }
        add("Live at the end", h.allocated, `in ${bytesText(h.reserved)} reserved`);
        let rounding = 0;
        h.eachLive(h.peakState, b => { rounding += h.block.rounding[b]; });
        const requested = h.total[h.peakState] - rounding;
        add("Rounding at the peak", rounding,
            `${percentText(requested ? rounding / requested : 0)} of ${bytesText(requested)} requested`);
        return list;
    }

    notes() {
        const {history: h} = this, notes = [];
        const say = text => notes.push(element("p", {class: "note"}, text));
        if (h.page && h.askedLimit && h.askedLimit !== h.limit) {
            say(`Memory is reserved in whole pages: of the limit of ${bytesText(h.askedLimit)}, ` +
                `${Math.floor(h.limit / h.page).toLocaleString("en")} pages of ${bytesText(h.page)} are the budget.`);
        }
        if (h.count === 0) say("No events were kept: this is how memory stood when the snapshot was taken.");
        else if (!h.peakKept) {
            say(`The peak came before the last ${h.count.toLocaleString("en")} events, which are all that were kept; the ` +
                `highest of them is marked, ${bytesText(h.total[h.peakState])}.`);
        } else if (h.dropped) say(`${h.dropped.toLocaleString("en")} older events were not kept.`);
        return notes;
    }

    // `pointer` is a place on the horizontal axis or null; it is over the panel `hovered`.
    draw(view, colors, alone, pointer, hovered) {
        const {chart, history} = this;
        chart.draw(view, colors, alone);
        for (const failure of history.failures) this.markFailure(view, colors, failure);
        if (this.moment !== history.peakState) this.line(view, this.moment, colors.accent);
        this.markPeak(view, colors);
        if (pointer === null) return;
        this.line(view, null, colors.ink, pointer);
        const column = Math.floor(chart.x(view, pointer)) - chart.left, state = chart.columns.most[column] ?? -1;
        if (hovered !== this && state >= 0 && !chart.blocks) {
            chart.flag(bytesText(history.total[state]), chart.left + column, chart.y(history.total[state]), colors.ink, colors);
        }
    }

    // Its middle, but at most the middle of what is to be seen of it.
    placeOf(view, state) {
        const from = Math.max(view.startOf(this.history, state), view.from);
        const to = Math.min(view.endOf(this.history, state), view.to);
        return this.chart.x(view, from <= to ? (from + to) / 2 : view.startOf(this.history, state));
    }

    inside(x) { return x >= this.chart.left && x <= this.chart.left + this.chart.width; }

    line(view, state, color, at = null) {
        const {context: c, top, height, ratio} = this.chart;
        const x = at === null ? this.placeOf(view, state) : this.chart.x(view, at);
        if (!this.inside(x)) return;
        c.fillStyle = color;
        c.fillRect(Math.round(x), top, Math.ceil(ratio), height);
    }

    markPeak(view, colors) {
        const {history, chart} = this, {context: c, ratio} = chart, state = history.peakState;
        const x = this.placeOf(view, state);
        if (!this.inside(x) || history.total[state] === 0) return;
        if (chart.blocks) return this.line(view, state, colors.ink);
        const y = chart.y(history.total[state]);
        c.beginPath();
        c.arc(x, y, 4 * ratio, 0, 2 * Math.PI);
        c.fillStyle = colors.ink;
        c.strokeStyle = colors.plot;
        c.lineWidth = 1.5 * ratio;
        c.fill();
        c.stroke();
        chart.flag(`peak ${bytesText(history.total[state])}`, x, y, colors.ink, colors);
    }

    markFailure(view, colors, failure) {
        const {chart} = this, {context: c, ratio, top} = chart;
        const x = this.placeOf(view, failure.event + 1);
        if (!this.inside(x)) return;
        c.fillStyle = colors.alert;
        c.fillRect(Math.round(x), top, Math.ceil(ratio), chart.height);
        c.beginPath();
        c.moveTo(x - 6 * ratio, top);
        c.lineTo(x + 6 * ratio, top);
        c.lineTo(x, top + 9 * ratio);
        c.fill();
        chart.flag(`out of memory: ${bytesText(failure.bytes)}`, x, top + 22 * ratio, colors.alert, colors);
    }
}
