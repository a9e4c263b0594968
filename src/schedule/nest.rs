//! The loops that a schedule describes: a tree of index variables, whose ranges are inferred from the
//! variables that they derive from.
//!
//! A node's children are the loops immediately inside it (SilvanForge, section 3.1). A variable's value is an
//! *offset* into the range of the variable it derives from, so the row or the tree of a walk is the sum of
//! the offsets of the enclosing loops. A tile that does not divide its range needs a [`Bound`] to stay in it.
//! The bound belongs to the innermost of the loops that it involves, whatever their order.

use super::{Dim, Directive, Evaluation, GpuDim, Schedule, ScheduleError, Size};
use crate::forest::tiling::MOST_TILE;

/// How the iterations of a loop run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mapping {
    /// One after the other.
    #[default]
    Serial,
    /// On the machine's threads.
    Parallel,
    /// On the cubes or the units of a dimension of a GPU launch.
    Gpu(GpuDim),
}

/// An upper limit of a loop: `offset < end - Σ offsets of the enclosing loops in minus`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Bound {
    /// The limit before any offsets are subtracted.
    pub end: Size,
    /// Depths in the nest of the enclosing loops whose offsets are subtracted.
    pub minus: Vec<usize>,
}

/// The index variable of a loop.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IndexVar {
    /// The variable's name.
    pub name: String,
    /// Whether the variable counts rows or trees.
    pub dim: Dim,
    /// The first offset.
    pub start: Size,
    /// The distance from one offset to the next.
    pub stride: Size,
    /// The upper limits. An offset satisfies all of them.
    pub bounds: Vec<Bound>,
}

impl IndexVar {
    /// Returns the greatest number of iterations that the loop can have, whatever the offsets of enclosing
    /// loops are.
    pub fn extent(&self) -> Size {
        let own = self.bounds.iter().find(|b| b.minus.is_empty()).or(self.bounds.first());
        let end = own.map_or(Size::Const(0), |b| b.end.clone());
        match (&end, &self.start, &self.stride) {
            (Size::Const(end), Size::Const(start), Size::Const(stride)) => {
                Size::Const(end.saturating_sub(*start).div_ceil((*stride).max(1)))
            }
            // ⌈(s x p) / p⌉ is s, and ⌈a / ⌈a/n⌉⌉ is at most n.
            (Size::Mul(s, p), Size::Const(0), stride) if **p == *stride => (**s).clone(),
            (end, Size::Const(0), Size::Div(a, n)) if **a == *end => (**n).clone(),
            _ => end.less(self.start.clone()) / self.stride.clone(),
        }
    }
}

/// How the private sums of a parallel loop over trees are kept and added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ReduceMarks {
    /// Whether the sums are kept in a cube's shared memory.
    pub shared: bool,
    /// Whether walks add with atomic operations, so that there are no private sums.
    pub atomic: bool,
    /// Number of private sums that a stage adds at a time.
    pub vector: Option<u32>,
}

impl ReduceMarks {
    /// Returns whether atomic additions replace private sums. They don't in shared memory, because devices
    /// guarantee atomic additions only for buffers.
    pub fn is_atomic(self) -> bool {
        self.atomic && !self.shared
    }
}

/// What directives say about a loop, apart from its range.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Marks {
    /// How the loop's iterations run.
    pub mapping: Mapping,
    /// Whether the loop's iterations are straight-line code.
    pub unrolled: bool,
    /// Whether the loop's iterations have code of their own.
    pub specialize: bool,
    /// Whether the rows or trees of an iteration are cached.
    pub cache: bool,
    /// Whether the loop's walks advance together.
    pub interleave: bool,
    /// Number of straight-line steps of the loop's walks: `None` for none, `Some(Some(n))` for `n`,
    /// `Some(None)` for as many as the trees are deep.
    pub unroll: Option<Option<u32>>,
    /// The greatest number of first steps that walks take without a leaf test. These steps end at the depth
    /// of the shallowest leaf at the latest.
    pub peel: Option<u32>,
    /// A share of a profile's rows in percent. Straight-line steps test for a leaf down to the depth at which
    /// this share of the rows has reached a leaf.
    pub likely: Option<u32>,
    /// How the loop's trees find leaves.
    pub evaluate: Evaluation,
    /// How the private sums of the loop are kept and added up.
    pub reduce: ReduceMarks,
}

