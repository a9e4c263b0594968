//! Operators that combine many elements into one: reductions, indices of extremes, products of matrices, distances.
//!
//! Sums of floats are in doubles, and are rounded once. Products of matrices are summed as [`Products`] says.

use smallvec::{SmallVec, smallvec};

use super::{
    operator::{Distance, Reduction},
    tensor::{Dtype, Elements, Lengths, Tensor, broadcast, count, defaults, source_indices},
    view::{ElementsView, TensorView},
};
use crate::{
    cpu::{Loops, functions::exp, widest},
    sparse::SparseMatrix,
};

/// Returns the index of an axis's dimension. A negative axis counts from the end.
pub(super) fn axis_of(axis: i64, dimensions: usize) -> Result<usize, String> {
    let from_front = if axis < 0 { axis.checked_add(dimensions as i64) } else { Some(axis) };
    let found = from_front.and_then(|axis| usize::try_from(axis).ok()).filter(|axis| *axis < dimensions);
    found.ok_or_else(|| format!("there is no axis {axis} among {dimensions} dimensions"))
}

/// The lines of a tensor along an axis: the axis's length, and the products of the lengths before it and after it.
struct Lines {
    before: usize,
    length: usize,
    after: usize,
}

impl Lines {
    fn of(x: TensorView<'_>, axis: i64) -> Result<(usize, Self), String> {
        let axis = axis_of(axis, x.shape().len())?;
        let product = |lengths: &[usize]| lengths.iter().product();
        let (before, rest) = x.shape().split_at(axis);
        Ok((axis, Self { before: product(before), length: rest[0], after: product(&rest[1..]) }))
    }

    /// Returns the indices of the elements of each line.
    fn indices(&self) -> impl Iterator<Item = impl Iterator<Item = usize> + Clone + use<'_>> {
        let Self { before, length, after } = *self;
        (0..before).flat_map(move |b| {
            (0..after).map(move |a| (0..length).map(move |at| (b * length + at) * after + a))
        })
    }
}

fn doubles(x: TensorView<'_>) -> Result<Vec<f64>, String> {
    x.elements().doubles().ok_or_else(|| format!("it does not take {}", x.dtype()))
}

fn made(shape: impl AsRef<[usize]>, dtype: Dtype, values: Vec<f64>) -> Result<Tensor, String> {
    let elements = Elements::of_doubles(dtype, values).ok_or_else(|| format!("it does not take {dtype}"))?;
    Tensor::new(shape, elements).ok_or_else(|| "the shape is too large".into())
}

/// Combines the elements along axes into one.
pub(super) fn reduce(how: Reduction, axes: &[i64], keep: bool, x: TensorView<'_>) -> Result<Tensor, String> {
    let dimensions = x.shape().len();
    let mut dropped: SmallVec<[bool; 4]> = smallvec![axes.is_empty(); dimensions];
    for axis in axes {
        dropped[axis_of(*axis, dimensions)?] = true;
    }
    let kept: Lengths =
        x.shape().iter().zip(&dropped).map(|(length, dropped)| if *dropped { 1 } else { *length }).collect();
    let shape: Lengths = match keep {
        true => kept.clone(),
        false => kept.iter().zip(&dropped).filter(|(_, d)| !**d).map(|(length, _)| *length).collect(),
    };
    let groups = count(&kept).ok_or("the shape is too large")?;
    let reduced = x.elements().len() / groups.max(1);
    if reduced == 0 && groups > 0 && matches!(how, Reduction::Minimum | Reduction::Maximum) {
        return Err("there is no extreme of no elements".into());
    }
    let start = match how {
        Reduction::Product => 1.0,
        Reduction::Minimum => f64::INFINITY,
        Reduction::Maximum | Reduction::LogSumExp => f64::NEG_INFINITY,
        _ => 0.0,
    };
    if let Some(found) = last_axes(how, &dropped, x) {
        let elements = Elements::of_doubles(x.dtype(), found);
        return elements
            .and_then(|elements| Tensor::new(shape, elements))
            .ok_or_else(|| "it is too large".into());
    }
    let values = doubles(x)?;
    let of_group = || source_indices(&kept, x.shape());
    let mut found = vec![start; groups];
    for (value, group) in values.iter().zip(of_group()) {
        let so_far = found[group];
        found[group] = match how {
            Reduction::Sum | Reduction::Mean => so_far + value,
            Reduction::Product => so_far * value,
            Reduction::L1 => so_far + value.abs(),
            Reduction::L2 | Reduction::SumOfSquares => so_far + value * value,
            // A NaN stays.
            Reduction::Minimum if so_far.is_nan() || so_far < *value => so_far,
            Reduction::Maximum | Reduction::LogSumExp if so_far.is_nan() || so_far > *value => so_far,
            _ => *value,
        };
    }
    match how {
        Reduction::Mean => found.iter_mut().for_each(|v| *v /= reduced as f64),
        Reduction::L2 => found.iter_mut().for_each(|v| *v = v.sqrt()),
        Reduction::LogSumExp => {
            // The greatest element is subtracted first, so that no exponential overflows.
            let mut sums = vec![0.0; groups];
            for (value, group) in values.iter().zip(of_group()) {
                let greatest = if found[group].is_finite() { found[group] } else { 0.0 };
                sums[group] += (value - greatest).exp();
            }
            for (greatest, sum) in found.iter_mut().zip(sums) {
                *greatest = if greatest.is_finite() { *greatest + sum.ln() } else { sum.ln() };
            }
        }
        _ => {}
    }
    made(shape, x.dtype(), found)
}

