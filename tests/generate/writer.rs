//! A schedule in the writing: the generator's own picture of the loops, and what the language's rules allow on them.

use fangorn::schedule::{Axis, Dim, Directive, GpuDim, Schedule, Size};

use super::Seeded;

pub const GRID: [GpuDim; 3] = [GpuDim::Grid(Axis::X), GpuDim::Grid(Axis::Y), GpuDim::Grid(Axis::Z)];
pub const BLOCK: [GpuDim; 3] = [GpuDim::Block(Axis::X), GpuDim::Block(Axis::Y), GpuDim::Block(Axis::Z)];
/// Loops that a draw may have: more are slow to shrink and show nothing new.
const MOST_LOOPS: usize = 24;
/// Copies of a body that nested unrolled loops may make together.
const MOST_COPIES: u32 = 32;

/// What directives have said of a loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Mapped to threads, or to a dimension.
    pub mapped: Option<Option<GpuDim>>,
    pub unrolled: bool,
    pub specialized: bool,
    pub cached: bool,
    pub interleaved: bool,
    /// `unrollWalk` or `peelWalk`.
    pub steps: bool,
    /// `atomicReduce`, `sharedReduce` or `vectorReduce`.
    pub reduced: bool,
}

/// A loop.
#[derive(Clone, Debug)]
pub struct Line {
    pub name: String,
    pub dim: Dim,
    /// Start, end and stride.
    range: [Size; 3],
    pub marks: Marks,
    parent: Option<usize>,
    pub children: Vec<usize>,
}

impl Line {
    fn plain(&self) -> bool {
        self.marks == Marks::default()
    }

    /// Where all three of its numbers are constants.
    pub fn constant_iterations(&self) -> Option<u32> {
        let [start, end, stride] = self.range.each_ref().map(Size::constant);
        Some(end?.saturating_sub(start?).div_ceil(stride?.max(1)))
    }

    /// Where that is a constant: also of `v` in tiles of `v/n`, which are at most `n`.
    fn iterations(&self) -> Option<u32> {
        match &self.range {
            [Size::Const(0), end, Size::Div(whole, n)] if **whole == *end => n.constant(),
            _ => self.constant_iterations(),
        }
    }
}

/// A schedule in the writing.
pub struct Writer {
    pub lines: Vec<Line>,
    roots: Vec<usize>,
    names: usize,
    most_walks: usize,
    pub out: Schedule,
}

impl Writer {
    /// The loops that a schedule starts from; at most `most_walks` innermost ones are made of them.
    pub fn new(most_walks: usize) -> Self {
        let line = |name: &str, dim, end, parent, children| Line {
            name: name.to_owned(),
            dim,
            range: [Size::Const(0), end, Size::Const(1)],
            marks: Marks::default(),
            parent,
            children,
        };
        let lines = vec![
            line("batch", Dim::Batch, Size::Batch, None, vec![1]),
            line("tree", Dim::Tree, Size::Trees, Some(0), vec![]),
        ];
        Self { lines, roots: vec![0], names: 0, most_walks, out: Schedule::new() }
    }

    /// The loops there are, from the outside in.
    pub fn live(&self) -> Vec<usize> {
        let mut live = Vec::new();
        let mut open: Vec<usize> = self.roots.iter().rev().copied().collect();
        while let Some(n) = open.pop() {
            live.push(n);
            open.extend(self.lines[n].children.iter().rev());
        }
        live
    }

    fn above(&self, n: usize) -> Vec<usize> {
        std::iter::successors(self.lines[n].parent, |p| self.lines[*p].parent).collect()
    }

    fn below(&self, n: usize) -> Vec<usize> {
        let inside = |c: &usize| std::iter::once(*c).chain(self.below(*c)).collect::<Vec<_>>();
        self.lines[n].children.iter().flat_map(inside).collect()
    }

    /// Every loop of this name, or those of them inside a loop named `within`.
    fn find(&self, name: &str, within: Option<&str>) -> Vec<usize> {
        let inside =
            |n: &usize| within.is_none_or(|w| self.above(*n).iter().any(|a| self.lines[*a].name == w));
        self.live().into_iter().filter(|n| self.lines[*n].name == name).filter(inside).collect()
    }

    /// A loop among those that `may` take part, as a path and all the loops it names, if those may too.
    fn pick(&self, which: u8, may: impl Fn(&Line) -> bool) -> Option<(String, Vec<usize>)> {
        let choice: Vec<usize> = self.live().into_iter().filter(|n| may(&self.lines[*n])).collect();
        let n = *choice.get(which as usize % choice.len().max(1))?;
        let name = &self.lines[n].name;
        let all = self.find(name, None);
        let (path, found) = if all.len() > 1 && which >= 128 {
            let above = self.above(n);
            let within = &self.lines[above[which as usize % above.len()]].name;
            (format!("{within}.{name}"), self.find(name, Some(within)))
        } else {
            (name.clone(), all)
        };
        found.iter().all(|n| may(&self.lines[*n])).then_some((path, found))
    }