impl Marks {
    /// Returns the name of the directive that made the first of the marks, or `None` if there are no marks.
    fn directive(&self) -> Option<&'static str> {
        // The pattern names all fields, so that a new mark can't miss its directive here.
        let Self { mapping, unrolled, specialize, cache, interleave, unroll, peel, likely, evaluate, reduce } =
            self;
        let ReduceMarks { shared, atomic, vector } = reduce;
        let marks = [
            (matches!(mapping, Mapping::Parallel), "parallel"),
            (matches!(mapping, Mapping::Gpu(_)), "gpuDimension"),
            (*unrolled, "unroll"),
            (*specialize, "specialize"),
            (*cache, "cache"),
            (*interleave, "interleave"),
            (unroll.is_some(), "unrollWalk"),
            (peel.is_some() || likely.is_some(), "peelWalk"),
            (*evaluate != Evaluation::default(), "evaluate"),
            (*atomic, "atomicReduce"),
            (*shared, "sharedReduce"),
            (vector.is_some(), "vectorReduce"),
        ];
        marks.into_iter().find(|(is, _)| *is).map(|(_, directive)| directive)
    }
}

/// A loop with its marks and the loops inside it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NestLoop {
    /// The loop's index variable.
    pub var: IndexVar,
    /// What directives say about the loop.
    pub marks: Marks,
    /// The loops immediately inside. An innermost loop has none: it walks trees.
    pub body: Vec<NestLoop>,
}

impl NestLoop {
    /// Returns this loop and all loops inside it, outermost first.
    pub fn loops(&self) -> Vec<&NestLoop> {
        let mut all = vec![self];
        self.body.iter().for_each(|l| all.extend(l.loops()));
        all
    }
}

/// All loops of a schedule.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Nest {
    /// The outermost loops, one after the other.
    pub body: Vec<NestLoop>,
}

impl Nest {
    /// Returns all loops, outermost first.
    pub fn loops(&self) -> Vec<&NestLoop> {
        self.body.iter().flat_map(NestLoop::loops).collect()
    }
}

impl Schedule {
    /// Applies the directives to the loops `batch { tree }`, and returns the resulting loops.
    ///
    /// # Errors
    /// Returns the first directive that can't be applied, with the remedy.
    pub fn nest(&self) -> Result<Nest, ScheduleError> {
        let mut building = NestBuilder::new();
        for (i, directive) in self.directives.iter().enumerate() {
            let wrong = |remedy: String| ScheduleError::new(i, directive, remedy);
            building.apply(directive).map_err(wrong)?;
        }
        Ok(building.finish())
    }
}

/// A variable of a live loop, or one that other variables derive from. Its range lies within its parent's
/// range.
struct Var {
    name: String,
    dim: Dim,
    start: Size,
    stride: Size,
    end: Size,
    parent: Option<usize>,
    /// Whether the variable can run past the end of the parent's range, because its tile does not divide that
    /// range.
    limited: bool,
}

#[derive(Clone)]
struct Node {
    var: usize,
    marks: Marks,
    parent: Option<usize>,
    children: Vec<usize>,
}

/// Returns how many numbers and names a size is made of.
fn terms(size: &Size) -> usize {
    match size {
        Size::Const(_) | Size::Batch | Size::Trees | Size::Threads => 1,
        Size::Div(a, b) | Size::Mul(a, b) | Size::Add(a, b) | Size::Sub(a, b) | Size::Min(a, b) => {
            terms(a) + terms(b)
        }
    }
}

struct NestBuilder {
    vars: Vec<Var>,
    nodes: Vec<Node>,
    roots: Vec<usize>,
}

/// The greatest number of loops. A program that writes a schedule with more loops has a mistake.
const MOST_LOOPS: usize = 4096;
/// The greatest number of loops inside each other. A program that nests more loops has a mistake.
pub(crate) const MOST_DEPTH: usize = 32;
/// The greatest number of terms that the start, the stride or the end of a loop may be made of. Splits of
/// splits by sizes that are not numbers add up terms, and without a limit `n` such splits take memory in
/// proportion to `n` cubed.
const MOST_TERMS: usize = 64;

