//! The kinds of pictures: bars, a summary of contributions, dependence on a feature, a waterfall, and histograms.

use fangorn::insight::Dependence;

use crate::{
    svg::{Anchor, Scale, Svg},
    text::number,
};

/// The width of pictures in pixels. It fits a phone, so that texts stay readable there.
const WIDTH: f64 = 420.0;
/// Room for the names of features.
const NAMES: f64 = 130.0;
/// The height of a line of bars.
const LINE: f64 = 22.0;
/// The maximum number of rows whose own lines are drawn in a dependence plot.
const MOST_LINES: usize = 60;
/// Room above and below the dots of a feature in a summary.
const SWARM: f64 = 26.0;
/// Shades of a value, from low to high.
const SHADES: usize = 9;

/// Returns the approximate width of a small text, in pixels.
fn width_of(text: &str) -> f64 {
    text.chars().count() as f64 * 6.0
}

/// Writes a small text below an axis, centred at `x`, or as near to it as the picture has room.
fn below(svg: &mut Svg, x: f64, y: f64, text: &str) {
    let half = width_of(text) / 2.0;
    let x = x.min(WIDTH - half).max(half);
    svg.text([x, y], Anchor::Middle, "soft small", text);
}

/// Draws a bar for each name.
pub fn bars(names: &[String], values: &[f64]) -> Svg {
    let mut svg = Svg::new(WIDTH, names.len() as f64 * LINE + 4.0);
    let largest = values.iter().fold(0.0f64, |most, value| most.max(*value));
    let least = values.iter().fold(0.0f64, |least, value| least.min(*value));
    let x = Scale::new([least, largest], [NAMES, WIDTH - 58.0]);
    for (at, (name, value)) in names.iter().zip(values).enumerate() {
        let y = at as f64 * LINE;
        svg.name([NAMES - 8.0, y + 15.0], Anchor::End, name, NAMES - 10.0);
        let [left, right] = [x.of(value.min(0.0)), x.of(value.max(0.0))];
        svg.bar([left, y + 3.0], [(right - left).max(1.0), LINE - 7.0], "bar", &format!("{name}: {value:?}"));
        svg.text([right + 5.0, y + 15.0], Anchor::Start, "soft small", &number(*value));
    }
    svg
}

/// One feature of a summary: its name, each row's contribution, and each row's value.
pub struct SwarmLine<'a> {
    pub name: String,
    pub contributions: Vec<f64>,
    pub values: &'a [f64],
}

