//! Functions of two tensors that are broadcast against each other, in loops that the compiler vectorizes.

use std::borrow::Cow;

use super::tensor::{defaults, source_indices};
use crate::cpu::{Loops, widest};

/// How the elements of an operand repeat over a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Repeat {
    /// The operand's elements come in their order, again and again. The number says after how many elements they
    /// start again; if nothing repeats, it is the number of elements of the result.
    Period(usize),
    /// Each element of the operand stands for this number of adjacent elements of the result.
    Run(usize),
    /// The elements repeat in another order.
    Other,
}

impl Repeat {
    /// Returns how elements of shape `from` repeat over a result of shape `to`.
    fn of(from: &[usize], to: &[usize]) -> Self {
        let ones = from.iter().take_while(|length| **length == 1).count();
        if to.ends_with(&from[ones..]) {
            let all: usize = to.iter().product();
            return match from[ones..].iter().product() {
                1 if all > 1 => Self::Run(all),
                period => Self::Period(period),
            };
        }
        let kept = from.len() - from.iter().rev().take_while(|length| **length == 1).count();
        match from.len() == to.len() && from[..kept] == to[..kept] {
            true => Self::Run(to[kept..].iter().product()),
            false => Self::Other,
        }
    }
}

/// Returns the results of `f` for each pair of elements of two operands, `a` of shape `of_a` and `b` of shape `of_b`,
/// that are broadcast to `shape`.
pub(super) fn pairs<T: Clone, U: Clone + Default>(
    a: &[T],
    of_a: &[usize],
    b: &[T],
    of_b: &[usize],
    shape: &[usize],
    f: impl Fn(&T, &T) -> U + Copy,
) -> Vec<U> {
    let all: usize = shape.iter().product();
    if all == 0 {
        return Vec::new();
    }
    match (Repeat::of(of_a, shape), Repeat::of(of_b, shape)) {
        (Repeat::Period(whole), other) if whole == all => with_whole(a, b, of_b, other, shape, f),
        (other, Repeat::Period(whole)) if whole == all => {
            with_whole(b, a, of_a, other, shape, |b, a| f(a, b))
        }
        _ => source_indices(of_a, shape)
            .zip(source_indices(of_b, shape))
            .map(|(at, bt)| f(&a[at], &b[bt]))
            .collect(),
    }
}

/// Returns the results of `f` for each element of `whole`, of shape `shape`, and the element of `other`, of shape
/// `of_other`, that is broadcast to it: `repeat` says how.
fn with_whole<T, U: Clone + Default>(
    whole: &[T],
    other: &[T],
    of_other: &[usize],
    repeat: Repeat,
    shape: &[usize],
    f: impl Fn(&T, &T) -> U + Copy,
) -> Vec<U> {
    match repeat {
        Repeat::Other => {
            whole.iter().zip(source_indices(of_other, shape)).map(|(a, at)| f(a, &other[at])).collect()
        }
        Repeat::Period(period) => widest(WithPeriod { whole, other, period, f }),
        Repeat::Run(run) => widest(WithRuns { whole, other, run, f }),
    }
}

/// Applies `f` to the elements of `whole` and those of `other`, which start again after each period.
struct WithPeriod<'o, T, F> {
    whole: &'o [T],
    other: &'o [T],
    period: usize,
    f: F,
}

impl<T, U: Clone + Default, F: Fn(&T, &T) -> U> Loops for WithPeriod<'_, T, F> {
    type Result = Vec<U>;

    #[inline(always)]
    fn run(self) -> Vec<U> {
        let mut out = defaults(self.whole.len());
        for (a, out) in self.whole.chunks_exact(self.period).zip(out.chunks_exact_mut(self.period)) {
            a.iter().zip(self.other).zip(out).for_each(|((a, b), out)| *out = (self.f)(a, b));
        }
        out
    }
}

/// Applies `f` to the elements of `whole` and those of `other`, each of which is used for a run of elements.
struct WithRuns<'o, T, F> {
    whole: &'o [T],
    other: &'o [T],
    run: usize,
    f: F,
}

impl<T, U: Clone + Default, F: Fn(&T, &T) -> U> Loops for WithRuns<'_, T, F> {
    type Result = Vec<U>;

    #[inline(always)]
    fn run(self) -> Vec<U> {
        let mut out = defaults(self.whole.len());
        let runs = self.whole.chunks_exact(self.run).zip(out.chunks_exact_mut(self.run));
        for ((a, out), b) in runs.zip(self.other) {
            a.iter().zip(out).for_each(|(a, out)| *out = (self.f)(a, b));
        }
        out
    }
}

/// Applies `f` to each pair of elements, and writes the result over the element of `a`. `of_b` is the shape of `b`, and
/// `shape` that of `a` and of the result.
pub(super) fn pairs_in_place<T>(
    a: &mut [T],
    b: &[T],
    of_b: &[usize],
    shape: &[usize],
    f: impl Fn(&T, &T) -> T + Copy,
) {
    if a.is_empty() {
        return;
    }
    match Repeat::of(of_b, shape) {
        Repeat::Other => a.iter_mut().zip(source_indices(of_b, shape)).for_each(|(a, at)| *a = f(a, &b[at])),
        Repeat::Period(period) => widest(InPlaceWithPeriod { a, b, period, f }),
        Repeat::Run(run) => widest(InPlaceWithRuns { a, b, run, f }),
    }
}

