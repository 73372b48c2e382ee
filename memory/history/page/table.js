// Tables that are sorted by the column whose head is chosen. A column is {name, kind, fixed}. A cell is {text, value,
// kind, title, below}, sorted by its value, or by its text if it has none; or {bar}, which makes an element. `below` is a
// second line, for pages whose style shows it.

// Cells whose value is null come last, whatever the direction.
function compareCells(a, b, down) {
    const [x, y] = [a, b].map(({value, text}) => value === undefined ? text : value);
    if (x === null || y === null) return (x === null) - (y === null);
    return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1);
}

// `sort` is {key: the number of a column, down}; choose(sort) is called for another.
function tableHead(columns, sort, choose) {
    const head = columns.map(({name, kind, fixed}, i) => element("th", {
        scope: "col", class: kind, "aria-sort": i === sort.key ? (sort.down ? "descending" : "ascending") : null,
    }, fixed ? name : element("button", {
        type: "button", onclick: () => choose({key: i, down: i === sort.key ? !sort.down : !kind?.startsWith("text")}),
    }, name)));
    return element("thead", {}, element("tr", {}, ...head));
}

function tableCell({text, kind, title, bar, below}) {
    if (bar) return element("td", {class: "share"}, bar());
    const isPath = kind === "path";
    return element("td", {class: isPath ? "text path" : kind, title: title ?? (isPath ? text : null), "data-below": below ?? null}, text);
}
