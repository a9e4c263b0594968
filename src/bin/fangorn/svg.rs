//! Pictures as SVG text: shapes, escaped text, and scales. Colours are classes of a style sheet, so that a picture is
//! readable on a light and on a dark background.

use std::fmt::Write as _;

/// The colours and fonts of all pictures. Blue and red stay apart for people with any color vision.
pub const STYLE: &str = "\
:root{--ink:#1b1f24;--soft:#57606a;--line:#d0d7de;--ground:#fff;--blue:#0969b8;--red:#c8374a;--bar:#3b7fc4;--other:#e08e2b;--grey:#8c959f}
@media (prefers-color-scheme:dark){:root{--ink:#e6edf3;--soft:#9da7b1;--line:#39414b;--ground:#12161c;--blue:#58a6ff;--red:#ff6b7d;--bar:#5a9fe0;--other:#e8a552;--grey:#7d8590}}
@media print{:root{--ink:#000;--soft:#444;--line:#ccc;--ground:#fff;--blue:#0969b8;--red:#c8374a;--bar:#3b7fc4;--other:#e08e2b;--grey:#8c959f}}
svg{font:12px system-ui,sans-serif;fill:var(--ink)}
svg .soft{fill:var(--soft)}svg .small{font-size:10px}svg .strong{font-weight:600}
svg .axis{stroke:var(--line);fill:none}svg .bar{fill:var(--bar)}svg .other{fill:var(--other)}
svg .up{fill:var(--red)}svg .down{fill:var(--blue)}
svg .ice{stroke:var(--grey);stroke-opacity:.35;fill:none;stroke-width:1}
svg .mean{stroke:var(--red);fill:none;stroke-width:2.5;stroke-linejoin:round}svg .spot{fill:var(--red)}
svg .dots{fill:none;stroke-width:4;stroke-linecap:round;stroke-opacity:.75}
svg .missing{stroke:var(--grey)}svg .faint{stroke:var(--grey);stroke-width:3;stroke-opacity:.4}
";

/// Returns a text for HTML and SVG. Characters that XML forbids become replacement characters.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' | '\r' => out.push(' '),
            // Marks that change the direction of text would also change that of the text after them.
            c if c.is_control()
                || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{fffe}' | '\u{ffff}') =>
            {
                out.push('\u{fffd}');
            }
            c => out.push(c),
        }
    }
    out
}

/// Returns the approximate width of a character in pixels, in text of 12 pixels. Letters of East Asia are twice as
/// wide.
fn width_of(c: char) -> f64 {
    if c as u32 >= 0x1100 { 13.0 } else { 6.8 }
}

/// Returns as much of a text as fits into `pixels`, with dots if something is left out.
pub fn shorten(text: &str, pixels: f64) -> String {
    let all: f64 = text.chars().map(width_of).sum();
    if all <= pixels {
        return text.to_owned();
    }
    let mut left = pixels - width_of('…');
    let fits = |c: &char| {
        left -= width_of(*c);
        left >= 0.0
    };
    let mut kept: String = text.chars().take_while(fits).collect();
    kept.push('…');
    kept
}

/// The point of a text that lies at the given coordinates.
#[derive(Clone, Copy, Debug)]
pub enum Anchor {
    /// Its beginning.
    Start,
    /// Its middle.
    Middle,
    /// Its end.
    End,
}

/// A picture that is being drawn.
#[derive(Clone, Debug)]
pub struct Svg {
    width: f64,
    height: f64,
    body: String,
}

/// Returns a coordinate with one decimal.
fn at(pixels: f64) -> String {
    let text = format!("{pixels:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

impl Svg {
    /// Returns an empty picture of a width and a height in pixels.
    pub fn new(width: f64, height: f64) -> Self {
        Self { width, height, body: String::new() }
    }

    /// Writes a text with its base line at a point.
    pub fn text(&mut self, [x, y]: [f64; 2], anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        let _ = writeln!(
            self.body,
            "<text x=\"{}\" y=\"{}\"{anchor}{class}>{}</text>",
            at(x),
            at(y),
            escaped(text)
        );
    }

    /// Writes a name, cut to fit into `pixels`. If it is cut, the whole name is shown under the pointer.
    pub fn name(&mut self, point: [f64; 2], anchor: Anchor, name: &str, pixels: f64) {
        let short = shorten(name, pixels);
        if short == name {
            return self.text(point, anchor, "", name);
        }
        let _ = write!(self.body, "<g><title>{}</title>", escaped(name));
        self.text(point, anchor, "", &short);
        self.body.push_str("</g>\n");
    }

    /// Draws a straight line.
    pub fn line(&mut self, [x1, y1]: [f64; 2], [x2, y2]: [f64; 2], class: &str) {
        let [x1, y1, x2, y2] = [x1, y1, x2, y2].map(at);
        let _ =
            writeln!(self.body, "<line x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\" class=\"{class}\"/>");
    }

    /// Draws a rectangle, with a title that is shown under the pointer.
    pub fn bar(&mut self, [x, y]: [f64; 2], [width, height]: [f64; 2], class: &str, title: &str) {
        let [x, y, width, height] = [x, y, width.max(0.0), height.max(0.0)].map(at);
        let _ = writeln!(
            self.body,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" class=\"{class}\"><title>{}</title></rect>",
            escaped(title)
        );
    }

    /// Draws lines from point to point, or nothing if there are fewer than two points.
    pub fn path(&mut self, points: &[[f64; 2]], class: &str) {
        if points.len() < 2 {
            return;
        }
        let mut d = String::new();
        for (n, [x, y]) in points.iter().enumerate() {
            let _ = write!(d, "{}{} {}", if n == 0 { "M" } else { "L" }, at(*x), at(*y));
        }
        let _ = writeln!(self.body, "<path class=\"{class}\" d=\"{d}\"/>");
    }

    /// Draws a disc.
    pub fn spot(&mut self, [x, y]: [f64; 2], radius: f64, class: &str) {
        let _ = writeln!(
            self.body,
            "<circle cx=\"{}\" cy=\"{}\" r=\"{}\" class=\"{class}\"/>",
            at(x),
            at(y),
            at(radius)
        );
    }

    /// Draws dots of one colour. `colour` is a number such as `#rrggbb`, or otherwise a class.
    pub fn dots(&mut self, points: &[[f64; 2]], colour: &str) {
        if points.is_empty() {
            return;
        }
        let mut d = String::new();
        for [x, y] in points {
            let _ = write!(d, "M{} {}h0", at(*x), at(*y));
        }
        let _ = match colour.starts_with('#') {
            true => writeln!(self.body, "<path class=\"dots\" stroke=\"{colour}\" d=\"{d}\"/>"),
            false => writeln!(self.body, "<path class=\"dots {colour}\" d=\"{d}\"/>"),
        };
    }

    /// Adds another picture at a point.
    pub fn put(&mut self, [x, y]: [f64; 2], other: &Self) {
        let _ = write!(self.body, "<g transform=\"translate({} {})\">\n{}</g>\n", at(x), at(y), other.body);
    }

    /// Returns the picture as an element of an HTML page, with a label for screen readers.
    pub fn element(&self, label: &str) -> String {
        let [width, height] = [self.width, self.height].map(at);
        format!(
            "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\">\n{}</svg>\n",
            escaped(label),
            self.body
        )
    }

    /// Returns the picture as a complete SVG file.
    pub fn file(&self, label: &str) -> String {
        let [width, height] = [self.width, self.height].map(at);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
             role=\"img\" aria-label=\"{}\">\n<style>{STYLE}</style>\n\
             <rect width=\"{width}\" height=\"{height}\" style=\"fill:var(--ground)\"/>\n{}</svg>\n",
            escaped(label),
            self.body
        )
    }
}

/// A linear map from numbers to pixels.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    from: [f64; 2],
    to: [f64; 2],
}

impl Scale {
    /// Returns the scale that maps the ends of `from` to the ends of `to`. Equal or infinite ends are replaced.
    pub fn new(from: [f64; 2], to: [f64; 2]) -> Self {
        let [mut least, mut largest] = from;
        if !(least.is_finite() && largest.is_finite()) {
            [least, largest] = [0.0, 1.0];
        }
        if least >= largest {
            let apart = least.abs().max(1.0) * 0.05;
            [least, largest] = [least - apart, least + apart];
        }
        Self { from: [least, largest], to }
    }

    /// Returns the pixel of a number. Numbers beyond the ends lie at the ends.
    pub fn of(&self, number: f64) -> f64 {
        let [least, largest] = self.from;
        // Halving both keeps the differences finite.
        let ratio = (number / 2.0 - least / 2.0) / (largest / 2.0 - least / 2.0);
        self.to[0] + ratio.clamp(0.0, 1.0) * (self.to[1] - self.to[0])
    }

    /// Returns the pixel in the middle.
    pub fn middle(&self) -> f64 {
        (self.to[0] + self.to[1]) / 2.0
    }

    /// Returns round numbers between the ends, at equal distances: at most `most + 1`.
    pub fn ticks(&self, most: usize) -> Vec<f64> {
        let [least, largest] = self.from;
        let rough = (largest / most.max(1) as f64) - (least / most.max(1) as f64);
        let power = 10f64.powf(rough.log10().floor());
        let stride = [1.0, 2.0, 5.0, 10.0].map(|n| n * power).into_iter().find(|stride| *stride >= rough);
        let Some(stride) = stride.filter(|stride| stride.is_finite() && *stride > 0.0) else {
            return Vec::new();
        };
        let first = (least / stride).ceil();
        let ticks = (0..=most).map(|n| (first + n as f64) * stride).take_while(|tick| *tick <= largest);
        // Adding zero turns -0 into 0.
        ticks.map(|tick| tick + 0.0).collect()
    }
}
