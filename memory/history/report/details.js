// What is live at the chosen moments: where it lies, which modules it belongs to, which blocks are the largest.

const MAP_HEIGHT = 22;
const ROWS = 200;

// A module path as the controls want it grouped.
function grouped(path, depth, fold) {
    let parts = path.split(".");
    if (depth > 0) parts = parts.slice(0, depth);
    if (fold) parts = parts.map(part => /^\d+$/.test(part) ? "*" : part);
    return parts.join(".");
}

// Map from group to bytes by category. What belongs to no module is told apart by category, if it has one.
function modulesAt(history, state, depth, fold, categories) {
    const names = history.paths.map(path => grouped(path, depth, fold)), groups = new Map();
    history.eachLive(state, b => {
        const category = history.block.category[b], named = category < categories.length - 1;
        const name = names[history.block.path[b]] || (named ? `(no module) ${categories[category]}` : "");
        let bytes = groups.get(name);
        if (!bytes) groups.set(name, bytes = new Array(categories.length).fill(0));
        bytes[category] += history.block.bytes[b];
    });
    return groups;
}

const sumOf = numbers => numbers.reduce((a, b) => a + b, 0);

class Details {
    constructor(page) {
        this.page = page;
        for (const id of ["depth", "fold"]) byId(id).addEventListener("change", () => this.table());
    }

    // For other histories.
    reset() {
        this.choose(this.page.panels.length > 1 ? "compare" : "0");
        this.update();
    }

    choose(key) {
        Object.assign(this, {shown: key, all: false, sort: {key: 1, down: true}});
        this.buttons();
    }

    buttons() {
        const {panels} = this.page;
        const choices = panels.length > 1 ? [["compare", "Compare modules"]] : [];
        panels.forEach((panel, i) => choices.push([`${i}`, panels.length > 1 ? panel.history.title : "Modules"]));
        panels.forEach((panel, i) => choices.push([`blocks ${i}`, panels.length > 1 ? `Blocks of ${panel.history.title}` : "Blocks"]));
        byId("views").replaceChildren(...choices.map(([key, text]) => element("button", {
            type: "button", "aria-pressed": `${key === this.shown}`,
            onclick: () => {
                this.choose(key);
                this.table();
            },
        }, text)));
    }

    update() {
        byId("moments").replaceChildren(...this.page.panels.map(panel => this.moment(panel)));
        this.drawMaps();
        this.table();
    }

    moment(panel) {
        const {history, moment} = panel, atPeak = moment === history.peakState, step = history.stepOf(moment);
        const failure = moment === history.refused ? history.failures.at(-1) : null;
        const where = [history.whenText(moment)];
        if (step !== null) where.push(stepText(step));
        where.push(`${bytesText(history.total[moment])} live in ${bytesText(history.mapped[moment])} reserved`);
        if (failure) where.push(`${bytesText(failure.bytes)} more for ${moduleText(history.paths[failure.path] ?? "")} were refused`);
        const name = this.page.panels.length > 1 ? `${history.title}: ` : "", what = this.momentText(panel);
        panel.map = element("canvas", {style: `height: ${MAP_HEIGHT}px`, role: "img",
                                       "aria-label": "Mapped addresses from left to right, live blocks in the colours of the chart"});
        panel.map.addEventListener("pointermove", event => this.blockTip(panel, event));
        panel.map.addEventListener("pointerleave", () => { byId("tip").hidden = true; });
        return element("div", {class: "moment"},
            element("div", {},
                element("h2", {}, name + (name ? what : what[0].toUpperCase() + what.slice(1))),
                element("p", {}, where.join(", ")),
                ...atPeak ? [] : [element("button", {type: "button", onclick: () => this.page.take(panel, history.peakState)},
                                          "Back to the peak")]),
            panel.map);
    }

