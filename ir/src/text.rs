//! The text form of a plan.

use std::fmt::{self, Write};

use crate::{
    Children, Combine, Dialect, Dim, Emit, Limit, Loop, Map, Op, Plan, Range, Remainder, RowLoop, Target,
    Value, Walk,
};

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cpu => "cpu",
            Self::Cube => "cube",
        })
    }
}

impl fmt::Display for Emit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Margins => f.write_str("margins"),
            Self::Values(transform) => write!(f, "values({})", transform.name()),
            Self::Slots => f.write_str("slots"),
            Self::Trace => f.write_str("trace"),
        }
    }
}

impl fmt::Display for Children {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Affine { stride } => write!(f, "left=2*a+c right=left+{stride}"),
            Self::Interleaved => write!(f, "left=2*a+c right=left+trees"),
            Self::Linked => write!(f, "left=node.link right=left+1"),
            Self::Near => write!(f, "left=a+1 right=node.link"),
            Self::TilesComputed { nodes } => write!(f, "tiles={nodes} child=k+{}*a+c", nodes + 1),
            Self::TilesLinked { nodes } => write!(f, "tiles={nodes} child=k+tile.link"),
        }
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Batch => "rows",
            Self::Tree => "trees",
        })
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Const(n) => write!(f, "{n}"),
            Self::Size(s) => write!(f, "s{s}"),
        }
    }
}

/// Text such as `s0-r0`.
impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.end)?;
        self.minus.iter().try_for_each(|r| write!(f, "-r{r}"))
    }
}

/// Text such as `0 .. min(64, s0-r0) step 1`.
impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} .. ", self.start)?;
        match &self.limits[..] {
            [only] => write!(f, "{only}")?,
            many => {
                let many: Vec<String> = many.iter().map(ToString::to_string).collect();
                write!(f, "min({})", many.join(", "))?;
            }
        }
        write!(f, " step {}", self.stride)
    }
}

/// Text for how a walk goes on after its straight-line steps, such as ` until leaf`.
impl fmt::Display for Remainder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "",
            Self::UntilLeaf => " until leaf",
            Self::Counted => " to the tree's depth",
        })
    }
}

impl<D: Dialect> fmt::Display for Plan<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let emit = D::emit_text(self);
        writeln!(f, "plan {} emit={emit} outputs={} rows={:?}", D::TARGET, self.outputs, self.rows)?;
        write!(f, "  layout {} {}{}", self.layout, self.children, D::node_text(self))?;
        write!(f, " questions={} vector_leaves={}", self.questions, self.vector_leaves)?;
        match self.combine {
            Combine::Sum => writeln!(f)?,
            Combine::Min => writeln!(f, " combine=min")?,
            Combine::Max => writeln!(f, " combine=max")?,
            Combine::Fixed => writeln!(f, " combine=fixed")?,
        }
        D::write_launch(self, f)?;
        for (i, size) in self.sizes.iter().enumerate() {
            writeln!(f, "  s{i} = {size}")?;
        }
        D::write_buffers(self, f)?;
        self.write_ops(f, &self.body, 0)
    }
}

impl<D: Dialect> Plan<D> {
    /// Returns the text of chains of loops over rows: `rows(r0 in 0 .. 64 step 1) and rows(…)`.
    pub(crate) fn chains(&self, rows: &[Vec<RowLoop>]) -> String {
        let chain = |chain: &Vec<RowLoop>| {
            let one = |l: &RowLoop| format!("r{} in {}", l.register, l.range);
            format!("rows({})", chain.iter().map(one).collect::<Vec<_>>().join("; "))
        };
        rows.iter().map(chain).collect::<Vec<_>>().join(" and ")
    }

    pub(crate) fn write_ops(&self, f: &mut fmt::Formatter<'_>, ops: &[Op<D>], depth: usize) -> fmt::Result {
        ops.iter().try_for_each(|op| self.write_op(f, op, depth))
    }

    fn write_op(&self, f: &mut fmt::Formatter<'_>, op: &Op<D>, depth: usize) -> fmt::Result {
        write!(f, "{:1$}", "", depth * 2)?;
        match op {
            Op::Loop(l) => {
                let Loop { var, dim, register, range, map, body } = l;
                let how = match map {
                    Map::Serial => "for".to_owned(),
                    Map::Unrolled { count } => format!("{count} times for"),
                    Map::Own(map) => D::map_text(*map),
                };
                writeln!(f, "{how} {var} (r{register}, {dim}) in {range}:")?;
                self.write_ops(f, body, depth + 1)
            }
            Op::Walk(walk) => writeln!(f, "{}", D::walk_text(walk, &start(walk), &walk.rest.to_string())),
            Op::Cases { register, cases } => {
                for (i, (end, body)) in cases.iter().enumerate() {
                    let pad = if i == 0 { 0 } else { depth * 2 };
                    match i + 1 == cases.len() {
                        true => writeln!(f, "{:pad$}otherwise:", "")?,
                        false => writeln!(f, "{:pad$}case r{register} < {end}:", "")?,
                    }
                    self.write_ops(f, body, depth + 1)?;
                }
                Ok(())
            }
            Op::Own(op) => D::write_op(self, op, f, depth),
        }
    }
}

/// Returns the text of a walk's lanes and straight-line steps.
fn start<D: Dialect>(walk: &Walk<D>) -> String {
    let mut text = "walk".to_owned();
    // Writing to a String does not fail.
    if let Some(lanes) = &walk.lanes {
        let _ =
            write!(text, " {} lanes of {} r{} in {}", lanes.count, lanes.dim, lanes.register, lanes.range);
    }
    if walk.steps > 0 {
        let _ = write!(text, " unrolled {}", walk.steps);
    }
    text
}