    /// Says something of the loops of a name.
    pub fn mark(
        &mut self,
        which: u8,
        may: impl Fn(&Line) -> bool,
        set: impl Fn(&mut Marks),
        directive: impl Fn(String) -> Directive,
    ) {
        if let Some((path, found)) = self.pick(which, may) {
            found.iter().for_each(|n| set(&mut self.lines[*n].marks));
            self.out.directives.push(directive(path));
        }
    }

    /// Says what becomes of a tree loop's private sums.
    pub fn reduce(&mut self, which: u8, directive: impl Fn(String) -> Directive) {
        self.mark(which, |l| l.dim == Dim::Tree, |m| m.reduced = true, directive);
    }

    fn fresh(&mut self, dim: Dim) -> [String; 2] {
        let letter = if dim == Dim::Batch { 'b' } else { 't' };
        self.names += 2;
        [format!("{letter}{}", self.names - 2), format!("{letter}{}", self.names - 1)]
    }

    fn size(which: u8, dim: Dim) -> Size {
        let whole = if dim == Dim::Batch { Size::Batch } else { Size::Trees };
        match which % 16 {
            0 => whole / 2,
            1 => whole / 3,
            2 => whole / Size::Threads,
            3 => whole,
            4 => Size::Threads,
            5 => Size::Trees / 2,
            n @ 6..=13 => Size::Const([1, 2, 3, 4, 5, 7, 8, 16][n as usize - 6]),
            14 => Size::Const(64),
            _ => Size::Const(100),
        }
    }

    pub fn tile(&mut self, which: u8, size: u8) {
        let Some((path, found)) = self.pick(which, Line::plain).filter(|_| self.live().len() < MOST_LOOPS)
        else {
            return;
        };
        let dim = self.lines[found[0]].dim;
        let [outer, inner] = self.fresh(dim);
        let size = Self::size(size, dim);
        for n in found {
            let line = self.lines[n].clone();
            let [_, _, stride] = line.range.clone();
            let span = size.clone().times(stride.clone());
            self.lines.push(Line {
                name: inner.clone(),
                range: [Size::Const(0), span.clone(), stride],
                parent: Some(n),
                ..line.clone()
            });
            let below = self.lines.len() - 1;
            line.children.iter().for_each(|c| self.lines[*c].parent = Some(below));
            self.lines[n].name.clone_from(&outer);
            self.lines[n].range[2] = span;
            self.lines[n].children = vec![below];
        }
        self.out.directives.push(Directive::Tile { var: path, outer, inner, size });
    }

    pub fn split(&mut self, which: u8, at: u8) {
        let Some((path, found)) = self.pick(which, Line::plain) else { return };
        let dim = self.lines[found[0]].dim;
        let size: usize = found.iter().map(|n| 1 + self.below(*n).len()).sum();
        let innermost = |of: &[usize]| of.iter().filter(|n| self.lines[**n].children.is_empty()).count();
        let copied: Vec<usize> =
            found.iter().flat_map(|n| std::iter::once(*n).chain(self.below(*n))).collect();
        if self.live().len() + size > MOST_LOOPS
            || innermost(&self.live()) + innermost(&copied) > self.most_walks
        {
            return;
        }
        let [first, second] = self.fresh(dim);
        let at = Self::size(at, dim);
        for n in found {
            let [start, end, stride] = self.lines[n].range.clone();
            let cut = start.plus(at.clone().times(stride));
            let parent = self.lines[n].parent;
            let copy = self.copy(n, parent);
            self.lines[n].name.clone_from(&first);
            self.lines[n].range[1] = end.min(cut.clone());
            self.lines[copy].name.clone_from(&second);
            self.lines[copy].range[0] = cut;
            let beside = parent.map_or(&mut self.roots, |p| &mut self.lines[p].children);
            let index = beside.iter().position(|c| *c == n).expect("a child of its parent");
            beside.insert(index + 1, copy);
        }
        self.out.directives.push(Directive::Split { var: path, first, second, at });
    }

    fn copy(&mut self, n: usize, parent: Option<usize>) -> usize {
        let line = Line { parent, children: Vec::new(), ..self.lines[n].clone() };
        self.lines.push(line);
        let id = self.lines.len() - 1;
        for c in self.lines[n].children.clone() {
            let below = self.copy(c, Some(id));
            self.lines[id].children.push(below);
        }
        id
    }