/// Draws a dot for each row and feature. Dots to the right raise the margin. The colour is the feature's value.
pub fn summary(lines: &[SwarmLine<'_>]) -> Svg {
    let height = lines.len() as f64 * SWARM;
    let mut svg = Svg::new(WIDTH, height + 52.0);
    let all = || lines.iter().flat_map(|line| &line.contributions).copied();
    let (least, largest) = (all().fold(0.0, f64::min), all().fold(0.0, f64::max));
    let x = Scale::new([least, largest], [NAMES, WIDTH - 8.0]);
    svg.line([x.of(0.0), 0.0], [x.of(0.0), height], "axis");
    for (at, line) in lines.iter().enumerate() {
        let middle = (at as f64 + 0.5) * SWARM;
        svg.name([NAMES - 8.0, middle + 4.0], Anchor::End, &line.name, NAMES - 10.0);
        swarm(&mut svg, line, &x, middle);
    }
    ticks(&mut svg, &x, height, "contribution to the margin");
    legend(&mut svg, height + 44.0, lines.iter().any(|line| line.values.iter().any(|v| v.is_nan())));
    svg
}

/// Draws the shades of values, and what they mean.
fn legend(svg: &mut Svg, y: f64, has_missing: bool) {
    let (left, stride) = (WIDTH / 2.0 - 50.0, 5.0);
    svg.text([left - 8.0, y + 4.0], Anchor::End, "soft small", "low value");
    // The dots overlap, so that they make a band.
    let dots = SHADES * 4;
    for dot in 0..dots {
        svg.dots(&[[left + stride * 0.6 * dot as f64, y]], &colour(dot * SHADES / dots));
    }
    let right = left + stride * 0.6 * dots as f64 + 6.0;
    svg.text([right, y + 4.0], Anchor::Start, "soft small", "high value");
    if has_missing {
        svg.dots(&[[right + 76.0, y]], "missing");
        svg.text([right + 83.0, y + 4.0], Anchor::Start, "soft small", "missing");
    }
}

/// Draws the dots of a feature. Dots that would overlap are moved up and down in turns.
fn swarm(svg: &mut Svg, line: &SwarmLine<'_>, x: &Scale, middle: f64) {
    let mut present: Vec<f64> = line.values.iter().copied().filter(|value| !value.is_nan()).collect();
    present.sort_by(f64::total_cmp);
    let quantile = |share: f64| present.get((present.len() as f64 * share) as usize).copied().unwrap_or(0.0);
    let shades = Scale::new([quantile(0.05), quantile(0.95)], [0.0, SHADES as f64 - 0.01]);
    let bins: Vec<usize> = line.contributions.iter().map(|value| (x.of(*value) / 3.0) as usize).collect();
    let mut stacked = vec![0usize; (WIDTH / 3.0) as usize + 2];
    bins.iter().for_each(|bin| stacked[*bin] += 1);
    let tallest = stacked.iter().copied().max().unwrap_or(1).max(1);
    let stride = ((SWARM - 6.0) / tallest as f64).min(2.2);
    stacked.fill(0);
    let mut of_shade: Vec<Vec<[f64; 2]>> = vec![Vec::new(); SHADES + 1];
    for ((contribution, value), bin) in line.contributions.iter().zip(line.values).zip(bins) {
        let n = stacked[bin];
        stacked[bin] += 1;
        let offset = n.div_ceil(2) as f64 * if n.is_multiple_of(2) { stride } else { -stride };
        let shade = if value.is_nan() { SHADES } else { shades.of(*value) as usize };
        of_shade[shade.min(SHADES)].push([x.of(*contribution), middle + offset]);
    }
    for (shade, dots) in of_shade.iter().enumerate().filter(|(_, dots)| !dots.is_empty()) {
        match shade < SHADES {
            true => svg.dots(dots, &colour(shade)),
            false => svg.dots(dots, "missing"),
        }
    }
}

/// Returns the colour of a shade, from blue over purple to red, readable on light and on dark backgrounds.
fn colour(shade: usize) -> String {
    let ends = [
        [0x1e as f64, 0x88 as f64, 0xe5 as f64],
        [0x9c as f64, 0x4f as f64, 0xc4 as f64],
        [0xe8 as f64, 0x2f as f64, 0x62 as f64],
    ];
    let along = shade as f64 / (SHADES - 1) as f64 * 2.0;
    let (from, to) = if along < 1.0 { (ends[0], ends[1]) } else { (ends[1], ends[2]) };
    let mixed = [0, 1, 2].map(|c| (from[c] + (to[c] - from[c]) * along.fract()) as u8);
    // The last shade is the end itself.
    let [r, g, b] = if along >= 2.0 { ends[2].map(|c| c as u8) } else { mixed };
    format!("#{r:02x}{g:02x}{b:02x}")
}

/// Draws the numbers and the meaning of an axis below a picture.
fn ticks(svg: &mut Svg, x: &Scale, top: f64, what: &str) {
    for tick in x.ticks(5) {
        svg.line([x.of(tick), top], [x.of(tick), top + 4.0], "axis");
        below(svg, x.of(tick), top + 15.0, &number(tick));
    }
    svg.text([x.middle(), top + 29.0], Anchor::Middle, "soft small", what);
}

/// Draws partial dependence over the lines of some rows. `value_text` returns a category's name.
pub fn dependence_of(
    found: &Dependence,
    output: usize,
    column: &[f64],
    value_text: impl Fn(f64) -> String,
) -> Svg {
    let (height, left, right) = (220.0, 44.0, WIDTH - 8.0);
    let mut svg = Svg::new(WIDTH, height + 24.0);
    let grid = found.grid.values();
    let numbers = grid.iter().filter(|value| !value.is_nan()).count();
    let has_missing = numbers < grid.len();
    let end = if has_missing { right - 46.0 } else { right };
    let partial = found.partial_of(output);
    let rows = found.individual.len() / (grid.len() * found.outputs).max(1);
    let lines: Vec<Vec<f32>> =
        (0..rows.min(MOST_LINES)).map(|row| found.individual_of(row, output)).collect();
    let all = || lines.iter().flatten().map(|v| f64::from(*v)).chain(partial.iter().copied());
    let y = Scale::new(
        [all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max)],
        [height - 8.0, 8.0],
    );
    for tick in y.ticks(5) {
        svg.line([left, y.of(tick)], [right, y.of(tick)], "axis");
        svg.text([left - 5.0, y.of(tick) + 3.5], Anchor::End, "soft small", &number(tick));
    }
    let of_categories = found.grid.is_of_categories();
    let stride = (end - left) / numbers.max(1) as f64;
    let x = Scale::new(
        [grid.first().copied().unwrap_or(0.0), numbers.checked_sub(1).map_or(0.0, |last| grid[last])],
        [left + 6.0, end - 6.0],
    );
    let x_at = |at: usize| match (at < numbers, of_categories) {
        (false, _) => right - 18.0,
        (true, true) => left + stride * (at as f64 + 0.5),
        (true, false) => x.of(grid[at]),
    };
    let points = |values: &mut dyn Iterator<Item = f64>| -> Vec<[f64; 2]> {
        values.enumerate().map(|(at, value)| [x_at(at), y.of(value)]).collect()
    };
    // Categories have no order, so no line leads from one to the next.
    let lined = if of_categories { 0 } else { numbers };
    let mut dots = Vec::new();
    for line in &lines {
        let points = points(&mut line.iter().map(|v| f64::from(*v)));
        svg.path(&points[..lined], "ice");
        dots.extend_from_slice(&points[if lined > 1 { lined } else { 0 }..]);
    }
    svg.dots(&dots, "faint");
    let mean = points(&mut partial.iter().copied());
    svg.path(&mean[..lined], "mean");
    mean[if lined > 1 { lined } else { 0 }..].iter().for_each(|point| svg.spot(*point, 4.0, "spot"));
    match of_categories {
        true => {
            let every = (numbers as f64 * 40.0 / (end - left)).ceil().max(1.0) as usize;
            for at in (0..numbers).step_by(every) {
                let text = crate::svg::shorten(&value_text(grid[at]), stride * every as f64);
                below(&mut svg, x_at(at), height + 8.0, &text);
            }
        }
        false => {
            for tick in x.ticks(5) {
                below(&mut svg, x.of(tick), height + 8.0, &number(tick));
            }
            deciles(column).into_iter().for_each(|value| {
                svg.line([x.of(value), height - 8.0], [x.of(value), height - 3.0], "tick");
            });
        }
    }
    if has_missing {
        svg.text([right - 18.0, height + 8.0], Anchor::Middle, "soft small", "missing");
    }
    svg
}

