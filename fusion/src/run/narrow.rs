//! Products with few columns, whose operands are row-major and in the cache. `matrixmultiply` takes longer to pack such
//! operands than these loops take to multiply them. A product with one column is summed in 4 or 8 lanes, others in the
//! order of the rows or columns.

#![allow(clippy::needless_range_loop, reason = "loops over lanes of a fixed number become vectors")]

use fangorn::cpu::{Loops, widest};

/// The maximum number of columns of a narrow right-hand side.
pub(super) const NARROW: usize = 8;
/// Rows whose sums stand in registers at the same time.
const TOGETHER: usize = 4;

/// Calls a function for a number of columns, with the number of lanes that they take in registers.
macro_rules! for_width {
    ($width:expr, $one:expr, $of:ident($($argument:expr),*)) => {
        match $width {
            1 => $one,
            2 => $of::<2, 4>($($argument),*),
            3 => $of::<3, 4>($($argument),*),
            4 => $of::<4, 4>($($argument),*),
            5 => $of::<5, 8>($($argument),*),
            6 => $of::<6, 8>($($argument),*),
            7 => $of::<7, 8>($($argument),*),
            _ => $of::<8, 8>($($argument),*),
        }
    };
}

/// Computes `out = left right`, rows x inner by inner x width. The left-hand side may have rows behind those of `out`.
pub(super) fn multiply(left: &[f64], right: &[f64], width: usize, out: &mut [f64]) {
    let left = &left[..out.len() / width * (right.len() / width)];
    fn times<const W: usize, const P: usize>(left: &[f64], right: &[f64], out: &mut [f64]) {
        let right: Vec<[f64; P]> = right.as_chunks::<W>().0.iter().map(padded).collect();
        widest(Times { left, right: &right, out: out.as_chunks_mut::<W>().0 });
    }
    for_width!(width, widest(TimesColumn { left, right, out }), times(left, right, out));
}

/// Adds `t(left) right` to sums, columns of the left-hand side x width.
pub(super) fn add_transposed(left: &[f64], right: &[f64], width: usize, sums: &mut [f64]) {
    fn add<const W: usize, const P: usize>(left: &[f64], right: &[f64], sums: &mut [f64]) {
        let right = right.as_chunks::<W>().0;
        widest(AddTransposed::<W, P> { left, right, sums: sums.as_chunks_mut().0 });
    }
    for_width!(width, widest(AddColumns { left, scales: right, sums }), add(left, right, sums));
}

/// Returns a row with zeros behind it.
#[inline(always)]
fn padded<const W: usize, const P: usize>(row: &[f64; W]) -> [f64; P] {
    let mut out = [0.0; P];
    out[..W].copy_from_slice(row);
    out
}

struct TimesColumn<'a> {
    left: &'a [f64],
    right: &'a [f64],
    out: &'a mut [f64],
}

/// Calls a method with a number of columns up to 16 that the compiler knows, so that loops over them are unrolled.
macro_rules! for_few {
    ($count:expr, $this:ident.$few:ident($($argument:expr),*), $other:expr) => {
        match $count {
            1 => $this.$few::<1>($($argument),*),
            2 => $this.$few::<2>($($argument),*),
            3 => $this.$few::<3>($($argument),*),
            4 => $this.$few::<4>($($argument),*),
            5 => $this.$few::<5>($($argument),*),
            6 => $this.$few::<6>($($argument),*),
            7 => $this.$few::<7>($($argument),*),
            8 => $this.$few::<8>($($argument),*),
            9 => $this.$few::<9>($($argument),*),
            10 => $this.$few::<10>($($argument),*),
            11 => $this.$few::<11>($($argument),*),
            12 => $this.$few::<12>($($argument),*),
            13 => $this.$few::<13>($($argument),*),
            14 => $this.$few::<14>($($argument),*),
            15 => $this.$few::<15>($($argument),*),
            16 => $this.$few::<16>($($argument),*),
            _ => $other,
        }
    };
}

impl TimesColumn<'_> {
    #[inline(always)]
    fn few<const K: usize>(self) {
        let Some(right) = self.right.first_chunk::<K>() else { return };
        for (out, row) in self.out.iter_mut().zip(self.left.as_chunks::<K>().0) {
            let mut lanes = [0.0; 4];
            for at in 0..K {
                lanes[at % 4] += row[at] * right[at];
            }
            *out = (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
        }
    }

    #[inline(always)]
    fn many(self) {
        let (right, right_rest) = self.right.as_chunks::<8>();
        for (out, row) in self.out.iter_mut().zip(self.left.chunks_exact(self.right.len())) {
            let (row, row_rest) = row.as_chunks::<8>();
            let mut lanes = [0.0; 8];
            for (x, y) in row.iter().zip(right) {
                for lane in 0..8 {
                    lanes[lane] += x[lane] * y[lane];
                }
            }
            let mut rest = 0.0;
            for (x, y) in row_rest.iter().zip(right_rest) {
                rest += x * y;
            }
            let [a, b, c, d, e, f, g, h] = lanes;
            *out = ((a + e) + (c + g)) + ((b + f) + (d + h)) + rest;
        }
    }
}

impl Loops for TimesColumn<'_> {
    type Result = ();

    #[inline(always)]
    fn run(self) {
        for_few!(self.right.len(), self.few(), self.many());
    }
}

struct Times<'a, const W: usize, const P: usize> {
    left: &'a [f64],
    right: &'a [[f64; P]],
    out: &'a mut [[f64; W]],
}