    pub fn reorder(&mut self, which: u8, length: u8, seed: u64) {
        let Some((_, found)) = self.pick(which, |l| l.children.len() == 1) else { return };
        let chain_from = |top: usize| {
            let only = |n: &usize| if let [c] = self.lines[*n].children[..] { Some(c) } else { None };
            std::iter::successors(Some(top), only).collect::<Vec<_>>()
        };
        let mut chain = chain_from(found[0]);
        chain.truncate(2 + length as usize % 5);
        let names: Vec<String> = chain.iter().map(|n| self.lines[*n].name.clone()).collect();
        // Copies of these loops are reordered with them, so each must be the same perfect nest.
        let tops = self.find(&names[0], None);
        let copies: usize = names.iter().map(|n| self.find(n, None).len()).sum();
        let chains: Vec<Vec<usize>> = tops.iter().map(|t| chain_from(*t)).collect();
        let same = |c: &Vec<usize>| {
            c.len() >= names.len() && c.iter().zip(&names).all(|(n, name)| self.lines[*n].name == *name)
        };
        if chain.len() < 2 || copies != tops.len() * names.len() || !chains.iter().all(same) {
            return;
        }
        let mut order: Vec<usize> = (0..names.len()).collect();
        let mut random = Seeded(seed);
        for i in (1..order.len()).rev() {
            order.swap(i, random.below(i + 1));
        }
        let innermost = |c: &Vec<usize>| {
            let last = c[order[order.len() - 1]];
            let stays =
                |n: usize| n == last || !(self.lines[n].marks.interleaved || self.lines[n].marks.steps);
            c[..names.len()].iter().all(|n| stays(*n))
        };
        if !chains.iter().all(innermost) {
            return;
        }
        for chain in &chains {
            let data: Vec<Line> = chain.iter().map(|n| self.lines[*n].clone()).collect();
            for (index, from) in order.iter().enumerate() {
                let Line { parent, children, .. } = self.lines[chain[index]].clone();
                self.lines[chain[index]] = Line { parent, children, ..data[*from].clone() };
            }
        }
        let vars = order.iter().map(|i| names[*i].clone()).collect();
        self.out.directives.push(Directive::Reorder { vars });
    }

    /// Straight-line code for a plain loop of few iterations, however the batch is.
    pub fn unroll(&mut self, which: u8) {
        let may = |l: &Line| {
            let batch = l.range.iter().any(Size::depends_on_batch);
            let few = l.iterations().is_some_and(|n| n <= 8);
            l.marks.mapped.is_none() && !l.marks.interleaved && !batch && few
        };
        let Some((path, found)) = self.pick(which, may) else { return };
        let unrolled = |n: usize| {
            let l = &self.lines[n];
            if l.marks.unrolled || found.contains(&n) { l.iterations().unwrap_or(1).max(1) } else { 1 }
        };
        let round = |n: usize| self.above(n).into_iter().map(unrolled).product::<u32>() * unrolled(n);
        if self.live().into_iter().all(|n| round(n) <= MOST_COPIES) {
            found.iter().for_each(|n| self.lines[*n].marks.unrolled = true);
            self.out.directives.push(Directive::Unroll { var: path });
        }
    }

    /// On threads, or on a dimension that no loop round it or inside it has.
    pub fn map(&mut self, which: u8, dim: Option<GpuDim>) {
        let may = |l: &Line| l.marks.mapped.is_none() && !l.marks.interleaved && !l.marks.unrolled;
        let Some((path, found)) = self.pick(which, may) else { return };
        let clash = |n: &usize| {
            let mut around = self.above(*n).into_iter().chain(self.below(*n));
            dim.is_some() && around.any(|m| self.lines[m].marks.mapped == Some(dim) || found.contains(&m))
        };
        if found.iter().any(clash) {
            return;
        }
        found.iter().for_each(|n| self.lines[*n].marks.mapped = Some(dim));
        // Private sums are a product over the loops that share trees out: keep it in memory.
        let copies = |n: &usize| {
            let l = &self.lines[*n];
            let shared = l.marks.mapped.is_some() && l.dim == Dim::Tree;
            if shared { u64::from(l.iterations().unwrap_or(20).max(1)) } else { 1 }
        };
        if self.live().iter().map(copies).product::<u64>() > 4000 {
            found.iter().for_each(|n| self.lines[*n].marks.mapped = None);
            return;
        }
        self.out.directives.push(match dim {
            Some(dim) => Directive::GpuDimension { var: path, dim },
            None => Directive::Parallel { var: path },
        });
    }
}
