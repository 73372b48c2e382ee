// From the data in the page to arrays that can be drawn. "State k" is the memory after k events.

// Reads what html_report.cpp wrote: numbers of seven bits per byte, the lowest first, in base64.
function numbersIn(base64) {
    const text = atob(base64);
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < bytes.length; ++i) bytes[i] = text.charCodeAt(i);
    let at = 0;
    const next = () => {
        let value = 0, scale = 1, byte;
        do {
            byte = bytes[at++];
            value += (byte & 127) * scale;
            scale *= 128;
        } while (byte > 127);
        return value;
    };
    const nextSigned = () => {
        const value = next();
        return value % 2 ? -(value + 1) / 2 : value / 2;
    };
    return {next, nextSigned};
}

const ALLOCATE = 0, FREE = 1, MAP = 2, UNMAP = 3, FAILED = 4;

class History {
    // `categories` are the names of the page's, the last one for what has none; `stack` is their order from the bottom up.
    constructor(data, categories, stack) {
        Object.assign(this, {...data, stack, events: undefined, older: undefined});
        const places = data.categories.map(([name]) => categories.indexOf(name));
        this.categoryAt = number => places[number] ?? categories.length - 1;
        this.count = data.eventsCount;
        const states = this.count + 1, blocks = data.olderCount + this.count;
        this.time = new Float64Array(this.count);            // of events, nanoseconds since the first
        this.live = Array.from(categories, () => new Float64Array(states));
        this.total = new Float64Array(states);
        this.mapped = new Float64Array(states);
        this.kind = new Uint8Array(this.count);
        this.blockOf = new Int32Array(this.count).fill(-1);  // of allocations and frees
        this.block = {
            count: 0,
            begin: new Int32Array(blocks).fill(-1),          // event; -1: before the first
            end: new Int32Array(blocks).fill(this.count),    // event; count: not given back
            bytes: new Float64Array(blocks),
            rounding: new Float64Array(blocks),
            path: new Int32Array(blocks),
            op: new Int32Array(blocks),
            category: new Uint8Array(blocks),
            place: new Float64Array(blocks),                 // address in bytes, relative
        };
        this.pages = [];                                     // events of pages: {event, place, bytes}, bytes signed
        this.failures = [];
        this.lastPlace = 0;
        const older = numbersIn(data.older);
        for (let i = 0; i < data.olderCount; ++i) this.readBlock(older, this.categoryAt(older.next()), -1);
        this.readEvents(numbersIn(data.events));
        this.peakState = this.highest(0, this.count);
        // What the page opens at: a request that was refused, or the peak.
        this.refused = this.failures.length > 0 ? this.failures.at(-1).event + 1 : null;
        this.focus = this.refused ?? this.peakState;
        this.layout = this.layOut();
        // The allocator's own peaks may be older than the events, or younger: they can be reset.
        this.peakKept = this.total[this.peakState] >= data.peak;
        this.peak = Math.max(data.peak, this.total[this.peakState]);
        this.peakReserved = this.mapped.reduce((a, b) => Math.max(a, b), data.peakReserved);
    }

    readPlace(from) {
        this.lastPlace += from.nextSigned();
        return this.lastPlace * this.unit;
    }

    readBlock(from, category, event) {
        const {block} = this, i = block.count++;
        block.begin[i] = event;
        block.category[i] = category;
        block.path[i] = from.next();
        block.op[i] = from.next();
        block.bytes[i] = from.next() * this.unit;
        block.rounding[i] = from.next();
        block.place[i] = this.readPlace(from);
        return i;
    }

    readEvents(from) {
        const {block} = this, now = this.live.map(() => 0);
        this.start.forEach((bytes, number) => { now[this.categoryAt(number)] += bytes; });
        let time = 0, mapped = this.startReserved;
        const keep = state => {
            let total = 0;
            for (let c = 0; c < now.length; ++c) total += this.live[c][state] = now[c];
            this.total[state] = total;
            this.mapped[state] = mapped;
        };
        keep(0);
        for (let i = 0; i < this.count; ++i) {
            const head = from.next(), kind = head % 8, category = this.categoryAt((head - kind) / 8);
            this.kind[i] = kind;
            this.time[i] = time += from.next();
            if (kind === ALLOCATE) {
                const b = this.blockOf[i] = this.readBlock(from, category, i);
                now[category] += block.bytes[b];
            } else if (kind === FREE) {
                const b = this.blockOf[i] = block.count - from.next();
                block.end[b] = i;
                now[category] -= block.bytes[b];
            } else if (kind === FAILED) {
                this.failures.push({event: i, category, path: from.next(), bytes: from.next()});
            } else {
                const bytes = from.next() * this.unit * (kind === MAP ? 1 : -1);
                mapped += bytes;
                this.pages.push({event: i, place: this.readPlace(from), bytes});
            }
            keep(i + 1);
        }
    }

