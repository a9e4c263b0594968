//! The plot of `fangorn drift`: the indices of the features that differ most, and their distributions.

use fangorn::{
    Forest,
    insight::{Drift, FeatureDrift},
};

use crate::{
    drift::{bin_text, shares},
    svg::{Anchor, Scale, Svg},
    text::{feature_name, number},
};

/// The maximum number of features that are drawn.
const MAX_FEATURES: usize = 8;
/// Width and height of a panel, in pixels.
const PANEL: [f64; 2] = [440.0, 190.0];
const PANELS_PER_LINE: usize = 2;
/// Pixels between panels.
const GAP: f64 = 12.0;

/// Draws the features that differ most, as SVG.
pub fn svg(forest: &Forest, drift: &Drift) -> String {
    let features = &drift.features[..drift.features.len().min(MAX_FEATURES)];
    let lines = features.len().div_ceil(PANELS_PER_LINE);
    let head = 44.0;
    let mut all =
        Svg::new(PANELS_PER_LINE as f64 * (PANEL[0] + GAP) + GAP, head + lines as f64 * (PANEL[1] + GAP));
    let [base, rows] = drift.rows;
    let title = format!("Drift of {rows} rows against a base of {base}");
    all.text([GAP, 20.0], Anchor::Start, "strong", &title);
    all.bar([GAP, 28.0], [10.0, 10.0], "bar", "base");
    all.text([GAP + 15.0, 37.0], Anchor::Start, "soft", "base");
    all.bar([GAP + 60.0, 28.0], [10.0, 10.0], "other", "rows");
    all.text([GAP + 75.0, 37.0], Anchor::Start, "soft", "rows");
    for (at, feature) in features.iter().enumerate() {
        let corner = [
            GAP + (at % PANELS_PER_LINE) as f64 * (PANEL[0] + GAP),
            head + (at / PANELS_PER_LINE) as f64 * (PANEL[1] + GAP),
        ];
        all.put(corner, &panel(forest, feature, drift.rows));
    }
    all.file(&title)
}

/// Draws the shares of both tables in each bin of a feature.
fn panel(forest: &Forest, feature: &FeatureDrift, rows: [u64; 2]) -> Svg {
    let [width, height] = PANEL;
    let mut svg = Svg::new(width, height);
    let name = feature_name(forest, feature.feature as usize);
    svg.name([0.0, 14.0], Anchor::Start, &name, width - 110.0);
    svg.text([width, 14.0], Anchor::End, "soft", &format!("PSI {}", number(feature.psi)));
    let shares = shares(feature, rows);
    let most = shares.iter().flatten().fold(0.0f64, |most, share| most.max(*share));
    let (left, bottom) = (34.0, height - 22.0);
    let y = Scale::new([0.0, most], [bottom, 24.0]);
    for tick in y.ticks(3) {
        svg.line([left, y.of(tick)], [width, y.of(tick)], "axis");
        let text = format!("{} %", number(100.0 * tick));
        svg.text([left - 4.0, y.of(tick) + 4.0], Anchor::End, "soft small", &text);
    }
    let stride = (width - left) / shares.len().max(1) as f64;
    for (at, (shares, (bin, _))) in shares.iter().zip(&feature.bins).enumerate() {
        let text = bin_text(forest, feature.feature, *bin);
        for (side, class) in ["bar", "other"].into_iter().enumerate() {
            let x = left + stride * (at as f64 + 0.12 + 0.38 * side as f64);
            let top = y.of(shares[side]);
            let title = format!("{text}: {:.2} %", 100.0 * shares[side]);
            svg.bar([x, top], [stride * 0.38, bottom - top], class, &title);
        }
    }
    let ends = [(0, left, Anchor::Start), (shares.len().saturating_sub(1), width, Anchor::End)];
    for (at, x, anchor) in ends.into_iter().take(shares.len().min(2)) {
        if let Some((bin, _)) = feature.bins.get(at) {
            let text = crate::svg::shorten(&bin_text(forest, feature.feature, *bin), 190.0);
            svg.text([x, height - 8.0], anchor, "soft small", &text);
        }
    }
    svg
}