/// Returns the deciles of the values that are not missing.
fn deciles(column: &[f64]) -> Vec<f64> {
    let mut present: Vec<f64> = column.iter().copied().filter(|value| !value.is_nan()).collect();
    present.sort_by(f64::total_cmp);
    (1..10).filter_map(|tenth| present.get(present.len() * tenth / 10).copied()).collect()
}

/// Draws how contributions lead from the expected margin to the margin of a row, the largest ones on top. Each has a
/// feature's name with its value.
pub fn waterfall(expected: f64, contributions: &[(String, f64)]) -> Svg {
    let height = contributions.len() as f64 * LINE;
    let mut svg = Svg::new(WIDTH, height + 54.0);
    // From the bottom up: the sum before each contribution.
    let mut before = vec![expected; contributions.len()];
    let mut margin = expected;
    for (at, (_, contribution)) in contributions.iter().enumerate().rev() {
        before[at] = margin;
        margin += contribution;
    }
    let ends = || before.iter().copied().chain([margin, expected]);
    let names = 160.0;
    let x = Scale::new(
        [ends().fold(f64::INFINITY, f64::min), ends().fold(f64::NEG_INFINITY, f64::max)],
        [names + 44.0, WIDTH - 52.0],
    );
    let top = 20.0;
    let text = format!("margin {}", number(margin));
    let half = width_of(&text) / 2.0 + 8.0;
    svg.text([x.of(margin).min(WIDTH - half), 12.0], Anchor::Middle, "strong small", &text);
    svg.line([x.of(margin), top - 4.0], [x.of(margin), top + 2.0], "axis");
    svg.line([x.of(expected), top], [x.of(expected), top + height + 4.0], "axis");
    for (at, (name, contribution)) in contributions.iter().enumerate() {
        let y = top + at as f64 * LINE;
        svg.name([names - 8.0, y + 15.0], Anchor::End, name, names - 10.0);
        let ends = [x.of(before[at]), x.of(before[at] + contribution)];
        let [left, right] = [ends[0].min(ends[1]), ends[0].max(ends[1])];
        let class = if *contribution < 0.0 { "down" } else { "up" };
        let title = format!("{name}: {contribution:?}");
        svg.bar([left, y + 3.0], [(right - left).max(1.0), LINE - 7.0], class, &title);
        let sign = if *contribution < 0.0 { "" } else { "+" };
        let text = format!("{sign}{}", number(*contribution));
        // The number stands at the end of its bar, or on the other side if there is no room.
        let room = width_of(&text) + 7.0;
        let to_left = if class == "down" { left - room > names } else { right + room > WIDTH };
        match to_left {
            true => svg.text([left - 5.0, y + 15.0], Anchor::End, "soft small", &text),
            false => svg.text([right + 5.0, y + 15.0], Anchor::Start, "soft small", &text),
        }
    }
    below(&mut svg, x.of(expected), top + height + 16.0, &format!("expected {}", number(expected)));
    svg
}