/// Refuses a size of 0, which the text form can't say.
fn at_least_one(size: &Size) -> Result<(), String> {
    match size {
        Size::Const(0) => Err("a size is at least 1; write 1 or more".into()),
        _ => Ok(()),
    }
}

impl NestBuilder {
    fn new() -> Self {
        let mut b = Self { vars: Vec::new(), nodes: Vec::new(), roots: Vec::new() };
        let zero = || Size::Const(0);
        let var = |name: &str, dim, end| Var {
            name: name.into(),
            dim,
            start: zero(),
            stride: Size::Const(1),
            end,
            parent: None,
            limited: false,
        };
        b.vars.push(var("batch", Dim::Batch, Size::Batch));
        b.vars.push(var("tree", Dim::Tree, Size::Trees));
        let batch = b.node(0, None);
        let tree = b.node(1, Some(batch));
        b.nodes[batch].children.push(tree);
        b.roots.push(batch);
        b
    }

    fn node(&mut self, var: usize, parent: Option<usize>) -> usize {
        self.nodes.push(Node { var, marks: Marks::default(), parent, children: Vec::new() });
        self.nodes.len() - 1
    }

    fn derive(
        &mut self,
        of: usize,
        name: &str,
        [start, stride, end]: [Size; 3],
        limited: bool,
    ) -> Result<usize, String> {
        if [&start, &stride, &end].iter().any(|size| terms(size) > MOST_TERMS) {
            return Err(format!(
                "the range of `{name}` would be made of more than {MOST_TERMS} sizes; tile and split by numbers, or less"
            ));
        }
        let dim = self.vars[of].dim;
        self.vars.push(Var { name: name.to_owned(), dim, start, stride, end, parent: Some(of), limited });
        Ok(self.vars.len() - 1)
    }

    fn name(&self, node: usize) -> &str {
        &self.vars[self.nodes[node].var].name
    }

    fn live(&self) -> Vec<usize> {
        let mut open: Vec<usize> = self.roots.iter().rev().copied().collect();
        let mut live = Vec::new();
        while let Some(n) = open.pop() {
            live.push(n);
            open.extend(self.nodes[n].children.iter().rev());
        }
        live
    }

    /// Returns every live loop that `path` names. The last component is the variable, the components before
    /// it are enclosing loops.
    fn find(&self, path: &str) -> Result<Vec<usize>, String> {
        let mut components = path.rsplit('.');
        let name = components.next().unwrap_or(path);
        let enclosing: Vec<&str> = components.collect();
        let matches = |node: usize| {
            let mut at = self.nodes[node].parent;
            let mut wanted = enclosing.iter();
            let mut next = wanted.next();
            while let (Some(want), Some(here)) = (next, at) {
                if self.name(here) == *want {
                    next = wanted.next();
                }
                at = self.nodes[here].parent;
            }
            next.is_none()
        };
        let found: Vec<usize> =
            self.live().into_iter().filter(|n| self.name(*n) == name && matches(*n)).collect();
        if found.is_empty() {
            let mut names: Vec<&str> = self.live().into_iter().map(|n| self.name(n)).collect();
            let mut seen = std::collections::HashSet::new();
            names.retain(|name| seen.insert(*name));
            return Err(format!("there is no loop `{path}`; the loops are {}", names.join(", ")));
        }
        Ok(found)
    }

    fn check_new_names(&self, names: [&str; 2]) -> Result<(), String> {
        if names[0] == names[1] {
            return Err(format!("`{}` names two new loops; give them two names", names[0]));
        }
        match names.iter().find(|n| self.live().into_iter().any(|l| self.name(l) == **n)) {
            Some(taken) => Err(format!("there is a loop `{taken}` already; choose another name")),
            None => Ok(()),
        }
    }

    /// Checks that `more` more loops may be made.
    fn room(&self, more: usize) -> Result<(), String> {
        match self.nodes.len() + more > MOST_LOOPS {
            true => Err(format!("more than {MOST_LOOPS} loops; split and tile less")),
            false => Ok(()),
        }
    }

