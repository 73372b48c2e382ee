// Larger batches, as predicted: what they take, over their size, a line for each machine and way of recomputing.

class Growth extends Plot {
    constructor(canvas, lines) {
        super(canvas, {left: 66, right: 18, top: 22, bottom: 44});
        const bytes = lines.flatMap(line => line.points.map(point => point.bytes));
        this.lines = lines;
        this.batches = batchesOf(lines);
        this.bytes = [0.8 * Math.min(...bytes), 1.25 * Math.max(...bytes)];
        this.least = Math.max(1, this.batches[0] / 1.2);
    }

    // Both axes are logarithmic.
    x(batch) {
        const most = 1.2 * this.batches.at(-1);
        return this.left + this.width * Math.log(batch / this.least) / Math.log(most / this.least);
    }
    y(bytes) {
        const [least, most] = this.bytes;
        return this.top + this.height * (1 - Math.log(bytes / least) / Math.log(most / least));
    }

    draw(colors) {
        const {context: c, ratio} = this;
        this.clear(colors);
        for (let ten = 1; ten <= this.bytes[1]; ten *= 10) {
            for (const bytes of [ten, 2 * ten, 5 * ten].filter(value => value > this.bytes[0] && value < this.bytes[1]))
                this.drawRow(bytes, roundBytesText(bytes), colors.grid, colors);
        }
        for (const batch of this.batches) this.mark(this.x(batch), `${batch}`, colors);
        this.drawTitle("batch", colors);
        this.lines.forEach(({points}, i) =>
            this.drawLine(points.map(({batch, bytes}) => [this.x(batch), this.y(bytes)]), colors.technique[i % COLORS]));
        this.lines.forEach(({name, points}, i) => {
            const {batch, bytes} = points[Math.max(0, points.length - 1 - i)];  // each at another: lines may coincide
            const wide = c.measureText(name).width;
            this.label(name, this.x(batch) - wide - 8 * ratio, this.y(bytes) - 7 * ratio, colors.technique[i % COLORS], colors);
        });
    }
}

// By machine and way of recomputing.
function linesOf(larger) {
    const lines = new Map();
    for (const {machine, recompute, batch, peak_bytes_reserved_predicted: bytes, step_seconds_predicted: seconds} of larger) {
        const name = `${machine}: ${recompute}`;
        if (!lines.has(name)) lines.set(name, {name, points: []});
        lines.get(name).points.push({batch, bytes, seconds});
    }
    return [...lines.values()];
}

// From the smallest on.
const batchesOf = lines => [...new Set(lines.flatMap(line => line.points.map(({batch}) => batch)))].sort((a, b) => a - b);

// A row for each batch, and for each line what it takes.
function largerTable(lines, samples) {
    const cellsOf = ({points}, batch) => {
        const point = points.find(other => other.batch === batch);
        return [bytesCell(point.bytes), cell(batch / point.seconds, speedText)].map(tableCell);
    };
    const head = lines.map(({name}) => element("th", {scope: "colgroup", colspan: 2, class: "text"}, name));
    const second = lines.flatMap(() => [element("th", {scope: "col"}, "Peak reserved"), element("th", {scope: "col"}, `${samples}/s`)]);
    return element("table", {},
        element("thead", {}, element("tr", {}, element("th", {scope: "col", rowspan: 2}, "Batch"), ...head), element("tr", {}, ...second)),
        element("tbody", {}, ...batchesOf(lines).map(batch => element("tr", {}, tableCell(countCell(batch)),
            ...lines.flatMap(line => cellsOf(line, batch))))));
}