/// Number of partial sums that are added up at the same time.
const LANES: usize = 8;

/// Returns the sum of `f` over the elements of a line.
#[inline(always)]
pub(super) fn line_sum<T: Copy + Into<f64>>(line: &[T], f: impl Fn(f64) -> f64) -> f64 {
    let mut sums = [0.0; LANES];
    let (of_lanes, last) = line.as_chunks::<LANES>();
    for values in of_lanes {
        sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += f((*value).into()));
    }
    sums.iter_mut().zip(last).for_each(|(sum, value)| *sum += f((*value).into()));
    sums.iter().sum()
}

/// [`line_sum`] of each line.
struct LineSums<'x, T, F> {
    values: &'x [T],
    length: usize,
    f: F,
}

impl<T: Copy + Into<f64>, F: Fn(f64) -> f64> Loops for LineSums<'_, T, F> {
    type Result = Vec<f64>;

    #[inline(always)]
    fn run(self) -> Vec<f64> {
        let mut out = defaults(self.values.len() / self.length);
        for (line, out) in self.values.chunks_exact(self.length).zip(&mut out) {
            *out = line_sum(line, &self.f);
        }
        out
    }
}

/// Returns sums of floats over the last axes, one for each index of the other axes. Returns `None` for other axes or
/// types, or for a reduction that is no sum.
fn last_axes(how: Reduction, dropped: &[bool], x: TensorView<'_>) -> Option<Vec<f64>> {
    let kept = dropped.iter().take_while(|dropped| !**dropped).count();
    if dropped[kept..].contains(&false) || x.elements().is_empty() {
        return None;
    }
    let length: usize = x.shape()[kept..].iter().product();
    macro_rules! by {
        ($f:expr) => {
            match x.elements() {
                ElementsView::F32(values) => widest(LineSums { values, length, f: $f }),
                ElementsView::F64(values) => widest(LineSums { values, length, f: $f }),
                _ => return None,
            }
        };
    }
    let mut found = match how {
        Reduction::Sum | Reduction::Mean => by!(|v| v),
        Reduction::L1 => by!(|v: f64| v.abs()),
        Reduction::L2 | Reduction::SumOfSquares => by!(|v| v * v),
        _ => return None,
    };
    match how {
        Reduction::Mean => found.iter_mut().for_each(|v| *v /= length as f64),
        Reduction::L2 => found.iter_mut().for_each(|v| *v = v.sqrt()),
        _ => {}
    }
    Some(found)
}

/// The exponentials of each line of floats, divided by their sum.
struct SoftmaxLines<'x> {
    values: &'x [f32],
    length: usize,
}

impl Loops for SoftmaxLines<'_> {
    type Result = Vec<f32>;

    #[inline(always)]
    fn run(self) -> Vec<f32> {
        let mut out = defaults(self.values.len());
        let mut powers = defaults(self.length);
        for (line, out) in self.values.chunks_exact(self.length).zip(out.chunks_exact_mut(self.length)) {
            let mut most = [f32::NEG_INFINITY; LANES];
            for chunk in line.chunks(LANES) {
                most.iter_mut().zip(chunk).for_each(|(most, v)| *most = if *v > *most { *v } else { *most });
            }
            let greatest = f64::from(most.iter().fold(f32::NEG_INFINITY, |a, b| if *b > a { *b } else { a }));
            powers.iter_mut().zip(line).for_each(|(power, v)| *power = exp(f64::from(*v) - greatest));
            let factor = 1.0 / powers.iter().sum::<f64>();
            out.iter_mut().zip(&powers).for_each(|(out, power)| *out = (power * factor) as f32);
        }
        out
    }
}