    fn innermost(&self, path: &str) -> Result<Vec<usize>, String> {
        let found = self.find(path)?;
        match found.iter().any(|n| !self.nodes[*n].children.is_empty()) {
            true => Err(format!(
                "`{path}` is not an innermost loop; name the loop that holds no other, or reorder"
            )),
            false => Ok(found),
        }
    }

    fn plain(&self, node: usize) -> Result<(), String> {
        match self.nodes[node].marks.directive() {
            Some(directive) => Err(format!(
                "`{}` has a mark of `{directive}` already; tile and split first",
                self.name(node)
            )),
            None => Ok(()),
        }
    }

    /// Returns the loops that `path` names, all of which must go over trees.
    fn over_trees(&self, path: &str) -> Result<Vec<usize>, String> {
        let found = self.find(path)?;
        match found.iter().any(|n| self.vars[self.nodes[*n].var].dim == Dim::Batch) {
            true => Err(format!("`{path}` goes over rows, which need no reduction; name a loop over trees")),
            false => Ok(found),
        }
    }

    fn mark(&mut self, found: Vec<usize>, set: impl Fn(&mut Marks)) -> Result<(), String> {
        found.into_iter().for_each(|n| set(&mut self.nodes[n].marks));
        Ok(())
    }

    fn apply(&mut self, directive: &Directive) -> Result<(), String> {
        match directive {
            Directive::Tile { var, outer, inner, size } => {
                let found = self.find(var)?;
                at_least_one(size)?;
                self.check_new_names([outer, inner])?;
                self.room(found.len())?;
                found.into_iter().try_for_each(|n| self.tile(n, outer, inner, size))
            }
            Directive::Split { var, first, second, at } => {
                let found = self.find(var)?;
                at_least_one(at)?;
                self.check_new_names([first, second])?;
                self.room(found.iter().map(|n| self.count(*n)).sum())?;
                // Inner loops come first, because the split of an outer loop clones the loops inside it.
                found.into_iter().rev().try_for_each(|n| self.split(n, first, second, at))
            }
            Directive::Reorder { vars } => self.reorder(vars),
            Directive::Parallel { var } => {
                self.find(var)?.into_iter().try_for_each(|n| self.map(n, Mapping::Parallel))
            }
            Directive::GpuDimension { var, dim } => {
                self.find(var)?.into_iter().try_for_each(|n| self.map(n, Mapping::Gpu(*dim)))
            }
            Directive::Unroll { var } => self.unroll(var),
            Directive::Specialize { var } => {
                let found = self.find(var)?;
                if found.iter().any(|n| self.nodes[*n].marks.interleave) {
                    return Err(format!("`{var}` is interleaved; specialize a loop outside it"));
                }
                self.mark(found, |m| m.specialize = true)
            }
            Directive::Cache { var } => {
                let found = self.find(var)?;
                if found.iter().any(|n| self.nodes[*n].marks.interleave) {
                    return Err(format!("`{var}` is interleaved; cache a loop outside it"));
                }
                self.mark(found, |m| m.cache = true)
            }
            Directive::Interleave { var } => self.interleave(var),
            Directive::UnrollWalk { var, steps } => {
                let found = self.innermost(var)?;
                self.mark(found, |m| m.unroll = Some(*steps))
            }
            Directive::PeelWalk { var, steps } => {
                let found = self.innermost(var)?;
                self.mark(found, |m| m.peel = Some(*steps))
            }
            Directive::PeelLikely { var, percent } => {
                let found = self.innermost(var)?;
                if !(1..=100).contains(percent) {
                    return Err(format!("{percent}% is no share of the rows; write 1% to 100%"));
                }
                self.mark(found, |m| m.likely = Some(*percent))
            }
            Directive::TileNodes { nodes, .. } if !(1..=MOST_TILE).contains(nodes) => {
                Err(format!("{nodes} nodes are no tile; write 1 to {MOST_TILE}"))
            }
            Directive::Evaluate { var, how } => {
                let found = self.innermost(var)?;
                if let Evaluation::BlendTop(levels) = how
                    && !(1..=Evaluation::MOST_LEVELS).contains(levels)
                {
                    return Err(format!(
                        "{levels} levels are not blended; write 1 to {}",
                        Evaluation::MOST_LEVELS
                    ));
                }
                self.mark(found, |m| m.evaluate = *how)
            }
            Directive::AtomicReduce { var } => {
                let found = self.over_trees(var)?;
                self.mark(found, |m| m.reduce.atomic = true)
            }
            Directive::SharedReduce { var } => {
                let found = self.over_trees(var)?;
                self.mark(found, |m| m.reduce.shared = true)
            }
            Directive::VectorReduce { width, .. } if !matches!(width, 1 | 2 | 4 | 8 | 16) => {
                Err(format!("{width} sums are not added up together; write 1, 2, 4, 8 or 16"))
            }
            Directive::VectorReduce { var, width } => {
                let found = self.over_trees(var)?;
                self.mark(found, |m| m.reduce.vector = Some(*width))
            }
            Directive::Layout { .. }
            | Directive::TileNodes { .. }
            | Directive::Sort { .. }
            | Directive::Pad { .. }
            | Directive::FewRows { .. }
            | Directive::Ranks { .. } => Ok(()),
        }
    }

