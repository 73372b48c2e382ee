// Pointer and keys on the charts: zoom, pan, the moment for the tables, and what is said about the place below the
// pointer. `page` redraws: see main.js.

function describe(page, panel, column) {
    const {history, chart} = panel, state = chart.columns.most[column];
    if (state < 0) return null;
    const low = chart.columns.fewest[column], step = history.stepOf(state);
    const rows = [...page.stack].reverse().filter(c => history.live[c][state] > 0).map(c => element("tr", {},
        element("td", {}, element("div", {class: "swatch", style: `background: ${page.colors.category[c]}`})),
        element("td", {class: "text"}, page.categories[c]), element("td", {}, bytesText(history.live[c][state]))));
    const sum = (name, bytes, kind = "") => element("tr", {class: kind}, element("td"), element("td", {class: "text"}, name),
        element("td", {}, bytesText(bytes)));
    const parts = [
        element("p", {}, element("b", {}, history.whenText(state)), step === null ? "" : `, ${stepText(step)}`),
        element("table", {}, element("tbody", {}, ...rows, sum("live", history.total[state], "sum"),
                                     sum("reserved", history.mapped[state]))),
    ];
    const event = eventText(history, state);
    if (low !== state) {
        parts.push(element("p", {}, `The highest in this column; the lowest is ${bytesText(history.total[low])}.`));
    } else if (event) {
        parts.push(element("p", {}, ...event));
    }
    return parts;
}

// The event that led to a state.
function eventText(history, state) {
    if (state === 0) return null;
    const event = state - 1, kind = history.kind[event], b = history.blockOf[event];
    if (b >= 0) {
        return [`${kind === ALLOCATE ? "Allocated" : "Gave back"} ${bytesText(history.block.bytes[b])} of `,
                element("code", {}, moduleText(history.pathOf(b)))];
    }
    if (kind === FAILED) {
        const failure = history.failures.find(f => f.event === event);
        return [`Out of memory: ${bytesText(failure.bytes)} for `, element("code", {}, moduleText(history.paths[failure.path] ?? ""))];
    }
    const pages = history.pages.find(p => p.event === event);
    return [`${kind === MAP ? "Mapped" : "Unmapped"} ${bytesText(Math.abs(pages.bytes))}`];
}

// All that is known of a block.
function blockText(page, history, b) {
    const {block} = history, {begin, end} = block, op = history.opOf(b);
    const at = (event, none) => event < 0 || event >= history.count ? none
        : `${history.whenText(event + 1)}${history.stepOf(event + 1) === null ? "" : `, ${stepText(history.stepOf(event + 1))}`}`;
    const row = (name, ...content) => element("tr", {}, element("td", {class: "text"}, name), element("td", {class: "text"}, ...content));
    return [
        element("p", {}, element("b", {}, bytesText(block.bytes[b])), page.hasCategories ? `, ${page.categories[block.category[b]]}` : ""),
        element("table", {}, element("tbody", {},
            row("module", element("code", {}, moduleText(history.pathOf(b)))),
            ...op ? [row("op", element("code", {}, op))] : [],
            row("requested", exactText(block.bytes[b] - block.rounding[b])),
            row("allocated", at(begin[b], "before these events")),
            row("given back", at(end[b], "not yet")))),
    ];
}

function showTip(page, panel, column, clientX, clientY) {
    const tip = byId("tip"), block = panel.chart.blocks ? panel.chart.blockAt(page.view, clientX, clientY) : -1;
    const parts = block >= 0 ? blockText(page, panel.history, block) : describe(page, panel, column);
    page.pointer = panel.chart.positionOf(page.view, column);
    page.hovered = panel;
    if (parts === null) {
        tip.hidden = true;
        return;
    }
    tip.replaceChildren(...parts);
    placeTip(tip, clientX, clientY);
}

function hideTip(page) {
    byId("tip").hidden = true;
    page.pointer = null;
    page.redraw();
}

function listenToPointer(page, panel) {
    const {canvas, chart} = panel;
    let drag = null;
    canvas.addEventListener("pointerdown", event => {
        if (event.button !== 0) return;
        canvas.setPointerCapture(event.pointerId);
        drag = {x: event.clientX, from: event.clientX, moved: false};
    });
    canvas.addEventListener("pointermove", event => {
        if (drag) {
            drag.moved ||= Math.abs(event.clientX - drag.from) > 3;
            if (drag.moved) {
                canvas.classList.add("moving");
                page.view.move((drag.x - event.clientX) * chart.ratio / chart.width * page.view.span);
                drag.x = event.clientX;
            }
        }
        if (!drag?.moved && chart.columns) showTip(page, panel, chart.columnAt(event.clientX), event.clientX, event.clientY);
        page.redraw();
    });
    canvas.addEventListener("pointerup", event => {
        if (drag && !drag.moved) page.take(panel, chart.columns.most[chart.columnAt(event.clientX)]);
        canvas.classList.remove("moving");
        drag = null;
    });
    canvas.addEventListener("pointerleave", () => hideTip(page));
    canvas.addEventListener("dblclick", () => page.showAll());
    canvas.addEventListener("wheel", event => {
        event.preventDefault();
        const lines = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 30 : 1;
        const around = chart.positionOf(page.view, chart.columnAt(event.clientX));
        if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) page.view.move(event.deltaX * lines / chart.width * page.view.span);
        else page.view.zoom(Math.exp(event.deltaY * lines * 0.0016), around);
        page.redraw();
    }, {passive: false});
}

function listenToKeys(page, panel) {
    const {canvas, chart} = panel;
    const walk = (direction, far) => {
        if (far) return page.view.move(direction * page.view.span / 8);
        const at = page.pointer ?? (page.view.from + page.view.to) / 2;
        const column = Math.round((at - page.view.from) / page.view.span * chart.width - 0.5) + direction * Math.ceil(chart.ratio);
        if (column < 0 || column >= chart.width) page.view.move(direction * page.view.span / 8);
        const box = canvas.getBoundingClientRect(), seen = Math.min(Math.max(column, 0), chart.width - 1);
        showTip(page, panel, seen, box.left + (chart.left + seen) / chart.ratio, box.top + box.height / 3);
    };
    const middle = () => page.pointer ?? (page.view.from + page.view.to) / 2;
    const actions = {
        "+": () => page.view.zoom(1 / 1.5, middle()),
        "=": () => page.view.zoom(1 / 1.5, middle()),
        "-": () => page.view.zoom(1.5, middle()),
        "ArrowLeft": event => walk(-1, event.shiftKey),
        "ArrowRight": event => walk(1, event.shiftKey),
        "Home": () => page.view.move(-page.view.extent),
        "End": () => page.view.move(page.view.extent),
        "Escape": () => page.showAll(),
        "p": () => page.take(panel, panel.history.peakState),
        "Enter": () => {
            if (page.pointer !== null) page.take(panel, page.view.stateAt(panel.history, page.pointer));
        },
    };
    canvas.addEventListener("keydown", event => {
        const action = actions[event.key.length === 1 ? event.key.toLowerCase() : event.key];
        if (!action || event.ctrlKey || event.altKey || event.metaKey) return;
        event.preventDefault();
        action(event);
        page.redraw();
    });
    canvas.addEventListener("blur", () => hideTip(page));
}