/// Returns the softmax along an axis: exponentials, divided by their sum.
pub(super) fn softmax(axis: i64, x: TensorView<'_>) -> Result<Tensor, String> {
    let (_, lines) = Lines::of(x, axis)?;
    if let (1, 1.., ElementsView::F32(values)) = (lines.after, lines.length, x.elements()) {
        let found = widest(SoftmaxLines { values, length: lines.length });
        return Tensor::new(x.shape(), Elements::F32(found)).ok_or_else(|| "the shape is too large".into());
    }
    let mut values = doubles(x)?;
    if lines.after == 1 {
        for line in values.chunks_exact_mut(lines.length.max(1)) {
            let greatest = line.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let mut sum = 0.0;
            for value in &mut *line {
                *value = (*value - greatest).exp();
                sum += *value;
            }
            line.iter_mut().for_each(|value| *value /= sum);
        }
        return made(x.shape(), x.dtype(), values);
    }
    for line in lines.indices() {
        let greatest = line.clone().map(|at| values[at]).fold(f64::NEG_INFINITY, f64::max);
        let mut sum = 0.0;
        for at in line.clone() {
            values[at] = (values[at] - greatest).exp();
            sum += values[at];
        }
        line.for_each(|at| values[at] /= sum);
    }
    made(x.shape(), x.dtype(), values)
}

/// Returns the cumulative sums along an axis.
pub(super) fn cumulative_sum(axis: i64, x: TensorView<'_>) -> Result<Tensor, String> {
    let (_, lines) = Lines::of(x, axis)?;
    let mut values = doubles(x)?;
    for line in lines.indices() {
        let mut sum = 0.0;
        for at in line {
            sum += values[at];
            values[at] = sum;
        }
    }
    made(x.shape(), x.dtype(), values)
}

/// Returns the index of an extreme element along an axis: the greatest if `greatest` is set, and otherwise the least.
/// Of equal elements, the last counts if `last` is set, and otherwise the first.
pub(super) fn arg_extreme(
    axis: i64,
    keep: bool,
    greatest: bool,
    last: bool,
    x: TensorView<'_>,
) -> Result<Tensor, String> {
    let (axis, lines) = Lines::of(x, axis)?;
    if lines.length == 0 {
        return Err("there is no extreme of no elements".into());
    }
    let mut shape = Lengths::from_slice(x.shape());
    match keep {
        true => shape[axis] = 1,
        false => drop(shape.remove(axis)),
    }
    if let (1, false, ElementsView::F32(values)) = (lines.after, last, x.elements()) {
        let found = widest(Extremes { values, length: lines.length, greatest });
        return Tensor::new(shape, Elements::I64(found)).ok_or_else(|| "the shape is too large".into());
    }
    let values = doubles(x)?;
    let best_of = |line: &mut dyn Iterator<Item = usize>| {
        let mut best = (0, f64::NAN);
        for (index, at) in line.enumerate() {
            let value = values[at];
            let better = if greatest { value > best.1 } else { value < best.1 };
            // The first NaN is the extreme, as in numpy.
            if index == 0 || (!best.1.is_nan() && (better || value.is_nan() || last && value == best.1)) {
                best = (index as i64, value);
            }
        }
        best.0
    };
    let found: Vec<i64> = lines.indices().map(|mut line| best_of(&mut line)).collect();
    Tensor::new(shape, Elements::I64(found)).ok_or_else(|| "the shape is too large".into())
}

/// Number of elements that are compared at the same time.
const COMPARED: usize = 16;

