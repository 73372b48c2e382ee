// Puts the page together. Once it is drawn, the root element says so in data-status, and its figures in data-figures:
// for tests, and for other programs that read the page.

// The vertical scale of all charts. A budget far above everything would make them flat: then text alone names it.
function scaleOf(histories) {
    const highest = Math.max(1, ...histories.map(h => Math.max(h.mapped.reduce((a, b) => Math.max(a, b)), h.total[h.peakState])));
    const budgets = histories.map(h => h.limit).filter(limit => limit <= 2.5 * highest);
    return {bytes: 1.1 * Math.max(highest, ...budgets)};
}

class Page {
    constructor(data) {
        this.data = data;
        this.listen();
        this.details = new Details(this);
        this.show();
    }

    // Shows what is in `data`, from the beginning.
    show() {
        this.alone = null;    // the category that is looked at, if one is
        this.pointer = null;  // place on the horizontal axis
        this.hovered = null;  // the panel below the pointer
        this.nameCategories();
        const histories = this.data.snapshots.map(data => new History(data, this.categories, this.stack));
        const scale = scaleOf(histories), height = [380, 380, 290, 230][histories.length] ?? 190;
        const axis = byId("axis"), shape = this.view?.shape ?? "levels";
        axis.disabled = histories.some(history => history.rehearsed);  // its times say nothing
        const mode = axis.disabled ? "events" : this.view?.mode ?? "time";
        axis.querySelector(`[value=${mode}]`).checked = true;
        this.view = new View(histories, mode);
        this.view.shape = shape;
        this.view.folds = byId("folds").checked;
        this.view.showAll();
        byId("folding").hidden = !histories.some(history => this.view.stretchesOf(history).length > 0);
        if (histories.some(h => h.refused !== null)) this.view.showPeaks();
        this.panels = [];
        for (const history of histories) this.panels.push(new Panel(history, scale, height, this.panels[0] ?? null));
        for (const panel of this.panels) {
            listenToPointer(this, panel);
            listenToKeys(this, panel);
        }
        byId("panels").replaceChildren(...this.panels.map(panel => panel.root));
        byId("device").textContent = [...new Set(histories.map(h => h.device))].join(", ");
        document.title = [...histories.map(h => h.title), "memory history"].join(" - ");
        this.restyle();
        this.draw();
        this.details.reset();
        document.documentElement.dataset.figures = JSON.stringify(this.figures());
        document.documentElement.dataset.status = "drawn";
    }

    // The same name is the same category in all histories.
    nameCategories() {
        const layers = new Map();
        for (const [name, layer] of this.data.snapshots.flatMap(s => s.categories)) if (!layers.has(name)) layers.set(name, layer);
        this.hasCategories = layers.size > 0;
        this.categories = [...layers.keys(), this.hasCategories ? "no category" : "live"];
        const layerOf = [...layers.values(), Infinity];
        this.stack = [...layerOf.keys()].sort((a, b) => layerOf[a] < layerOf[b] ? -1 : layerOf[a] > layerOf[b] ? 1 : 0);
    }

    // Adds the histories of other reports below those that are shown.
    async add(files) {
        const problems = [];
        for (const file of files) {
            const data = new DOMParser().parseFromString(await file.text(), "text/html").getElementById("data");
            try {
                // Older reports name the categories of all their snapshots once.
                const {snapshots, categories} = JSON.parse(data.textContent), titles = this.data.snapshots.map(s => s.title);
                for (const s of snapshots) s.categories ??= categories.map((name, i) => [name, i]);
                for (const s of snapshots) if (titles.includes(s.title)) s.title += ` (${file.name})`;
                this.data.snapshots.push(...snapshots);
            } catch {
                problems.push(`${file.name} is not a memory report`);
            }
        }
        byId("problem").textContent = problems.join("; ");
        this.show();
    }

    restyle() {
        const categories = this.categories.map((_, c) => c === this.categories.length - 1 ? "no-category" : `category-${c % 7}`);
        this.colors = readColors(["plot", "ended", "ink", "quiet", "rule", "grid", "reserved", "alert", "accent", ...categories]);
        this.colors.category = categories.map(name => this.colors[name]);
        for (const panel of this.panels) panel.chart.resize();
        this.legend();
    }

    listen() {
        byId("axis").addEventListener("change", event => {
            this.view.mode = event.target.value;
            this.pointer = null;
            this.showAll();
        });
        byId("shape").addEventListener("change", event => {
            this.view.shape = event.target.value;
            this.redraw();
        });
        byId("folds").addEventListener("change", event => {
            this.view.folds = event.target.checked;
            this.showAll();
        });
        byId("reset").addEventListener("click", () => this.showAll());
        byId("peak").addEventListener("click", () => {
            this.view.showPeaks();
            this.redraw();
        });
        byId("add").addEventListener("click", () => byId("files").click());
        byId("files").addEventListener("change", event => this.add([...event.target.files]));
        document.addEventListener("dragover", event => event.preventDefault());
        document.addEventListener("drop", event => {
            event.preventDefault();
            if (event.dataTransfer.files.length > 0) this.add([...event.dataTransfer.files]);
        });
        const again = () => {
            this.restyle();
            this.draw();  // at once: the canvases are empty now
            this.details.update();
        };
        window.addEventListener("resize", again);
        window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
    }

    legend() {
        const entries = this.stack.filter(c => this.panels.some(p => p.history.live[c].some(bytes => bytes > 0)));
        const buttons = entries.map(c => element("li", {}, element("button", {
            type: "button", "aria-pressed": `${this.alone === c}`,
            onclick: () => {
                this.alone = this.alone === c ? null : c;
                this.legend();
                this.redraw();
            },
        }, element("span", {class: "swatch", style: `background: ${this.colors.category[c]}`}), this.categories[c])));
        const line = (name, text) => element("li", {class: "line"}, element("span", {class: `stroke ${name}`}), text);
        const budget = this.panels.some(panel => panel.chart.showsBudget) ? [line("budget", "budget")] : [];
        byId("legend").replaceChildren(...buttons, line("reserved", "reserved"), ...budget);
    }

    showAll() {
        this.view.showAll();
        this.redraw();
    }

    // Shows a state of a history in the tables.
    take(panel, state) {
        if (state < 0) return;
        panel.moment = state;
        this.redraw();
        this.details.update();
    }

    redraw() {
        if (this.waiting) return;
        this.waiting = true;
        requestAnimationFrame(() => this.draw());
    }

    draw() {
        this.waiting = false;
        byId("reset").disabled = this.view.whole;
        for (const panel of this.panels) panel.draw(this.view, this.colors, this.alone, this.pointer, this.hovered);
    }

    figures() {
        return this.panels.map(({history: h}) => {
            let table = 0;
            h.eachLive(h.peakState, b => { table += h.block.bytes[b]; });
            return {title: h.title, events: h.count, peak: h.total[h.peakState], peakEvents: h.peakState, first: h.total[0],
                    last: h.total[h.count], reserved: h.mapped[h.count], liveAtPeak: table,
                    byCategory: h.live.map(bytes => bytes[h.peakState])};
        });
    }
}

new Page(JSON.parse(byId("data").textContent));