/// [`WithPeriod`], in place.
struct InPlaceWithPeriod<'o, T, F> {
    a: &'o mut [T],
    b: &'o [T],
    period: usize,
    f: F,
}

impl<T, F: Fn(&T, &T) -> T> Loops for InPlaceWithPeriod<'_, T, F> {
    type Result = ();

    #[inline(always)]
    fn run(self) {
        for a in self.a.chunks_exact_mut(self.period) {
            a.iter_mut().zip(self.b).for_each(|(a, b)| *a = (self.f)(a, b));
        }
    }
}

/// [`WithRuns`], in place.
struct InPlaceWithRuns<'o, T, F> {
    a: &'o mut [T],
    b: &'o [T],
    run: usize,
    f: F,
}

impl<T, F: Fn(&T, &T) -> T> Loops for InPlaceWithRuns<'_, T, F> {
    type Result = ();

    #[inline(always)]
    fn run(self) {
        for (a, b) in self.a.chunks_exact_mut(self.run).zip(self.b) {
            a.iter_mut().for_each(|a| *a = (self.f)(a, b));
        }
    }
}

/// Returns the results of `f` for each element.
pub(super) fn each<T, U: Clone + Default>(x: &[T], f: impl Fn(&T) -> U) -> Vec<U> {
    widest(Each { x, f })
}

/// Replaces each element by the result of `f`.
pub(super) fn each_in_place<T>(x: &mut [T], f: impl Fn(&T) -> T) {
    widest(EachInPlace { x, f });
}

struct EachInPlace<'o, T, F> {
    x: &'o mut [T],
    f: F,
}

impl<T, F: Fn(&T) -> T> Loops for EachInPlace<'_, T, F> {
    type Result = ();

    #[inline(always)]
    fn run(self) {
        self.x.iter_mut().for_each(|x| *x = (self.f)(x));
    }
}

struct Each<'o, T, F> {
    x: &'o [T],
    f: F,
}

impl<T, U: Clone + Default, F: Fn(&T) -> U> Loops for Each<'_, T, F> {
    type Result = Vec<U>;

    #[inline(always)]
    fn run(self) -> Vec<U> {
        let mut out = defaults(self.x.len());
        self.x.iter().zip(&mut out).for_each(|(x, out)| *out = (self.f)(x));
        out
    }
}

/// Returns the elements of an operand, repeated over a result.
pub(super) fn repeated<'x, T: Clone>(x: &'x [T], from: &[usize], shape: &[usize]) -> Cow<'x, [T]> {
    let all: usize = shape.iter().product();
    match Repeat::of(from, shape) {
        Repeat::Period(period) if period == all => Cow::Borrowed(x),
        Repeat::Period(period) if period > 0 => x.iter().cycle().take(all).cloned().collect(),
        Repeat::Run(run) => x.iter().flat_map(|x| std::iter::repeat_n(x, run)).take(all).cloned().collect(),
        _ => source_indices(from, shape).map(|at| x[at].clone()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::{pairs, pairs_in_place, repeated, source_indices};
    use crate::graph::tensor::broadcast;

    /// All pairs of shapes of up to three dimensions, with lengths of 0 to 3.
    #[test]
    fn pairs_are_those_of_their_indices() {
        let mut shapes = vec![vec![]];
        for dimensions in 1..=3 {
            for at in 0..4usize.pow(dimensions) {
                shapes.push((0..dimensions).map(|d| at / 4usize.pow(d) % 4).collect());
            }
        }
        for of_a in &shapes {
            for of_b in &shapes {
                let Some(shape) = broadcast(of_a, of_b) else { continue };
                let values = |of: &[usize], first: usize| -> Vec<usize> {
                    (first..first + of.iter().product::<usize>()).collect()
                };
                let (a, b) = (values(of_a, 0), values(of_b, 1000));
                let found = pairs(&a, of_a, &b, of_b, &shape, |a, b| a * 10_000 + b);
                let expected: Vec<usize> = source_indices(of_a, &shape)
                    .zip(source_indices(of_b, &shape))
                    .map(|(at, bt)| a[at] * 10_000 + b[bt])
                    .collect();
                assert_eq!(found, expected, "{of_a:?} and {of_b:?}");
                if of_a[..] == shape[..] {
                    let mut found = a.clone();
                    pairs_in_place(&mut found, &b, of_b, &shape, |a, b| a * 10_000 + b);
                    assert_eq!(found, expected, "{of_a:?} and {of_b:?}, in place");
                }
                let expected: Vec<usize> = source_indices(of_a, &shape).map(|at| a[at]).collect();
                assert_eq!(*repeated(&a, of_a, &shape), expected, "{of_a:?} over {shape:?}");
            }
        }
    }
}
