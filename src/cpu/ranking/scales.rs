//! Which scale the columns of a feature are ranked on by cells.

use super::{
    cells::{MOST_SLOTS, Scale, fullest},
    search::BLOCK,
};

/// Lines of cells that a scale may have.
const LINES: [usize; 3] = [1, 2, 4];
/// Lengths that are tried of a scale.
const LENGTHS: u8 = 4;
/// Of a step, how far numbers are from each other at least that are written with few decimals.
const COARSE: f64 = 1.0 / 8.0;
/// More than one threshold of so many that is written so is too many.
const FEW_WRITTEN: usize = 8;

/// Cycles of 64 rows, about, by the ports that instructions take.
#[derive(Clone, Copy, Debug)]
pub(super) struct CellCosts {
    /// Of making a line's keys.
    pub(super) keys: f64,
    /// Of a column, and of one that may have unsure values.
    column: [f64; 2],
    /// Of a slot beside what is looked up, by the same.
    slot: [f64; 2],
    /// Of looking up in a table of 1, 2 and 4 lines.
    look_up: [f64; LINES.len()],
    /// Of an unsure value.
    unsure: f64,
}

impl CellCosts {
    /// Of a machine with AVX-512 and VBMI.
    pub(super) const VBMI: Self =
        Self { keys: 340.0, column: [8.0, 11.0], slot: [1.2, 2.4], look_up: [0.8, 1.8, 4.0], unsure: 16.0 };

    /// Cycles of a column of thresholds on a scale, if it can be ranked there.
    pub(super) fn cycles(&self, thresholds: &[f32], scale: &OnScale) -> Option<f64> {
        let slots = fullest(&scale.scale, thresholds);
        if slots == 0 || slots > MOST_SLOTS {
            return None;
        }
        let unsure = thresholds.iter().filter(|t| !scale.scale.is_sure(**t)).count();
        let kind = usize::from(unsure > 0);
        let look_up = LINES.iter().position(|lines| *lines == scale.lines).map(|i| self.look_up[i])?;
        let (slots, values) = (slots as f64, (BLOCK * unsure) as f64 / Scale::steps(scale.lines));
        Some(self.column[kind] + look_up * (1.0 + slots) + self.slot[kind] * slots + self.unsure * values)
    }

    /// The scale on which a feature's columns of ascending thresholds, which are finite, are ranked the fastest.
    pub(super) fn best(&self, columns: &[&[f32]]) -> Option<OnScale> {
        let thresholds = || columns.iter().flat_map(|own| own.iter().copied());
        let first = thresholds().min_by(f32::total_cmp)?;
        let last = thresholds().max_by(f32::total_cmp)?;
        let cycles = |scale: &OnScale| {
            let each = || columns.iter().map(|own| self.cycles(own, scale));
            scale.fits(first, last).then(|| each().sum::<Option<f64>>()).flatten()
        };
        let scales = OnScale::candidates(first, last).filter_map(|scale| Some((cycles(&scale)?, scale)));
        let mut scales: Vec<(f64, OnScale)> = scales.collect();
        scales.sort_by(|a, b| a.0.total_cmp(&b.0));
        let written: Vec<f64> =
            if scales.is_empty() { Vec::new() } else { thresholds().map(written).collect() };
        let is_met = |scale: &OnScale| {
            let mut written = &written[..];
            columns.iter().any(|own| {
                let of_column;
                (of_column, written) = written.split_at(own.len());
                scale.is_met(own, of_column)
            })
        };
        scales.into_iter().map(|(_, scale)| scale).find(|scale| !is_met(scale))
    }
}

/// A scale, and lines of cells it has.
#[derive(Clone, Copy, Debug)]
pub(super) struct OnScale {
    pub(super) scale: Scale,
    pub(super) lines: usize,
}

impl OnScale {
    /// Scales for thresholds between two: as long as may be, or a little shorter, as thresholds fall into cells otherwise then; and of steps
    /// of a power of two, on which whole numbers and their halves are sure.
    fn candidates(first: f32, last: f32) -> impl Iterator<Item = Self> {
        let span = f64::from(last) - f64::from(first);
        LINES.into_iter().flat_map(move |lines| {
            let whole = match () {
                () if span > 0.0 => Scale::steps(lines) / span,
                // Of one threshold, so many steps from 0 that their number has all of its bits: then a step begins with it.
                () if first != 0.0 => f64::from(1 << 20) / f64::from(first).abs(),
                () => 1.0,
            };
            let shorter = (0..LENGTHS).map(move |less| whole * (1.0 - f64::from(less) / 64.0));
            shorter
                .chain([whole.log2().floor().exp2()])
                .map(|by| by as f32)
                .filter(|by| by.is_normal())
                .map(move |by| Self { scale: Scale::new(by, first, lines), lines })
        })
    }

    /// Whether the scale has the thresholds between its ends.
    fn fits(&self, first: f32, last: f32) -> bool {
        let [least, most] = [f32::NEG_INFINITY, f32::INFINITY].map(|end| self.scale.key(end));
        self.scale.key(first) > least && (self.scale.key(last) < most || first == last)
    }

    /// Whether values are likely to have the key of a threshold which is not sure: 0 has it, or too many are [written](written) so
    /// coarsely that a value which is written so may well be one of them.
    fn is_met(&self, thresholds: &[f32], written: &[f64]) -> bool {
        let unsure = || thresholds.iter().zip(written).filter(|(t, _)| !self.scale.is_sure(**t));
        let zero = self.scale.key(0.0);
        let coarse = unsure().filter(|(_, unit)| self.scale.in_steps(**unit) > COARSE).count();
        unsure().any(|(t, _)| self.scale.key(*t) == zero) || coarse * FEW_WRITTEN > thresholds.len()
    }
}

/// The unit of the last decimal of the shortest number that is nearer to this one than to any other `f32`.
fn written(value: f32) -> f64 {
    let written = value.to_string();
    let decimals = written.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    0.1f64.powi(decimals as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn best(thresholds: &[f32]) -> Option<OnScale> {
        CellCosts::VBMI.best(&[thresholds])
    }

    #[test]
    fn whole_numbers_and_halves_are_sure() {
        for thresholds in [
            (0..200).map(|k| k as f32).collect::<Vec<f32>>(),
            (0..90).map(|k| k as f32 * 0.5 - 12.0).collect(),
            vec![0.5],
            vec![-7.3],
            vec![0.0, 1.0],
        ] {
            let found = best(&thresholds).expect("a scale");
            assert!(thresholds.iter().all(|t| found.scale.is_sure(*t)), "{thresholds:?} on {found:?}");
        }
    }

    #[test]
    fn thresholds_that_values_lie_on_are_searched() {
        // What LightGBM writes for a value of 0; prices; thresholds that are too many for a cell.
        let zero = [&[1e-35f32][..], &[3.3, 5.7, 8.123, 9.1]].concat();
        let prices: Vec<f32> = (0..200).map(|k| (k * k) as f32 * 0.01 + 1.99).collect();
        let heap: Vec<f32> = (0..100).map(|k| 1.0 + k as f32 * 1e-6).chain([1e6]).collect();
        for thresholds in [zero, prices, heap, vec![]] {
            assert!(best(&thresholds).is_none(), "{thresholds:?}");
        }
        // Many decimals are no writing.
        let spread: Vec<f32> = (1..100).map(|k| (k as f32).sqrt()).collect();
        assert!(best(&spread).is_some());
    }
}