    // The state with the most live bytes among states first to last.
    highest(first, last) {
        const {total} = this;
        let best = first;
        for (let k = first + 1; k <= last; ++k) if (total[k] > total[best]) best = k;
        return best;
    }

    get limitName() { return this.askedLimit ? "Budget" : "Available"; }
    timeOf(state) { return state > 0 ? this.time[state - 1] : 0; }
    // Nothing was computed in a rehearsal, so that its times say nothing.
    whenText(state) { return this.rehearsed ? `event ${state.toLocaleString("en")}` : timeText(this.timeOf(state)); }

    // The state at a time.
    stateAt(time) {
        let low = 0, high = this.count;
        while (low < high) {
            const middle = (low + high) >> 1;
            if (this.time[middle] <= time) low = middle + 1;
            else high = middle;
        }
        return low;
    }

    // Stretches of a horizontal axis that a long step, such as one with a validation in it, leaves out of its middle, so
    // that it is as long as two usual steps: [[from, to], ...]. `at` tells the place of an event.
    longStretches(at, end) {
        const begins = this.steps.filter((_, i) => i % 2 === 0).map(at), ends = [...begins.slice(1), end];
        if (begins.length < 3) return [];
        const lengths = begins.map((from, i) => ends[i] - from), usual = [...lengths].sort((a, b) => a - b)[lengths.length >> 1];
        return begins.map((from, i) => [from + usual, ends[i] - usual]).filter((_, i) => lengths[i] > 5 * usual);
    }

    // Index into steps / 2 of the step that an event belongs to; -1 if there is none.
    stepIndex(event) {
        let low = 0, high = this.steps.length / 2;
        while (low < high) {
            const middle = (low + high) >> 1;
            if (this.steps[2 * middle] <= event) low = middle + 1;
            else high = middle;
        }
        return low - 1;
    }

    // The number of the step that a state belongs to, or null.
    stepOf(state) {
        const index = this.stepIndex(Math.max(state - 1, 0));
        return index < 0 ? null : this.steps[2 * index + 1];
    }

    // The first and the last state of the step that a state belongs to.
    stepAround(state) {
        const index = this.stepIndex(Math.max(state - 1, 0));
        return [index <= 0 ? 0 : this.steps[2 * index] + 1, this.steps[2 * index + 2] ?? this.count];
    }

    // Calls visit(block) for each block that is live in a state.
    eachLive(state, visit) {
        const {block} = this;
        for (let b = 0; b < block.count; ++b) {
            if (block.begin[b] < state && block.end[b] >= state) visit(b);
        }
    }

    // Addresses that blocks ever had, without what lies between them: where each stretch begins, and its offset.
    layOut() {
        const {block} = this, order = Array.from({length: block.count}, (_, b) => b).sort((a, b) => block.place[a] - block.place[b]);
        const begins = [], offsets = [];
        let end = -Infinity, bytes = 0;
        for (const b of order) {
            const from = block.place[b], to = from + block.bytes[b];
            if (from > end) {
                begins.push(from);
                offsets.push(bytes);
            }
            if (to > end) {
                bytes += to - Math.max(from, end);
                end = to;
            }
        }
        return {begins, offsets, bytes};
    }

    // The place of an address in that layout.
    offsetOf(place) {
        const {begins, offsets} = this.layout;
        let low = 0, high = begins.length;
        while (low < high) {
            const middle = (low + high) >> 1;
            if (begins[middle] <= place) low = middle + 1;
            else high = middle;
        }
        return offsets[low - 1] + place - begins[low - 1];
    }

    opOf(block) { return this.paths[this.block.op[block]] ?? ""; }
    pathOf(block) { return this.paths[this.block.path[block]] ?? ""; }

    // Stretches of mapped addresses in a state: [[place, end], ...], by address. From the present ones backwards.
    mappedAt(state) {
        let ranges = [];
        for (let i = 0; i < this.segments.length; i += 2) {
            const place = this.segments[i] * this.unit;
            ranges.push([place, place + this.segments[i + 1] * this.unit]);
        }
        for (let i = this.pages.length - 1; i >= 0 && this.pages[i].event >= state; --i) {
            const {place, bytes} = this.pages[i], end = place + Math.abs(bytes);
            if (bytes < 0) ranges.push([place, end]);
            else ranges = ranges.flatMap(([a, b]) => [[a, Math.min(b, place)], [Math.max(a, end), b]].filter(r => r[0] < r[1]));
        }
        ranges.sort((a, b) => a[0] - b[0]);
        const joined = [];
        for (const range of ranges) {
            const last = joined.at(-1);
            if (last && last[1] === range[0]) last[1] = range[1];
            else joined.push([...range]);
        }
        return joined;
    }
}

const moduleText = path => path === "" ? "(no module)" : path;
