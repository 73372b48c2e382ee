// From the data in the page to points of memory and speed: which of them are a front, and what is wrong with some.

const FRAMEWORKS = {headroom: "Headroom", pytorch: "PyTorch"};

class Row {
    constructor(data) {
        this.data = data;
        this.framework = FRAMEWORKS[data.framework] ?? data.framework;
        // PyTorch on a CPU reserves nothing: it is compared by what it allocates, which is less.
        this.memory = data.peak_bytes_reserved ?? data.peak_bytes_reserved_predicted ?? data.peak_bytes_allocated;
        this.allocated = data.peak_bytes_allocated ?? data.peak_bytes_allocated_predicted;
        this.seconds = data.step_seconds ?? data.step_seconds_predicted;
        this.speed = data.samples_per_second ?? (this.seconds && data.batch * data.accumulate / this.seconds);
        this.refused = data.refused ?? null;
        this.placed = this.refused === null && this.memory != null && this.speed != null;
        this.predicted = this.placed && data.step_seconds == null;
        this.covered = true;  // false: it is PyTorch's, and no point of Headroom is as small and as fast
        this.faults = [...data.same_bits === false ? ["other bits than keeping all"] : [],
                       ...this.difference("allocated"), ...this.difference("reserved")];
    }

    difference(what) {
        const measured = this.data[`peak_bytes_${what}`], predicted = this.data[`peak_bytes_${what}_predicted`];
        if (measured == null || predicted == null || measured === predicted) return [];
        const side = measured > predicted ? "above" : "below";
        return [`${what} ${bytesText(Math.abs(measured - predicted))} ${side} the prediction`];
    }

    get title() { return `${this.framework}: ${this.data.technique}, ${this.data.name}`; }
}

// No larger and no slower.
const covers = (a, b) => a.memory <= b.memory && a.speed >= b.speed;

// Those that were measured; if none was, those that are predicted.
function countedOf(points) {
    const measured = points.filter(point => !point.predicted);
    return measured.length > 0 ? measured : points;
}

// The points that no other is better than, from the smallest on.
function frontOf(points) {
    const beaten = point => points.some(other => covers(other, point) && !covers(point, other));
    return points.filter(point => !beaten(point)).sort((a, b) => a.memory - b.memory);
}

// How many of the points fit into the bytes that were asked about; if none does, which is the smallest. Empty: nothing was
// asked.
function withinText({data, points}) {
    const within = data.within_bytes;
    if (within == null || points.length === 0) return "";
    const fitting = points.filter(point => point.data.fits).length, least = points[0];
    return `Within ${bytesText(within, 2)}: ` + (fitting > 0 ? `${fitting} of ${points.length} fit` :
        `none fits; the smallest, ${least.data.name}, takes ${bytesText(least.memory, 2)}`);
}

// All rows, those of them that have a place in the plot, and what is to be said of these.
class Comparison {
    constructor(data) {
        this.data = data;
        this.rows = data.rows.map(row => new Row(row));
        this.points = this.rows.filter(row => row.placed).sort((a, b) => a.memory - b.memory);
        this.techniques = [...new Set(data.rows.map(row => row.technique))];
        this.frameworks = [...new Set(this.rows.filter(row => row.placed).map(row => row.data.framework))];
        const pointsOf = framework => this.points.filter(point => point.data.framework === framework);
        this.fronts = new Map(this.frameworks.map(framework => [framework, frontOf(countedOf(pointsOf(framework)))]));
        const ours = pointsOf("headroom").filter(point => !point.predicted);  // a prediction covers nothing
        this.theirs = pointsOf("pytorch");
        for (const point of this.theirs) point.covered = ours.some(other => covers(other, point));
    }
}
