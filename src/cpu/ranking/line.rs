//! Lines of columns: sixteen that lie side by side in a row, as a line of the cache has them.

pub(crate) use crate::cost::BLOCK;
use crate::cpu::line::Line;

/// Columns of a line.
pub(crate) const LINE: usize = 16;
/// Thresholds of a column that layers count, at most.
pub(crate) const MOST_LAYERS: usize = 4;

/// Which rows' values reach a threshold of their column: by bit of a byte, the first eight columns of a line and the others.
pub(in crate::cpu) type Reached = Line<[[u8; BLOCK]; 2]>;

/// Columns that lie side by side, at most sixteen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LineOf {
    /// The first of them.
    pub(crate) first: u32,
    /// Which are wanted.
    pub(crate) wanted: u16,
    /// A column that is soon wanted, to be asked for.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    pub(crate) ahead: Option<u32>,
}

impl LineOf {
    /// Has each of some lines ask for the one that comes so many after it.
    pub(crate) fn ask_ahead<'l>(lines: impl Iterator<Item = &'l mut Self>, by: usize) {
        let mut lines: Vec<_> = lines.collect();
        let firsts: Vec<u32> = lines.iter().skip(by).map(|line| line.first).collect();
        for (line, first) in lines.iter_mut().zip(firsts) {
            line.ahead = Some(first);
        }
    }

    /// Its columns among so many that rows have.
    pub(in crate::cpu) fn most(self, columns: usize) -> usize {
        columns.saturating_sub(self.first as usize).min(LINE)
    }
}
