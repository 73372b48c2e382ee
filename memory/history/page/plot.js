// A canvas with a plot on it, and what stands beside and above it: marks of axes and text. What extends it says where
// values are: y(value).
class Plot {
    // `margin`: beside the plot, {left, right, top, bottom}, in pixels of the page.
    constructor(canvas, margin) {
        Object.assign(this, {canvas, margin, context: canvas.getContext("2d")});
    }

    resize() {
        const ratio = window.devicePixelRatio || 1, box = this.canvas.getBoundingClientRect(), {margin} = this;
        this.ratio = ratio;
        this.canvas.width = Math.round(box.width * ratio);
        this.canvas.height = Math.round(box.height * ratio);
        this.left = Math.round(margin.left * ratio);
        this.top = Math.round(margin.top * ratio);
        this.stroke = Math.max(1, Math.round(1.4 * ratio));  // a line of whole pixels
        this.crisp = this.stroke % 2 / 2;
        this.width = Math.max(this.canvas.width - this.left - Math.round(margin.right * ratio), 1);
        this.height = Math.max(this.canvas.height - this.top - Math.round(margin.bottom * ratio), 1);
    }

    clear(colors) {
        const {context: c} = this;
        c.clearRect(0, 0, this.canvas.width, this.canvas.height);
        c.lineJoin = "round";
        c.fillStyle = colors.plot;
        c.fillRect(this.left, this.top, this.width, this.height);
    }

    // Lines at round values from 0 to `end`; textOf(value, step) stands on their left.
    drawRows(end, textOf, colors) {
        const step = roundStep(end / (this.height / (42 * this.ratio)));
        for (let value = 0; value <= end; value += step)
            this.drawRow(value, textOf(value, step), value === 0 ? colors.rule : colors.grid, colors);
    }

    drawRow(value, text, color, colors) {
        const {context: c, ratio} = this, y = Math.round(this.y(value));
        c.fillStyle = color;
        c.fillRect(this.left, y, this.width, Math.max(1, Math.round(ratio)));
        this.plain(text, this.left - 8 * ratio, y, colors, "right");
    }

    // Through points of the canvas; lengths of dashes and gaps are in pixels of the page.
    drawLine(points, color, dashes = []) {
        const {context: c} = this;
        c.save();
        c.setLineDash(dashes.map(length => length * this.ratio));
        c.strokeStyle = color;
        c.lineWidth = this.stroke;
        c.beginPath();
        for (const [x, y] of points) c.lineTo(x, y);
        c.stroke();
        c.restore();
    }

    // What the axis below the plot shows.
    drawTitle(text, colors) {
        this.plain(text, this.left + this.width, this.canvas.height - 9 * this.ratio, colors, "right");
    }

    // Of the axis below the plot.
    mark(x, text, colors) {
        const {context: c, ratio} = this;
        c.fillStyle = colors.rule;
        c.fillRect(Math.round(x), this.top + this.height, Math.ceil(ratio), 4 * ratio);
        this.plain(text, x, this.top + this.height + 12 * ratio + 1, colors, "center");
    }

    // Text with a border that keeps it legible over the drawing.
    label(text, x, y, color, colors) {
        const {context: c, ratio} = this;
        c.font = `${12 * ratio}px ${colors.font}`;
        c.textAlign = "left";
        c.textBaseline = "alphabetic";
        c.lineWidth = 3.5 * ratio;
        c.strokeStyle = colors.plot;
        c.strokeText(text, x, y);
        c.fillStyle = color;
        c.fillText(text, x, y);
    }

    plain(text, x, y, colors, align) {
        const {context: c} = this;
        c.font = `${11.5 * this.ratio}px ${colors.font}`;
        c.textAlign = align;
        c.textBaseline = "middle";
        c.fillStyle = colors.quiet;
        c.fillText(text, x, y);
    }

    // Text in a box of its own, beside (x, y) or, where there is no room, on the other side of it.
    flag(text, x, y, color, colors) {
        const {context: c, ratio} = this, pad = 6 * ratio, high = 19 * ratio;
        c.font = `600 ${12 * ratio}px ${colors.font}`;
        const wide = c.measureText(text).width + 2 * pad;
        const left = x + 10 * ratio + wide > this.left + this.width ? x - 10 * ratio - wide : x + 10 * ratio;
        const top = Math.max(y - high / 2, this.top - 16 * ratio);
        c.beginPath();
        c.roundRect(Math.round(left) + 0.5, Math.round(top) + 0.5, Math.round(wide), Math.round(high), 4 * ratio);
        c.fillStyle = colors.plot;
        c.strokeStyle = color;
        c.lineWidth = ratio;
        c.fill();
        c.stroke();
        c.textAlign = "left";
        c.textBaseline = "middle";
        c.fillStyle = color;
        c.fillText(text, left + pad, top + high / 2 + ratio);
    }
}

// The font of the page's CSS, and its colours by their names.
function readColors(names) {
    const style = getComputedStyle(document.documentElement), get = name => style.getPropertyValue(`--${name}`).trim();
    return {font: get("sans"), ...Object.fromEntries(names.map(name => [name, get(name)]))};
}

// Shows what the tip holds beside a place in the window.
function placeTip(tip, clientX, clientY) {
    tip.hidden = false;
    const box = tip.getBoundingClientRect(), right = clientX + 18 + box.width < document.documentElement.clientWidth;
    const top = Math.max(Math.min(clientY + 14, window.innerHeight - box.height - 8), 8);
    tip.style.left = `${window.scrollX + (right ? clientX + 18 : Math.max(clientX - 18 - box.width, 4))}px`;
    tip.style.top = `${window.scrollY + top}px`;
}