/// Returns the index of the first NaN of a line, or else of the first of its greatest or least elements.
#[inline(always)]
fn extreme(line: &[f32], greatest: bool) -> usize {
    let sign = if greatest { 1.0 } else { -1.0 };
    let (mut most, mut missing) = ([f32::NEG_INFINITY; COMPARED], [false; COMPARED]);
    let (chunks, last) = line.as_chunks::<COMPARED>();
    for values in chunks {
        for lane in 0..COMPARED {
            let value = sign * values[lane];
            most[lane] = if value > most[lane] { value } else { most[lane] };
            missing[lane] |= value.is_nan();
        }
    }
    for (lane, value) in last.iter().enumerate() {
        let value = sign * value;
        most[lane] = if value > most[lane] { value } else { most[lane] };
        missing[lane] |= value.is_nan();
    }
    let most = sign * most.into_iter().fold(f32::NEG_INFINITY, |a, b| if a > b { a } else { b });
    let found = match missing.iter().fold(false, |a, b| a | b) {
        true => line.iter().position(|value| value.is_nan()),
        false => {
            let among = |values: &[f32; COMPARED]| values.iter().fold(false, |a, value| a | (*value == most));
            let first = chunks.iter().take_while(|values| !among(values)).count() * COMPARED;
            line[first..].iter().position(|value| *value == most).map(|at| first + at)
        }
    };
    found.unwrap_or(0)
}

/// [`extreme`] of each line.
struct Extremes<'x> {
    values: &'x [f32],
    length: usize,
    greatest: bool,
}

impl Loops for Extremes<'_> {
    type Result = Vec<i64>;

    #[inline(always)]
    fn run(self) -> Vec<i64> {
        let mut out = defaults(self.values.len() / self.length);
        // A plain loop, because a closure inside an iterator's method may be compiled without the wider vectors.
        for (line, out) in self.values.chunks_exact(self.length).zip(&mut out) {
            *out = extreme(line, self.greatest) as i64;
        }
        out
    }
}

/// Returns the greatest or the least `k` elements along an axis, in order, and their indices. Of equal elements the
/// first comes first.
pub(super) fn top(axis: i64, k: usize, greatest: bool, x: TensorView<'_>) -> Result<[Tensor; 2], String> {
    let (axis, lines) = Lines::of(x, axis)?;
    if k > lines.length {
        return Err(format!("it asks for {k} of {} elements", lines.length));
    }
    let values = doubles(x)?;
    let mut shape = x.shape().to_vec();
    shape[axis] = k;
    let all = count(&shape).ok_or("the shape is too large")?;
    let (mut from, mut chosen) = (vec![0usize; all], vec![0i64; all]);
    for (line, which) in lines.indices().zip(0usize..) {
        let mut order: Vec<(usize, usize)> = line.enumerate().collect();
        order.sort_by(|a, b| {
            let ascending = values[a.1].total_cmp(&values[b.1]);
            if greatest { ascending.reverse() } else { ascending }
        });
        let (before, after) = (which / lines.after, which % lines.after);
        for (nth, (index, at)) in order.into_iter().take(k).enumerate() {
            let to = (before * k + nth) * lines.after + after;
            (from[to], chosen[to]) = (at, index as i64);
        }
    }
    let elements = x.elements().at(from.into_iter());
    let tensors = [Tensor::new(shape.clone(), elements), Tensor::new(shape, Elements::I64(chosen))];
    let [Some(values), Some(indices)] = tensors else { return Err("the shape is too large".into()) };
    Ok([values, indices])
}

/// How products of row-major matrices are summed. The product of an `m x k` and a `k x n` matrix goes into the `m x n`
/// elements of `out`; `lengths` is `[m, k, n]`. The default methods define the result: each element is summed in
/// doubles, in the order of the columns of `a`, and rounded once.
pub(super) trait Products {
    /// A product of floats.
    fn floats(&self, a: &[f32], b: &[f32], out: &mut [f32], lengths: [usize; 3]) {
        let [a, b] = [a, b].map(|values| values.iter().map(|v| f64::from(*v)).collect::<Vec<f64>>());
        let mut sums = vec![0.0; out.len()];
        product_in_order(&a, &b, &mut sums, lengths);
        out.iter_mut().zip(sums).for_each(|(out, sum)| *out = sum as f32);
    }

    /// A product of doubles.
    fn doubles(&self, a: &[f64], b: &[f64], out: &mut [f64], lengths: [usize; 3]) {
        product_in_order(a, b, out, lengths);
    }
}

/// Adds the products of each row of `a` with `b`, in the order of the columns of `a`.
fn product_in_order(a: &[f64], b: &[f64], out: &mut [f64], [_, k, n]: [usize; 3]) {
    for (row, sums) in a.chunks_exact(k.max(1)).zip(out.chunks_exact_mut(n.max(1))) {
        for (value, column) in row.iter().zip(b.chunks_exact(n.max(1))) {
            sums.iter_mut().zip(column).for_each(|(sum, weight)| *sum += value * weight);
        }
    }
}

