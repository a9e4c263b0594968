//! Measures of a machine's memory: writes, and the copy of a tile of rows.

use std::{error::Error, hint::black_box};

use fangorn::{
    Forest, Predictor,
    check::SelfCheck,
    cost::{ROW_BLOCK, Writes},
    cpu::Rows,
    forest::{Predicate, Real, Side},
    schedule::Schedule,
};

use crate::{drawn::values, fit::seconds, sparse_rows::number};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Returns the seconds of writing a value, at an index that is looked up and next to the one before.
pub fn writes() -> Result<Writes> {
    const VALUES: usize = ROW_BLOCK * 512;
    let mut buffer = vec![0.0f32; VALUES];
    let mut seed = 1;
    let indices: Vec<u32> = (0..VALUES / 8).map(|_| (number(&mut seed) * VALUES as f64) as u32).collect();
    let all = seconds(|| {
        for index in black_box(&indices) {
            buffer[*index as usize] = f32::NAN;
        }
        black_box(&mut buffer);
        Ok(())
    })?;
    let indexed = all / indices.len() as f64;
    let all = seconds(|| {
        black_box(&mut buffer).fill(f32::NAN);
        Ok(())
    })?;
    Ok(Writes { indexed, filled: all / VALUES as f64 })
}

/// Returns the bytes of a tile's copy of rows up to which a column takes no longer to copy. Tiles of 256 rows are copied
/// and walked through trees that end at their roots: below a root are splits of other columns that no row reaches. The
/// seconds of a column rise from those of the narrowest rows to those of the widest ones. A copy of twice the bytes has
/// half of its columns past the room, so the rise is half done there.
/// Returns `None` if no kernel of this machine reads copies, or if the seconds don't rise.
pub fn near_copy() -> Result<Option<usize>> {
    const TILE: usize = 256;
    const COLUMNS: [usize; 7] = [256, 512, 1024, 2048, 4096, 8192, 16_384];
    // Columns of a tree.
    const OF_TREE: u32 = 64;
    let text = format!("tile(batch, b0, b1, {TILE})\nreorder(b0, tree, b1)\ncache(b0)\nlayout(sparse)");
    let of_column = |columns: usize| {
        let mut forest = Forest::builder(columns, 1);
        for first in (0..columns as u32).step_by(OF_TREE as usize) {
            let mut tree = forest.tree(0);
            tree.split(first, Predicate::Less { threshold: Real(2.0) }, Side::Left, 1, 2);
            tree.leaf(1, &[1.0]);
            for node in 1..OF_TREE {
                let below = 2 * node + 1;
                let threshold = Real(0.5);
                tree.split(first + node, Predicate::Less { threshold }, Side::Left, below, below + 1);
            }
            for leaf in OF_TREE..2 * OF_TREE {
                tree.leaf(leaf + 1, &[2.0]);
            }
        }
        let (forest, schedule) = (forest.build()?, Schedule::parse(&text)?);
        let predictor = Predictor::builder(&forest).schedule(schedule).threads(1);
        let predictor = predictor.check(SelfCheck::Off).build()?;
        if predictor.program().vector_name().is_empty() {
            return Ok(None);
        }
        let rows = TILE * (COLUMNS[COLUMNS.len() - 1] / columns).min(8);
        let (values, mut out) = (values(rows, columns), vec![0.0; rows]);
        let all = seconds(|| {
            predictor.margins_into(&Rows::new(black_box(&values), columns)?, &mut out)?;
            Ok(())
        })?;
        Ok::<_, Box<dyn Error>>(Some(all / (rows * columns) as f64))
    };
    let times = COLUMNS.into_iter().map(of_column).collect::<Result<Option<Vec<f64>>>>()?;
    let Some(times) = times else { return Ok(None) };
    let half = times[0].midpoint(times[times.len() - 1]);
    let bytes = |k: usize| (COLUMNS[k] * TILE * size_of::<f32>()) as f64;
    let crossing = times.windows(2).position(|pair| pair[0] <= half && half <= pair[1]);
    let Some(k) = crossing else { return Ok(None) };
    let part = (half - times[k]) / (times[k + 1] - times[k]).max(1e-15);
    Ok(Some(((bytes(k) + part * (bytes(k + 1) - bytes(k))) / 2.0) as usize))
}
