// The figures of rows as text: in the table, and in what is said of a point.

const NONE = {text: "\u2013", value: null, kind: "zero"};

const speedText = speed => speed < 100 ? speed.toPrecision(3) : Math.round(speed).toLocaleString("en");
const cell = (value, textOf) => value == null ? NONE : {value, text: textOf(value)};
const textCell = text => text == null ? {...NONE, kind: "text zero"} : {text, kind: "text"};
const wideCell = text => ({...textCell(text), kind: "text wide"});
const countCell = count => cell(count, value => value.toLocaleString("en"));
const bytesCell = bytes => bytes == null ? NONE : {value: bytes, text: bytesText(bytes, 2), title: exactText(bytes)};
const secondsText = seconds => timeText(1e9 * seconds);

function runsCell(runs) {
    if (!runs || runs.length < 2) return NONE;
    const least = Math.min(...runs), most = Math.max(...runs);
    return {value: most - least, text: `${secondsText(least)} to ${secondsText(most)}`};
}

// What is unusual about a row.
function notesOf(row) {
    return [...row.refused === null ? [] : [row.refused], ...row.predicted ? ["predicted"] : [],
            ...row.covered ? [] : ["not covered by Headroom"], ...row.faults.map(fault => `! ${fault}`)];
}

function notesCell(row) {
    const notes = notesOf(row).join("; ");
    return {text: notes, value: notes || null, kind: row.faults.length > 0 ? "text notes fault" : "text notes"};
}

// Those that some row has a figure for, first those by which rows are chosen. The brief ones are said of a point, too; the
// wide ones stand below the name where the window is narrow.
function columnsOf({data: {samples}, rows}) {
    const of = (name, kind, cellOf, brief = false) => ({name, kind, cellOf, brief});
    const field = (name, key, cellOf) => of(name, cellOf === textCell ? "text" : "", ({data}) => cellOf(data[key]));
    const categories = [...new Set(rows.flatMap(({data}) => Object.keys(data.bytes ?? {})))];
    const yesOrNo = answer => textCell(answer == null ? null : answer ? "yes" : "no");
    const columns = [
        of("Framework", "text wide", row => wideCell(row.framework)),
        of("Technique", "text wide", ({data}) => wideCell(data.technique)),
        of("Name", "text", row => ({...textCell(row.data.name), kind: "text name",
                                    below: `${row.data.technique}, ${row.framework}`})),
        of("Peak reserved", "", row => bytesCell(row.memory), true),
        of(`${samples}/s`, "", row => cell(row.speed, speedText), true),
        field("Fits", "fits", yesOrNo),
        field("Same bits", "same_bits", yesOrNo),
        of("Step", "", row => cell(row.seconds, secondsText), true),
        of("Notes", "text", notesCell),
        of("Peak allocated", "", row => bytesCell(row.allocated), true),
        of("Steps of all runs", "", ({data}) => runsCell(data.step_seconds_runs), true),
        field("Recompute", "recompute", textCell),
        field("Ops recomputed", "replayed_ops", countCell),
        field("Batch", "batch", countCell),
        field("Micro-batches", "accumulate", countCell),
        field("Budget", "budget_bytes", bytesCell),
        field("Largest batch", "largest_batch", countCell),
        field("Type", "dtype", textCell),
        field("Optimizer", "optimizer", textCell),
        ...categories.map(name => of(name.replace("_", " "), "", ({data}) => bytesCell(data.bytes?.[name]), true)),
        field("Used on the GPU", "used", bytesCell),
        field("Loss", "loss", loss => cell(loss, value => value.toFixed(6))),
        field("Driver calls", "driver_calls", countCell),
        field("Host waits", "host_waits", countCell),
        field("Launches", "launches", countCell),
    ];
    return columns.filter(({cellOf}) => rows.some(row => cellOf(row).value !== null));
}

// A point, for the tip, and those that lie where it does.
function describe(point, others, columns) {
    const figures = columns.filter(({brief, cellOf}) => brief && cellOf(point).value !== null);
    return [
        element("p", {}, element("b", {}, point.data.name), `, ${point.data.technique}, ${point.framework}`),
        element("table", {}, element("tbody", {}, ...figures.map(({name, cellOf}) => element("tr", {},
            element("td", {class: "text"}, name), element("td", {}, cellOf(point).text))))),
        ...notesOf(point).map(note => element("p", {}, note)),
        ...others.map(({title}) => element("p", {}, `here as well: ${title}`)),
    ];
}