/// Returns the product of the matrices in the last two dimensions.
pub(super) fn matmul(
    a: TensorView<'_>,
    b: TensorView<'_>,
    products: &impl Products,
) -> Result<Tensor, String> {
    if a.dtype() != b.dtype() {
        return Err(format!("it does not take {} and {}", a.dtype(), b.dtype()));
    }
    // Most products are of two matrices.
    if let (&[m, k], &[other, n], ElementsView::F32(va), ElementsView::F32(vb)) =
        (a.shape(), b.shape(), a.elements(), b.elements())
        && k == other
    {
        let mut out = defaults(m * n);
        products.floats(va, vb, &mut out, [m, k, n]);
        return Tensor::new([m, n], Elements::F32(out)).ok_or_else(|| "the shape is too large".into());
    }
    // A vector is a row on the left and a column on the right. The added dimension is not in the result.
    let (mut of_a, mut of_b) = (Lengths::from_slice(a.shape()), Lengths::from_slice(b.shape()));
    let (row, column) = (of_a.len() == 1, of_b.len() == 1);
    if row {
        of_a.insert(0, 1);
    }
    if column {
        of_b.push(1);
    }
    let ([.., m, k], [.., other, n]) = (&of_a[..], &of_b[..]) else {
        return Err("a scalar has no product of matrices".into());
    };
    let (m, k, n) = (*m, *k, *n);
    if k != *other {
        return Err(format!("matrices of shapes {:?} and {:?} have no product", a.shape(), b.shape()));
    }
    let (many_a, many_b) = (&of_a[..of_a.len() - 2], &of_b[..of_b.len() - 2]);
    let many = broadcast(many_a, many_b)
        .ok_or_else(|| format!("shapes {:?} and {:?} don't broadcast", a.shape(), b.shape()))?;
    let mut shape = many.clone();
    shape.extend([m, n]);
    let all = count(&shape).ok_or("the shape is too large")?;
    if row {
        shape.remove(shape.len() - 2);
    }
    if column {
        shape.pop();
    }
    // If the second operand is a single matrix, all rows of the first are multiplied at once.
    let (m, many, many_a) = match many_b.is_empty() {
        true => (of_a[..of_a.len() - 1].iter().product(), Lengths::new(), &[][..]),
        false => (m, many, many_a),
    };
    let each = || source_indices(many_a, &many).zip(source_indices(many_b, &many));
    macro_rules! computed {
        ($a:expr, $b:expr, $zero:expr, $product:expr) => {{
            let mut out = vec![$zero; all];
            let found = out.chunks_exact_mut((m * n).max(1));
            for ((from_a, from_b), found) in each().zip(found) {
                let (a, b) = (&$a[from_a * m * k..][..m * k], &$b[from_b * k * n..][..k * n]);
                $product(a, b, found, [m, k, n]);
            }
            out
        }};
    }
    if let (ElementsView::F32(va), ElementsView::F32(vb)) = (a.elements(), b.elements()) {
        let out = computed!(va, vb, 0f32, |a, b, out, lengths| products.floats(a, b, out, lengths));
        return Tensor::new(shape, Elements::F32(out)).ok_or_else(|| "the shape is too large".into());
    }
    let (va, vb) = (doubles(a)?, doubles(b)?);
    let out = computed!(va, vb, 0f64, |a, b, out, lengths| products.doubles(a, b, out, lengths));
    made(shape, a.dtype(), out)
}

/// Returns the product of rows with a sparse weight. `weights` has a row for each output.
pub(super) fn sparse_matmul(x: TensorView<'_>, weights: &SparseMatrix<f64>) -> Result<Tensor, String> {
    let (width, inner) = weights.shape();
    let mut shape = x.shape().to_vec();
    if shape.last() != Some(&inner) {
        return Err(format!("rows of shape {shape:?} have no product with weights of {inner} columns"));
    }
    shape.pop();
    shape.push(width);
    let values = doubles(x)?;
    let mut out = vec![0.0f64; count(&shape).ok_or("the shape is too large")?];
    for (row, sums) in values.chunks_exact(inner.max(1)).zip(out.chunks_exact_mut(width.max(1))) {
        // NaN and infinities times 0 are NaN, and any other value times 0 is 0.
        let all_finite = row.iter().map(|value| value * 0.0).sum::<f64>() == 0.0;
        for (output, sum) in sums.iter_mut().enumerate() {
            *sum = weights.row(output).fold(0.0, |sum, (column, weight)| sum + row[column] * weight);
            if !all_finite {
                let held: Vec<usize> = weights.row(output).map(|(column, _)| column).collect();
                let skipped =
                    row.iter().enumerate().filter(|(column, _)| held.binary_search(column).is_err());
                *sum += skipped.map(|(_, value)| value * 0.0).sum::<f64>();
            }
        }
    }
    made(shape, x.dtype(), out)
}

