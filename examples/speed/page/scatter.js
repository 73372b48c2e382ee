// Drawing the points: a circle or a diamond says whose it is, its colour the technique; a hollow one is predicted.

function speedMark(speed, step) {
    const digits = digitsOf(step), format = {minimumFractionDigits: digits, maximumFractionDigits: digits};
    return speed === 0 ? "0" : speed.toLocaleString("en", format);
}

class Scatter extends Plot {
    constructor(canvas, comparison) {
        super(canvas, {left: 58, right: 18, top: 30, bottom: 44});
        this.comparison = comparison;
        // A line for the bytes that were asked about, unless they are so many that the points would lie close together.
        const most = Math.max(1, ...comparison.points.map(point => point.memory)), within = comparison.data.within_bytes;
        this.within = within != null && within <= 2 * most ? within : null;
        this.mostMemory = 1.08 * Math.max(most, this.within ?? 0);
        this.mostSpeed = 1.1 * Math.max(0, ...comparison.points.map(point => point.speed)) || 1;
    }

    x(memory) { return this.left + this.width * memory / this.mostMemory; }
    y(speed) { return this.top + this.height * (1 - speed / this.mostSpeed); }

    // Where a point is in the window.
    placeOf(point) {
        const box = this.canvas.getBoundingClientRect();
        return [box.left + this.x(point.memory) / this.ratio, box.top + this.y(point.speed) / this.ratio];
    }

    // The point of `points` that is next to a place in the window, or null; of several the one that is drawn above.
    pointAt(points, clientX, clientY) {
        let nearest = null, least = 16;
        for (const point of points) {
            const [x, y] = this.placeOf(point), far = Math.hypot(x - clientX, y - clientY);
            if (far <= least) [nearest, least] = [point, far];
        }
        return nearest;
    }

    // The points whose marks hide that of `point`, or are hidden by it.
    besides(point, points) {
        const near = (a, b) => Math.abs(a - b) <= 3 * this.ratio;
        return points.filter(other => other !== point && near(this.x(other.memory), this.x(point.memory)) &&
            near(this.y(other.speed), this.y(point.speed)));
    }

    // `alone` is the technique that is looked at, and `chosen` a point, or null.
    draw(colors, alone, chosen) {
        const {data, points, fronts} = this.comparison;
        const faint = point => alone !== null && alone !== point.data.technique;
        this.clear(colors);
        this.drawRows(this.mostSpeed, speedMark, colors);
        this.drawBottom(colors);
        this.plain(`${data.samples} per second`, 10 * this.ratio, 12 * this.ratio, colors, "left");
        if (this.within !== null) this.drawWithin(colors);
        for (const [framework, front] of fronts) this.drawFront(front, framework !== "headroom", colors);
        if (chosen) this.drawGuides(chosen, colors);
        for (const point of points) this.drawPoint(point, faint(point) ? 0.15 : 1, colors);
        if (chosen) this.drawPoint(chosen, 1, colors);
        this.drawNames([...fronts.values()].flat().filter(point => !faint(point)), colors);
    }

    drawBottom(colors) {
        const most = this.mostMemory, step = roundStep(most / (this.width / (90 * this.ratio)));
        for (let bytes = 0; bytes <= most; bytes += step) this.mark(this.x(bytes), roundBytesText(bytes), colors);
        this.drawTitle("peak of reserved memory", colors);
    }

    drawWithin(colors) {
        const {context: c, ratio} = this, x = Math.round(this.x(this.within));
        c.fillStyle = colors.alert;
        c.fillRect(x, this.top, Math.ceil(ratio), this.height);
        this.flag(`within ${bytesText(this.within, 2)}`, x, this.top, colors.alert, colors);
    }

    // In stairs: with the memory of one point, what is between it and the next is no faster than it.
    drawFront(front, dashed, colors) {
        const stairs = front.flatMap(({memory, speed}, i) =>
            [front[Math.max(i - 1, 0)].speed, speed].map(height => [this.x(memory), this.y(height)]));
        this.drawLine(stairs, colors.quiet, dashed ? [5, 4] : []);
    }

    drawGuides(point, colors) {
        const {context: c, ratio} = this, x = Math.round(this.x(point.memory)), y = Math.round(this.y(point.speed));
        c.fillStyle = colors.accent;
        c.fillRect(this.left, y, x - this.left, Math.ceil(ratio));
        c.fillRect(x, y, Math.ceil(ratio), this.top + this.height - y);
    }

    drawPoint(point, opacity, colors) {
        const {context: c, ratio} = this, x = this.x(point.memory), y = this.y(point.speed);
        const color = colors.technique[this.comparison.techniques.indexOf(point.data.technique)];
        c.globalAlpha = opacity;
        c.beginPath();
        const corners = [[0, -8], [8, 0], [0, 8], [-8, 0]];
        if (point.data.framework === "headroom") c.arc(x, y, 6 * ratio, 0, 2 * Math.PI);
        else for (const [across, down] of corners) c.lineTo(x + across * ratio, y + down * ratio);
        c.closePath();
        c.lineWidth = 2 * ratio;
        c.fillStyle = point.predicted ? colors.plot : color;
        c.strokeStyle = point.predicted ? color : colors.plot;
        c.fill();
        c.stroke();
        if (!point.covered) {
            c.beginPath();
            c.arc(x, y, 12 * ratio, 0, 2 * Math.PI);
            c.strokeStyle = colors.ink;
            c.stroke();
        }
        if (point.faults.length > 0) this.label("!", x - 12 * ratio, y - 5 * ratio, colors.alert, colors);
        c.globalAlpha = 1;
    }

    // Beside their points, where they are over no other's name and no point.
    drawNames(points, colors) {
        const {context: c, ratio, canvas} = this, room = 8 * ratio, high = 14 * ratio;
        const taken = this.comparison.points.map(({memory, speed}) => {
            const x = this.x(memory), y = this.y(speed);
            return {left: x - room, right: x + room, top: y - room, bottom: y + room};
        });
        const apart = (a, b) => a.right < b.left || b.right < a.left || a.bottom < b.top || b.bottom < a.top;
        c.font = `${12 * ratio}px ${colors.font}`;
        for (const {data, memory, speed} of points) {
            const name = `${data.technique}: ${data.name}`, wide = c.measureText(name).width;
            const x = this.x(memory), y = this.y(speed), aside = 13 * ratio;
            const places = [[x + aside, y - 9 * ratio], [x + aside, y + 18 * ratio], [x - aside - wide, y - 9 * ratio]];
            const inside = box => box.left > this.left && box.right < canvas.width;
            const free = places.map(([left, bottom]) => ({left, right: left + wide, top: bottom - high, bottom}))
                .find(box => inside(box) && taken.every(other => apart(box, other)));
            if (!free) continue;
            taken.push(free);
            this.label(name, free.left, free.bottom, colors.ink, colors);
        }
    }
}
