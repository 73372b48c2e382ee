// Puts the page together. Once it is drawn, the root element says so in data-status, and what is drawn in data-figures:
// for tests, and for other programs that read the page.

const COLORS = 12;  // of techniques

class Page {
    constructor(data) {
        this.comparison = new Comparison(data);
        this.columns = columnsOf(this.comparison);
        this.sort = {key: Math.max(0, this.columns.findIndex(({name}) => name === "Peak reserved")), down: false};
        this.alone = null;    // the technique that is looked at, if one is
        this.hovered = null;  // the point below the pointer, or that the keys are at
        this.pinned = null;   // the row that is marked in the table
        this.canvas = byId("plot");
        this.scatter = new Scatter(this.canvas, this.comparison);
        const lines = linesOf(data.larger);
        if (lines.length > 0) this.sayLarger(lines);
        this.say();
        this.listen();
        this.restyle();
        this.table();
        document.documentElement.dataset.figures = JSON.stringify(this.figures());
        document.documentElement.dataset.status = "drawn";
    }

    get seen() {
        return this.comparison.points.filter(({data}) => this.alone === null || data.technique === this.alone);
    }

    // What is compared, and how it comes out.
    say() {
        const {data, points, theirs} = this.comparison, {threads, ...names} = data.machine;
        document.title = `${data.model}: memory against speed`;
        this.canvas.setAttribute("aria-label", `${points.length} points of memory and ${data.samples} per second`);
        const about = [
            ["Model", data.model],
            ["Inputs", data.inputs],
            ["In a step", `${data.effective_batch} ${data.samples}`],
            ["Machine", [...Object.values(names), threads && `${threads} thread${threads === 1 ? "" : "s"}`]
                .filter(name => name).join(", ")],
            ["Version", `Headroom ${data.version}${data.commit ? ` (${data.commit})` : ""}, ${data.date}`],
            ["Command", element("code", {}, data.command)],
        ];
        byId("about").append(...about.map(([name, what]) =>
            element("div", {}, element("dt", {}, name), element("dd", {}, what))));
        byId("within").textContent = withinText(this.comparison);
        if (theirs.length === 0) return;
        const count = theirs.filter(point => !point.covered).length;
        byId("covered").textContent =
            `Points of PyTorch with no point of Headroom as small and as fast: ${count} of ${theirs.length}`;
    }

    sayLarger(lines) {
        const canvas = byId("growth");
        byId("larger").hidden = false;
        canvas.setAttribute("aria-label", "Memory over the batch, as in the table below");
        this.growth = new Growth(canvas, lines);
        byId("growth-table").append(largerTable(lines, this.comparison.data.samples));
    }

    restyle() {
        const techniques = this.comparison.techniques.map((_, i) => `technique-${i % COLORS}`);
        this.colors = readColors(["plot", "ink", "quiet", "rule", "grid", "alert", "accent", ...techniques]);
        this.colors.technique = techniques.map(name => this.colors[name]);
        this.scatter.resize();
        this.legend();
        this.draw();
        this.growth?.resize();
        this.growth?.draw(this.colors);
    }

    legend() {
        const {techniques, frameworks, points} = this.comparison;
        const buttons = techniques.map((technique, i) => element("button", {
            type: "button", "aria-pressed": `${technique === this.alone}`,
            onclick: () => {
                this.alone = technique === this.alone ? null : technique;
                this.legend();
                this.draw();
            },
        }, element("span", {class: "swatch", style: `background: ${this.colors.technique[i]}`}), technique));
        const kind = (shape, text, content = "") =>
            element("span", {class: "line"}, element("span", {class: shape}, content), text);
        const kinds = [
            ...frameworks.map(framework => kind(`dot ${framework}`, FRAMEWORKS[framework] ?? framework)),
            kind("stroke", "front: none is smaller and faster"),
            ...points.some(point => point.predicted) ? [kind("dot hollow", "predicted")] : [],
            ...points.some(point => !point.covered) ? [kind("dot ring", "not covered by Headroom")] : [],
            ...points.some(point => point.faults.length > 0) ? [kind("fault", "not as it should be", "!")] : [],
        ];
        byId("legend").replaceChildren(...[...buttons, ...kinds].map(entry => element("li", {}, entry)));
    }

    listen() {
        const {canvas} = this, at = event => this.scatter.pointAt(this.seen, event.clientX, event.clientY);
        const hover = point => {
            if (point === this.hovered) return;
            this.hovered = point;
            this.draw();
        };
        const pin = point => {
            this.pinned = point === this.pinned ? null : point;
            this.draw();
            this.table();
        };
        canvas.addEventListener("pointermove", event => hover(at(event)));
        canvas.addEventListener("pointerleave", () => hover(null));
        canvas.addEventListener("click", event => pin(at(event)));
        canvas.addEventListener("focus", () => {
            if (canvas.matches(":focus-visible")) hover(this.pinned ?? this.seen[0] ?? null);
        });
        canvas.addEventListener("blur", () => hover(null));
        const step = by => {
            const {seen} = this, next = seen.indexOf(this.hovered) + by;
            hover(seen[Math.min(Math.max(next, 0), seen.length - 1)] ?? null);
        };
        const actions = {
            ArrowLeft: () => step(-1),
            ArrowRight: () => step(1),
            Home: () => step(-Infinity),
            End: () => step(Infinity),
            Enter: () => pin(this.hovered),
            Escape: () => pin(this.pinned),
        };
        canvas.addEventListener("keydown", event => {
            const action = actions[event.key];
            if (!action || event.ctrlKey || event.altKey || event.metaKey) return;
            event.preventDefault();
            action();
        });
        window.addEventListener("resize", () => this.restyle());
        window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.restyle());
    }

    draw() {
        const chosen = this.hovered ?? this.pinned, tip = byId("tip");
        this.scatter.draw(this.colors, this.alone, chosen);
        tip.hidden = !chosen;
        if (!chosen) return;
        tip.replaceChildren(...describe(chosen, this.scatter.besides(chosen, this.seen), this.columns));
        placeTip(tip, ...this.scatter.placeOf(chosen));
    }

    // Rows without a place in the plot are the last ones.
    table() {
        const {key, down} = this.sort, {cellOf} = this.columns[key];
        const rows = [...this.comparison.rows];
        rows.sort((a, b) => b.placed - a.placed || compareCells(cellOf(a), cellOf(b), down));
        const choose = sort => {
            this.sort = sort;
            this.table();
            document.querySelector("th[aria-sort] button").focus();
        };
        byId("table").replaceChildren(element("table", {}, tableHead(this.columns, this.sort, choose),
            element("tbody", {}, ...rows.map(row => element("tr", {"aria-current": row === this.pinned ? "true" : null},
                ...this.columns.map(column => tableCell(column.cellOf(row))))))));
    }

    figures() {
        const titlesOf = points => points.map(({title}) => title), {points, fronts, theirs} = this.comparison;
        const figuresOf = ({title, memory, speed, predicted, faults}) => ({title, memory, speed, predicted, faults});
        return {
            points: points.map(figuresOf),
            fronts: Object.fromEntries([...fronts].map(([framework, front]) => [framework, titlesOf(front)])),
            uncovered: titlesOf(theirs.filter(point => !point.covered)),
        };
    }
}

new Page(JSON.parse(byId("data").textContent));