    /// Turns the iterations of loops into straight-line code.
    fn unroll(&mut self, var: &str) -> Result<(), String> {
        let found = self.find(var)?;
        for n in &found {
            let Node { var: v, marks, .. } = &self.nodes[*n];
            if marks.mapping != Mapping::Serial || marks.interleave {
                return Err(format!(
                    "`{var}` is mapped or interleaved; unroll a plain loop inside it, tile({var}, outer, inner, 4)"
                ));
            }
            let v = &self.vars[*v];
            if [&v.start, &v.stride, &v.end].iter().any(|s| s.depends_on_batch()) {
                return Err(format!(
                    "`{var}` has as many iterations as a call has rows; tile it, tile({var}, outer, inner, 4), and unroll the \
                     inner loop"
                ));
            }
        }
        self.mark(found, |m| m.unrolled = true)
    }

    /// Lets the walks of innermost loops advance together.
    fn interleave(&mut self, var: &str) -> Result<(), String> {
        for n in self.innermost(var)? {
            let Marks { mapping, cache, unrolled, specialize, .. } = self.nodes[n].marks;
            if mapping != Mapping::Serial || cache || unrolled || specialize {
                return Err(format!(
                    "`{var}` is mapped, cached, unrolled or specialized; interleave a plain loop inside it, \
                     tile({var}, outer, inner, 4)"
                ));
            }
            let v = &self.vars[self.nodes[n].var];
            let lanes = match (&v.start, &v.end, &v.stride) {
                (Size::Const(start), Size::Const(end), Size::Const(stride)) => {
                    Some(end.saturating_sub(*start).div_ceil((*stride).max(1)))
                }
                _ => None,
            };
            match lanes {
                Some(1..=64) => self.nodes[n].marks.interleave = true,
                Some(n) => return Err(format!("`{var}` has {n} iterations; interleave 1 to 64")),
                None => {
                    return Err(format!(
                        "`{var}` has no constant extent; tile it, tile({var}, outer, inner, 4), and interleave the inner loop"
                    ));
                }
            }
        }
        Ok(())
    }

    fn tile(&mut self, node: usize, outer: &str, inner: &str, size: &Size) -> Result<(), String> {
        self.plain(node)?;
        let of = self.nodes[node].var;
        let v = &self.vars[of];
        let (start, stride, end) = (v.start.clone(), v.stride.clone(), v.end.clone());
        let span = size.clone().times(stride.clone());
        let divides = match (&start, &end, &span) {
            (Size::Const(start), Size::Const(end), Size::Const(span)) => {
                end.saturating_sub(*start).is_multiple_of((*span).max(1))
            }
            _ => false,
        };
        let o = self.derive(of, outer, [start, span.clone(), end], !divides)?;
        let i = self.derive(of, inner, [Size::Const(0), stride, span], !divides)?;
        if self.depth(node) + self.height(node) >= MOST_DEPTH {
            return Err(format!("more than {MOST_DEPTH} loops inside each other; tile less"));
        }
        let children = std::mem::take(&mut self.nodes[node].children);
        let below = self.node(i, Some(node));
        for c in &children {
            self.nodes[*c].parent = Some(below);
        }
        self.nodes[below].children = children;
        self.nodes[node].var = o;
        self.nodes[node].children = vec![below];
        Ok(())
    }

