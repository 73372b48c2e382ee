// Figures and elements as text.

// As Headroom prints bytes: powers of 1000, exact below 10,000.
function bytesText(bytes, digits = 1) {
    if (bytes < 10000) return `${bytes} B`;
    const units = ["kB", "MB", "GB", "TB", "PB"];
    let value = bytes / 1000, unit = 0;
    while (value >= 999.95 && unit + 1 < units.length) {
        value /= 1000;
        ++unit;
    }
    return `${value.toFixed(digits)} ${units[unit]}`;
}

// Of a mark of an axis, a round number of bytes.
const roundBytesText = bytes => bytes === 0 ? "0" : bytesText(bytes).replace(".0 ", " ");

const exactText = bytes => `${bytes.toLocaleString("en")} bytes`;

// Steps count from 1, as on a terminal.
const stepText = step => step === 0 ? "setup" : `step ${step}`;

function percentText(share) {
    const percent = 100 * share;
    if (percent !== 0 && Math.abs(percent) < 0.1) return "< 0.1 %";
    return `${percent.toFixed(1)} %`;
}

function timeUnit(nanoseconds) {
    return nanoseconds >= 1e9 ? [1e9, "s"] : nanoseconds >= 1e6 ? [1e6, "ms"] : nanoseconds >= 1e3 ? [1e3, "\u00b5s"] : [1, "ns"];
}

function timeText(nanoseconds) {
    const [unit, name] = timeUnit(nanoseconds);
    return `${(nanoseconds / unit).toFixed(unit === 1 ? 0 : 2)} ${name}`;
}

// Behind the decimal point, of numbers that are `step` apart.
const digitsOf = step => Math.max(0, Math.ceil(-Math.log10(step) - 1e-9));

// Of a mark of an axis that ends at `end` and whose marks are `step` apart.
function markText(nanoseconds, step, end) {
    if (nanoseconds === 0) return "0";
    let [unit, name] = timeUnit(end);
    if (digitsOf(step / unit) > 3) [unit, name] = timeUnit(step * 1000);
    return `${(nanoseconds / unit).toFixed(digitsOf(step / unit))} ${name}`;
}

// A round number of at least `least`: 1, 2 or 5 times a power of ten.
function roundStep(least) {
    const power = 10 ** Math.floor(Math.log10(least));
    return power * [1, 2, 5, 10].find(factor => factor * power >= least * (1 - 1e-9));
}

// An element; `content` is text, elements or a mixture. Text stays text, whatever is in it.
function element(name, attributes = {}, ...content) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
        if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
        else if (key === "style") made.style.cssText = value;
        else if (value !== null && value !== undefined) made.setAttribute(key, value);
    }
    made.append(...content);
    return made;
}

const byId = id => document.getElementById(id);