    // Addresses of all histories to one scale, holes left out.
    drawMaps() {
        const {panels, colors} = this.page, ranges = panels.map(p => p.history.mappedAt(p.moment));
        const longest = Math.max(1, ...ranges.map(list => sumOf(list.map(([a, b]) => b - a))));
        panels.forEach((panel, i) => {
            const {map, history} = panel, ratio = window.devicePixelRatio || 1, c = map.getContext("2d");
            map.width = Math.round(map.getBoundingClientRect().width * ratio);
            map.height = MAP_HEIGHT * ratio;
            const perByte = (map.width - ranges[i].length * 3 * ratio) / longest;
            let x = 0;
            panel.pieces = ranges[i].map(([place, end]) => {
                const piece = {place, end, x, perByte};
                x += (end - place) * perByte + 3 * ratio;
                c.fillStyle = colors.grid;
                c.fillRect(piece.x, 0, (end - place) * perByte, map.height);
                return piece;
            });
            history.eachLive(panel.moment, b => {
                const place = history.block.place[b], piece = panel.pieces.find(p => place >= p.place && place < p.end);
                if (!piece) return;
                const width = history.block.bytes[b] * perByte, gap = width > 4 * ratio ? ratio : 0;
                c.fillStyle = colors.category[history.block.category[b]];
                c.fillRect(piece.x + (place - piece.place) * perByte, 0, Math.max(width - gap, 0.3), map.height);
            });
        });
    }

    blockTip(panel, event) {
        const {history, map, pieces} = panel, tip = byId("tip");
        const x = (event.clientX - map.getBoundingClientRect().left) * (window.devicePixelRatio || 1);
        const piece = pieces.find(p => x >= p.x && x < p.x + (p.end - p.place) * p.perByte);
        tip.hidden = !piece;
        if (!piece) return;
        const place = piece.place + (x - piece.x) / piece.perByte, {block} = history;
        let found = -1;
        history.eachLive(panel.moment, b => {
            if (block.place[b] <= place && place < block.place[b] + block.bytes[b]) found = b;
        });
        tip.replaceChildren(...found < 0 ? [element("p", {}, "Free")] : blockText(this.page, history, found));
        placeTip(tip, event.clientX, event.clientY);
    }

    table() {
        if (this.page.panels.length === 0) return;
        const isBlocks = this.shown.startsWith("blocks"), index = Number(this.shown.replace("blocks ", ""));
        for (const id of ["depth", "fold"]) byId(id).disabled = isBlocks;
        const shape = isBlocks ? this.blocks(this.page.panels[index])
                    : this.shown === "compare" ? this.comparison() : this.modules(this.page.panels[index]);
        byId("table").replaceChildren(this.build(shape));
    }

    groupsOf(panel) {
        const {page} = this;
        return modulesAt(panel.history, panel.moment, Number(byId("depth").value), byId("fold").checked, page.categories);
    }

    bar(bytes, longest) {
        const {page} = this, total = sumOf(bytes);
        const parts = page.stack.filter(c => bytes[c] > 0);
        return element("div", {class: "stack", title: parts.map(c => `${page.categories[c]}: ${bytesText(bytes[c])}`).join("\n"),
                               style: `width: ${100 * total / Math.max(longest, 1)}%`},
            ...parts.map(c => element("i", {style: `width: ${100 * bytes[c] / total}%; background: ${page.colors.category[c]}`})));
    }

    modules(panel) {
        const {page} = this, groups = [...this.groupsOf(panel)], whole = panel.history.total[panel.moment] || 1;
        const used = page.stack.filter(c => page.hasCategories && panel.history.live[c][panel.moment] > 0);
        const longest = Math.max(0, ...groups.map(([, bytes]) => sumOf(bytes)));
        return {
            caption: `${groups.length.toLocaleString("en")} modules, ${this.momentText(panel)}`,
            columns: [{name: "Module", kind: "text"}, {name: "Live"}, {name: "Share"}, {name: page.hasCategories ? "By category" : "", kind: "text", fixed: true},
                      ...used.map(c => ({name: page.categories[c]}))],
            rows: groups.map(([name, bytes]) => {
                const total = sumOf(bytes);
                return [{text: moduleText(name), kind: "path"}, this.size(total), {value: total, text: percentText(total / whole)},
                        {bar: () => this.bar(bytes, longest)}, ...used.map(c => this.size(bytes[c]))];
            }),
            sums: ["All", bytesText(panel.history.total[panel.moment]), "", "", ...used.map(c => bytesText(panel.history.live[c][panel.moment]))],
        };
    }