    /// Returns how many nodes there are from `node` down, itself included.
    fn count(&self, node: usize) -> usize {
        1 + self.nodes[node].children.iter().map(|c| self.count(*c)).sum::<usize>()
    }

    /// Returns how many loops enclose a node.
    fn depth(&self, node: usize) -> usize {
        std::iter::successors(self.nodes[node].parent, |n| self.nodes[*n].parent).count()
    }

    /// Returns the number of loops from a node down to the deepest innermost loop, the node included.
    fn height(&self, node: usize) -> usize {
        1 + self.nodes[node].children.iter().map(|c| self.height(*c)).max().unwrap_or(0)
    }

    fn split(&mut self, node: usize, first: &str, second: &str, at: &Size) -> Result<(), String> {
        self.plain(node)?;
        let of = self.nodes[node].var;
        let v = &self.vars[of];
        let (start, stride, end) = (v.start.clone(), v.stride.clone(), v.end.clone());
        let cut = start.clone().plus(at.clone().times(stride.clone()));
        let a = self.derive(of, first, [start, stride.clone(), end.clone().min(cut.clone())], false)?;
        let b = self.derive(of, second, [cut, stride, end], false)?;
        let parent = self.nodes[node].parent;
        let clone = self.clone_below(node, parent);
        self.nodes[node].var = a;
        self.nodes[clone].var = b;
        let siblings = match parent {
            Some(p) => &mut self.nodes[p].children,
            None => &mut self.roots,
        };
        let index = siblings.iter().position(|n| *n == node).unwrap_or(siblings.len() - 1);
        siblings.insert(index + 1, clone);
        Ok(())
    }

    fn clone_below(&mut self, node: usize, parent: Option<usize>) -> usize {
        let clone = Node { parent, children: Vec::new(), ..self.nodes[node].clone() };
        self.nodes.push(clone);
        let id = self.nodes.len() - 1;
        for child in self.nodes[node].children.clone() {
            let c = self.clone_below(child, Some(id));
            self.nodes[id].children.push(c);
        }
        id
    }

    fn map(&mut self, node: usize, mapping: Mapping) -> Result<(), String> {
        let marks = &self.nodes[node].marks;
        if marks.mapping != Mapping::Serial {
            return Err(format!("`{}` is mapped already; map a loop once", self.name(node)));
        }
        if marks.interleave || marks.unrolled {
            return Err(format!("`{}` is interleaved or unrolled; map a loop outside it", self.name(node)));
        }
        if let Mapping::Gpu(dim) = mapping {
            let clashes = |n: usize| self.nodes[n].marks.mapping == mapping;
            let mut above = self.nodes[node].parent;
            while let Some(a) = above {
                if clashes(a) {
                    return Err(format!(
                        "the enclosing loop `{}` has {dim} already; use another dimension",
                        self.name(a)
                    ));
                }
                above = self.nodes[a].parent;
            }
            let mut below = self.nodes[node].children.clone();
            while let Some(b) = below.pop() {
                if clashes(b) {
                    return Err(format!(
                        "the loop `{}` inside has {dim} already; use another dimension",
                        self.name(b)
                    ));
                }
                below.extend(&self.nodes[b].children);
            }
        }
        self.nodes[node].marks.mapping = mapping;
        Ok(())
    }