impl<const W: usize, const P: usize> Loops for Times<'_, W, P> {
    type Result = ();

    #[inline(always)]
    fn run(self) {
        let inner = self.right.len();
        let (outs, rest_of_out) = self.out.as_chunks_mut::<TOGETHER>();
        let mut blocks = self.left.chunks_exact(TOGETHER * inner);
        for out in outs {
            let Some(block) = blocks.next() else { return };
            let (a, rest) = block.split_at(inner);
            let (b, rest) = rest.split_at(inner);
            let (c, d) = rest.split_at(inner);
            let mut sums = [[0.0; P]; TOGETHER];
            for ((((right, a), b), c), d) in self.right.iter().zip(a).zip(b).zip(c).zip(d) {
                for lane in 0..P {
                    sums[0][lane] += a * right[lane];
                    sums[1][lane] += b * right[lane];
                    sums[2][lane] += c * right[lane];
                    sums[3][lane] += d * right[lane];
                }
            }
            for row in 0..TOGETHER {
                out[row].copy_from_slice(&sums[row][..W]);
            }
        }
        for (row, out) in blocks.remainder().chunks_exact(inner).zip(rest_of_out) {
            let mut sums = [0.0; P];
            for (right, x) in self.right.iter().zip(row) {
                for lane in 0..P {
                    sums[lane] += x * right[lane];
                }
            }
            out.copy_from_slice(&sums[..W]);
        }
    }
}

struct AddColumns<'a> {
    left: &'a [f64],
    scales: &'a [f64],
    sums: &'a mut [f64],
}

impl AddColumns<'_> {
    /// Adds columns from `first` on, as many as sums stand in registers.
    #[inline(always)]
    fn block<const C: usize>(&mut self, first: usize) {
        let columns = self.sums.len();
        let mut sums = [0.0; C];
        sums.copy_from_slice(&self.sums[first..first + C]);
        for (row, scale) in self.left.chunks_exact(columns).zip(self.scales) {
            let Some(row) = row[first..].first_chunk::<C>() else { return };
            for column in 0..C {
                sums[column] += scale * row[column];
            }
        }
        self.sums[first..first + C].copy_from_slice(&sums);
    }
}

impl Loops for AddColumns<'_> {
    type Result = ();

    #[inline(always)]
    fn run(mut self) {
        let (mut first, columns) = (0, self.sums.len());
        while columns - first > 16 {
            self.block::<16>(first);
            first += 16;
        }
        for_few!(columns - first, self.block(first), {});
    }
}

struct AddTransposed<'a, const W: usize, const P: usize> {
    left: &'a [f64],
    right: &'a [[f64; W]],
    sums: &'a mut [[f64; W]],
}

impl<const W: usize, const P: usize> AddTransposed<'_, W, P> {
    /// Adds the rows of some columns of the left-hand side from `first` on.
    #[inline(always)]
    fn block<const C: usize>(&mut self, first: usize) {
        let columns = self.sums.len();
        let mut sums = [[0.0; P]; C];
        for (row, right) in self.left.chunks_exact(columns).zip(self.right) {
            let Some(row) = row[first..].first_chunk::<C>() else { return };
            let right: [f64; P] = padded(right);
            for column in 0..C {
                for lane in 0..P {
                    sums[column][lane] += row[column] * right[lane];
                }
            }
        }
        for (out, sums) in self.sums[first..].iter_mut().zip(sums) {
            for lane in 0..W {
                out[lane] += sums[lane];
            }
        }
    }
}

impl<const W: usize, const P: usize> Loops for AddTransposed<'_, W, P> {
    type Result = ();

    #[inline(always)]
    fn run(mut self) {
        let (mut first, columns) = (0, self.sums.len());
        // Eight columns of four sums, or four of eight, take half of AVX2's registers.
        while P == 4 && columns - first >= 8 {
            self.block::<8>(first);
            first += 8;
        }
        while columns - first >= 4 {
            self.block::<4>(first);
            first += 4;
        }
        if columns - first >= 2 {
            self.block::<2>(first);
            first += 2;
        }
        if first < columns {
            self.block::<1>(first);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that are exact in sums, so that their order does not matter.
    fn numbers(count: usize, seed: usize) -> Vec<f64> {
        (0..count).map(|at| ((at * 7 + seed * 13) % 19) as f64 - 9.0).collect()
    }

    #[test]
    fn products_of_every_remainder() {
        for rows in [1, 3, 4, 5, 8, 11] {
            for inner in (1..=18).chain([31, 32, 33, 40]) {
                for width in 1..=NARROW {
                    let (x, v, w) =
                        (numbers(rows * inner, 1), numbers(inner * width, 2), numbers(rows * width, 3));
                    let mut out = vec![f64::NAN; rows * width];
                    let with_more_rows = [&x[..], &numbers(5 * inner, 5)].concat();
                    multiply(&with_more_rows, &v, width, &mut out);
                    let mut sums = numbers(inner * width, 4);
                    add_transposed(&x, &w, width, &mut sums);
                    for row in 0..rows {
                        for column in 0..width {
                            let sum =
                                (0..inner).map(|k| x[row * inner + k] * v[k * width + column]).sum::<f64>();
                            assert_eq!(out[row * width + column], sum, "{rows} x {inner} x {width}");
                        }
                    }
                    for k in 0..inner {
                        for column in 0..width {
                            let sum = (0..rows)
                                .map(|row| x[row * inner + k] * w[row * width + column])
                                .sum::<f64>();
                            let expected = numbers(inner * width, 4)[k * width + column] + sum;
                            assert_eq!(sums[k * width + column], expected, "{rows} x {inner} x {width}");
                        }
                    }
                }
            }
        }
    }
}