    comparison() {
        const {panels} = this.page, each = panels.map(panel => this.groupsOf(panel));
        const names = [...new Set(each.flatMap(groups => [...groups.keys()]))], none = this.page.categories.map(() => 0);
        const longest = Math.max(0, ...each.flatMap(groups => [...groups.values()].map(sumOf)));
        const difference = bytes => ({value: bytes, text: bytes ? (bytes > 0 ? "+" : "\u2212") + bytesText(Math.abs(bytes)) : "0",
                                      kind: bytes ? "" : "zero"});
        return {
            caption: `${names.length.toLocaleString("en")} modules; the difference is that of ${panels.at(-1).history.title} to ${panels[0].history.title}`,
            columns: [{name: "Module", kind: "text"},
                      ...panels.flatMap(p => [{name: p.history.title}, {name: this.momentText(p), kind: "text", fixed: true}]),
                      {name: "Difference"}],
            rows: names.map(name => {
                const bytes = each.map(groups => groups.get(name) ?? none), totals = bytes.map(sumOf);
                return [{text: moduleText(name), kind: "path"},
                        ...bytes.flatMap((b, i) => [this.size(totals[i]), {bar: () => this.bar(b, longest)}]),
                        difference(totals.at(-1) - totals[0])];
            }),
            sums: ["All", ...panels.flatMap(p => [bytesText(p.history.total[p.moment]), ""]),
                   difference(panels.at(-1).history.total[panels.at(-1).moment] - panels[0].history.total[panels[0].moment]).text],
        };
    }

    blocks(panel) {
        const {history} = panel, {block} = history, {categories, hasCategories} = this.page, live = [];
        history.eachLive(panel.moment, b => live.push(b));
        const lasted = (event, none) => event < 0 || event >= history.count ? {value: event, text: none, kind: "zero"}
            : {value: event, text: `${history.whenText(event + 1)}, ${stepText(history.stepOf(event + 1))}`};
        return {
            caption: `${live.length.toLocaleString("en")} blocks, ${this.momentText(panel)}`,
            columns: [{name: "Module", kind: "text"}, {name: "Bytes"}, {name: "Rounding"}, ...hasCategories ? [{name: "Category", kind: "text"}] : [],
                      {name: "Op", kind: "text"}, {name: "Allocated"}, {name: "Given back"}],
            rows: live.map(b => [{text: moduleText(history.pathOf(b)), kind: "path"}, this.size(block.bytes[b]), this.size(block.rounding[b]),
                                 ...hasCategories ? [{text: categories[block.category[b]], kind: "text"}] : [], {text: history.opOf(b), kind: "text"},
                                 lasted(block.begin[b], "before these events"), lasted(block.end[b], "not yet")]),
            sums: ["All", bytesText(history.total[panel.moment]), "", ...hasCategories ? [""] : [], "", "", ""],
        };
    }

    momentText({moment, history}) {
        if (moment === history.refused) return "at the refused request";
        return moment === history.peakState ? "at the peak" : "at the chosen moment";
    }
    size(bytes) { return {value: bytes, text: bytes ? bytesText(bytes) : "0", kind: bytes ? "" : "zero", title: exactText(bytes)}; }

    build({caption, columns, rows, sums}) {
        const {key, down} = this.sort;
        rows.sort((a, b) => compareCells(a[key], b[key], down));
        const seen = this.all ? rows : rows.slice(0, ROWS);
        const choose = sort => {
            this.sort = sort;
            this.table();
        };
        const table = element("table", {}, element("caption", {}, caption), tableHead(columns, this.sort, choose),
            element("tbody", {}, ...seen.map(row => element("tr", {}, ...row.map(tableCell)))),
            element("tfoot", {}, element("tr", {}, ...sums.map((text, i) => element("td", {class: i === 0 ? "text" : ""}, text)))));
        if (seen.length === rows.length) return table;
        const more = `Show all ${rows.length.toLocaleString("en")}`;
        return element("div", {}, table, element("button", {type: "button", onclick: () => { this.all = true; this.table(); }}, more));
    }
}