    fn reorder(&mut self, vars: &[String]) -> Result<(), String> {
        let mut named = Vec::new();
        for (index, var) in vars.iter().enumerate() {
            named.extend(self.find(var)?.into_iter().map(|n| (n, index)));
        }
        let index_of = |node: usize| named.iter().find(|(n, _)| *n == node).map(|(_, index)| *index);
        let tops: Vec<usize> = self
            .live()
            .into_iter()
            .filter(|n| index_of(*n).is_some())
            .filter(|n| self.nodes[*n].parent.is_none_or(|p| index_of(p).is_none()))
            .collect();
        for top in tops {
            let mut chain = vec![top];
            while let [only] = self.nodes[chain[chain.len() - 1]].children[..] {
                if index_of(only).is_none() {
                    break;
                }
                chain.push(only);
            }
            let mut indices: Vec<Option<usize>> = chain.iter().map(|n| index_of(*n)).collect();
            let data: Vec<Node> = chain.iter().map(|n| self.nodes[*n].clone()).collect();
            let given = indices.clone();
            indices.sort_unstable();
            if indices != (0..vars.len()).map(Some).collect::<Vec<_>>() {
                return Err(format!(
                    "{} are not one perfect nest, each loop immediately inside the other; name all loops from the \
                     outermost to the innermost of them",
                    vars.join(", ")
                ));
            }
            for (node, from) in given.iter().zip(&data) {
                let to = chain[node.unwrap_or(0)];
                let (parent, children) = (self.nodes[to].parent, self.nodes[to].children.clone());
                self.nodes[to] = Node { parent, children, ..from.clone() };
            }
        }
        // Some marks are valid only on an innermost loop, so no reorder may move such a loop outwards.
        match self.live().into_iter().find(|n| {
            let Node { marks, children, .. } = &self.nodes[*n];
            let steps = marks.unroll.is_some() || marks.peel.is_some() || marks.likely.is_some();
            let walks = steps || marks.evaluate != Evaluation::Walk;
            !children.is_empty() && (marks.interleave || walks)
        }) {
            Some(n) => Err(format!(
                "`{}` is interleaved, or its walks are unrolled or blended, and it would no longer be innermost; reorder first",
                self.name(n)
            )),
            None => Ok(()),
        }
    }

    fn finish(&self) -> Nest {
        let mut path = Vec::new();
        Nest { body: self.roots.iter().map(|r| self.finish_loop(*r, &mut path)).collect() }
    }

    /// Returns the finished loop. `path` holds the variables of the loops that enclose it, outermost first.
    fn finish_loop(&self, node: usize, path: &mut Vec<usize>) -> NestLoop {
        let n = &self.nodes[node];
        let v = &self.vars[n.var];
        path.push(n.var);
        let bounds = self.bounds(node, path);
        let body = n.children.iter().map(|c| self.finish_loop(*c, path)).collect();
        path.pop();
        let var = IndexVar {
            name: v.name.clone(),
            dim: v.dim,
            start: v.start.clone(),
            stride: v.stride.clone(),
            bounds,
        };
        NestLoop { var, marks: n.marks.clone(), body }
    }

    /// Returns the limits of the loop at the end of `path`: its own end, and the end of every variable that
    /// it descends from, if the other descendants of that variable are all in enclosing loops.
    fn bounds(&self, node: usize, path: &[usize]) -> Vec<Bound> {
        let me = self.nodes[node].var;
        let mut below = Vec::new();
        let mut open = self.nodes[node].children.clone();
        while let Some(n) = open.pop() {
            below.push(self.nodes[n].var);
            open.extend(&self.nodes[n].children);
        }
        let mut bounds = vec![Bound { end: self.vars[me].end.clone(), minus: Vec::new() }];
        let mut at = self.vars[me].parent;
        let mut child_on_path = me;
        while let Some(ancestor) = at {
            let descends =
                |v: usize| std::iter::successors(Some(v), |v| self.vars[*v].parent).any(|v| v == ancestor);
            if self.vars[child_on_path].limited && !below.iter().any(|v| descends(*v)) {
                let above = &path[..path.len() - 1];
                let minus: Vec<usize> = (0..above.len()).filter(|d| descends(above[*d])).collect();
                let end = self.vars[ancestor].end.clone();
                // Of two limits with the same end, the one that subtracts more offsets makes the other
                // superfluous.
                bounds.retain(|b| b.end != end || b.minus.iter().any(|d| !minus.contains(d)));
                bounds.push(Bound { end, minus });
            }
            child_on_path = ancestor;
            at = self.vars[ancestor].parent;
        }
        bounds
    }
}