/// The height of the tallest bar of counts, and the left and right ends of their axis.
const COUNTS_HEIGHT: f64 = 130.0;
const COUNTS_ENDS: [f64; 2] = [48.0, WIDTH - 12.0];

/// Returns a picture with lines for some counts, and the scale of the counts.
fn counts_picture(counts: &[usize]) -> (Svg, Scale) {
    let [left, right] = COUNTS_ENDS;
    let mut svg = Svg::new(WIDTH, COUNTS_HEIGHT + 36.0);
    let most = counts.iter().copied().max().unwrap_or(0) as f64;
    let y = Scale::new([0.0, most.max(1.0)], [COUNTS_HEIGHT, 8.0]);
    for tick in y.ticks(3).into_iter().filter(|tick| tick.fract() == 0.0) {
        svg.line([left, y.of(tick)], [right, y.of(tick)], "axis");
        svg.text([left - 5.0, y.of(tick) + 3.5], Anchor::End, "soft small", &number(tick));
    }
    (svg, y)
}

/// Draws counts as bars side by side over an axis from one number to another.
pub fn histogram(counts: &[usize], [from, to]: [f64; 2], what: &str) -> Svg {
    let (height, [left, right]) = (COUNTS_HEIGHT, COUNTS_ENDS);
    let (mut svg, y) = counts_picture(counts);
    let x = Scale::new([from, to], [left, right]);
    let stride = (right - left) / counts.len().max(1) as f64;
    let gap = (0.12 * stride).min(4.0);
    for (at, count) in counts.iter().enumerate() {
        let top = y.of(*count as f64);
        let corner = [left + stride * at as f64 + gap / 2.0, top];
        svg.bar(corner, [stride - gap, height - top], "bar", &count.to_string());
    }
    svg.line([left, height], [right, height], "axis");
    ticks(&mut svg, &x, height, what);
    svg
}

/// Draws counts as bars side by side, with a text below each.
pub fn columns(counts: &[usize], texts: &[String], what: &str) -> Svg {
    let (height, [left, right]) = (COUNTS_HEIGHT, COUNTS_ENDS);
    let (mut svg, y) = counts_picture(counts);
    let stride = (right - left) / counts.len().max(1) as f64;
    let widest = texts.iter().map(|text| text.chars().count()).max().unwrap_or(1) as f64 * 6.5 + 6.0;
    let every = (widest / stride).ceil().max(1.0) as usize;
    let gap = (0.25 * stride).min(12.0);
    for (at, (count, text)) in counts.iter().zip(texts).enumerate() {
        let (middle, top) = (left + stride * (at as f64 + 0.5), y.of(*count as f64));
        let width = (stride - gap).min(40.0);
        svg.bar([middle - width / 2.0, top], [width, height - top], "bar", &format!("{text}: {count}"));
        if at % every == 0 {
            svg.text([middle, height + 15.0], Anchor::Middle, "soft small", text);
        }
    }
    svg.line([left, height], [right, height], "axis");
    svg.text([(left + right) / 2.0, height + 29.0], Anchor::Middle, "soft small", what);
    svg
}