/// Returns the probabilities of classes, given those of pairs of classes.
pub(super) fn couple_pairs(classes: usize, x: TensorView<'_>) -> Result<Tensor, String> {
    let pairs = classes.saturating_mul(classes.saturating_sub(1)) / 2;
    let [rows, columns] = x.shape() else { return Err("pairs are the columns of rows".into()) };
    if *columns != pairs || classes < 2 {
        return Err(format!("{classes} classes have {pairs} pairs, not {columns}"));
    }
    let values = doubles(x)?;
    let mut found = Vec::with_capacity(rows * classes);
    for row in values.chunks_exact(pairs) {
        found.extend(coupled(classes, row));
    }
    made(vec![*rows, classes], x.dtype(), found)
}

/// Returns the probabilities of classes of a row.
fn coupled(classes: usize, pairs: &[f64]) -> Vec<f64> {
    // r[i][j] is the probability of class i against class j.
    let mut r = vec![vec![0.0; classes]; classes];
    let all = (0..classes).flat_map(|i| (i + 1..classes).map(move |j| (i, j)));
    for ((i, j), p) in all.zip(pairs) {
        (r[i][j], r[j][i]) = (*p, 1.0 - p);
    }
    let q = |t: usize, j: usize| match t == j {
        true => (0..classes).filter(|other| *other != t).map(|other| r[other][t] * r[other][t]).sum::<f64>(),
        false => -r[j][t] * r[t][j],
    };
    let q: Vec<Vec<f64>> = (0..classes).map(|t| (0..classes).map(|j| q(t, j)).collect()).collect();
    let mut p = vec![1.0 / classes as f64; classes];
    let tolerance = 0.005 / classes as f64;
    for _ in 0..classes.max(100) {
        let mut qp: Vec<f64> = q.iter().map(|row| row.iter().zip(&p).map(|(q, p)| q * p).sum()).collect();
        let mut pqp: f64 = p.iter().zip(&qp).map(|(p, qp)| p * qp).sum();
        let apart = qp.iter().map(|qp| (qp - pqp).abs()).fold(0.0, f64::max);
        if apart < tolerance {
            break;
        }
        for t in 0..classes {
            let change = (pqp - qp[t]) / q[t][t];
            p[t] += change;
            pqp = (pqp + change * (change * q[t][t] + 2.0 * qp[t])) / (1.0 + change) / (1.0 + change);
            for j in 0..classes {
                qp[j] = (qp[j] + change * q[t][j]) / (1.0 + change);
                p[j] /= 1.0 + change;
            }
        }
    }
    p
}

/// Returns the distance of each row of `a` to each row of `b`.
pub(super) fn distances(how: Distance, a: TensorView<'_>, b: TensorView<'_>) -> Result<Tensor, String> {
    let ([rows, columns], [others, width]) = (a.shape(), b.shape()) else {
        return Err("distances are between rows of matrices".into());
    };
    if columns != width || a.dtype() != b.dtype() {
        let (a, b) = ((a.dtype(), a.shape()), (b.dtype(), b.shape()));
        return Err(format!("rows of {a:?} and {b:?} have no distance"));
    }
    let (va, vb) = (doubles(a)?, doubles(b)?);
    let all = rows.checked_mul(*others).ok_or("the shape is too large")?;
    let mut found = Vec::with_capacity(all);
    let row = |values: &[f64], at: usize| values[at * columns..][..*columns].to_vec();
    for at in 0..*rows {
        let x = row(&va, at);
        for other in 0..*others {
            let differences = x.iter().zip(&vb[other * columns..][..*columns]).map(|(x, y)| x - y);
            found.push(match how {
                Distance::SquaredEuclidean => differences.map(|d| d * d).sum(),
                Distance::Euclidean => differences.map(|d| d * d).sum::<f64>().sqrt(),
                Distance::Manhattan => differences.map(f64::abs).sum(),
                Distance::Chebyshev => differences.map(f64::abs).fold(0.0, f64::max),
            });
        }
    }
    made(vec![*rows, *others], a.dtype(), found)
}
