//! The plan's text form.

use std::fmt::{self, Write};

use super::{Children, Dim, Emit, Limit, Map, Op, Plan, Range, RowLoop, Sum, Target, Value, Walk};

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let target = match self.target {
            Target::Cpu => "cpu",
            Target::Cube => "cube",
        };
        let emit = match self.emit {
            Emit::Margins => "margins",
            Emit::Slots => "slots",
            Emit::Trace => "trace",
        };
        writeln!(f, "plan {target} emit={emit} outputs={} rows={:?}", self.outputs, self.rows)?;
        write!(f, "  layout {} ", self.layout)?;
        match self.children {
            Children::Affine { stride } => write!(f, "left=2*a+c right=left+{stride}")?,
            Children::Linked => write!(f, "left=node.link right=left+1")?,
        }
        if self.target == Target::Cube {
            write!(f, " words={}", self.node_words)?;
        }
        writeln!(f, " questions={} vector_leaves={}", self.questions, self.vector_leaves)?;
        if self.target == Target::Cube {
            let grid = self.grid.map(|g| g.map_or("1".to_owned(), |v| self.value(v)));
            writeln!(f, "  launch grid=[{}] block={:?}", grid.join(", "), self.cube_dim)?;
            writeln!(f, "  shared {} bytes, {} barriers", self.shared_bytes(), self.barriers())?;
        }
        for (i, size) in self.sizes.iter().enumerate() {
            writeln!(f, "  s{i} = {size}")?;
        }
        if let Some(sums) = &self.shared_sums {
            writeln!(f, "  shared sums: f32[{}, {}, {}]", sums.copies(), sums.rows, self.outputs)?;
        }
        for (i, partial) in self.partials.iter().enumerate() {
            let copies = partial.dims.iter().map(|d| match d.gpu {
                Some(dim) => format!("{dim}"),
                None => self.value(d.count),
            });
            let copies: Vec<String> = copies.collect();
            writeln!(f, "  partial{i}: f32[{}, batch, {}]", copies.join(", "), self.outputs)?;
        }
        self.write_ops(f, &self.body, 0)
    }
}

impl Plan {
    fn value(&self, value: Value) -> String {
        match value {
            Value::Const(n) => n.to_string(),
            Value::Slot(s) => format!("s{s}"),
        }
    }

    fn limits(&self, limits: &[Limit]) -> String {
        let one = |l: &Limit| {
            l.minus.iter().fold(self.value(l.end), |mut text, r| {
                // Writing to a String does not fail.
                let _ = write!(text, "-r{r}");
                text
            })
        };
        match limits {
            [only] => one(only),
            many => format!("min({})", many.iter().map(one).collect::<Vec<_>>().join(", ")),
        }
    }

    /// A range as text: `0 .. min(64, s0-r0) step 1`.
    pub fn range_text(&self, range: &Range) -> String {
        let [start, step] = [range.start, range.step].map(|v| self.value(v));
        format!("{start} .. {} step {step}", self.limits(&range.limits))
    }

    /// A sum's target as text, with its operator.
    pub fn sum_text(&self, sum: &Sum) -> String {
        match sum {
            Sum::Result { first: true } => "result = base +".to_owned(),
            Sum::Result { first: false } => "result +=".to_owned(),
            Sum::Partial { buffer } => format!("partial{buffer} +="),
            Sum::Shared => "shared +=".to_owned(),
        }
    }

    fn walk(&self, walk: &Walk) -> String {
        let mut text = "walk".to_owned();
        if let Some(lanes) = &walk.lanes {
            let dim = lanes.dim;
            text += &format!(
                " {} lanes of {dim} r{} in {}",
                lanes.count,
                lanes.register,
                self.range_text(&lanes.range)
            );
        }
        if walk.steps > 0 {
            text += &format!(" unrolled {}", walk.steps);
        }
        if !walk.complete {
            text += " until leaf";
        }
        text
    }

    fn chains(&self, rows: &[Vec<RowLoop>]) -> String {
        let chain = |chain: &Vec<RowLoop>| {
            let one = |l: &RowLoop| format!("r{} in {}", l.register, self.range_text(&l.range));
            format!("rows({})", chain.iter().map(one).collect::<Vec<_>>().join("; "))
        };
        rows.iter().map(chain).collect::<Vec<_>>().join(" and ")
    }

    fn write_ops(&self, f: &mut fmt::Formatter<'_>, ops: &[Op], depth: usize) -> fmt::Result {
        ops.iter().try_for_each(|op| self.write_op(f, op, depth))
    }

    fn write_op(&self, f: &mut fmt::Formatter<'_>, op: &Op, depth: usize) -> fmt::Result {
        write!(f, "{:1$}", "", depth * 2)?;
        match op {
            Op::Loop(l) => {
                let how = match l.map {
                    Map::Serial => "for".to_owned(),
                    Map::Parallel => "par.for".to_owned(),
                    Map::Gpu { dim, single: true } => format!("{dim} once for"),
                    Map::Gpu { dim, single: false } => format!("{dim} for"),
                };
                writeln!(
                    f,
                    "{how} {} (r{}, {}) in {}:",
                    l.var,
                    l.register,
                    l.dim,
                    self.range_text(&l.range)
                )?;
                self.write_ops(f, &l.body, depth + 1)
            }
            Op::Walk(w) => match &w.into {
                Some(into) => writeln!(f, "{} {}", self.sum_text(into), self.walk(w)),
                None => writeln!(f, "{}", self.walk(w)),
            },
            Op::Accumulate { body, into } => {
                writeln!(f, "{} accumulate:", self.sum_text(into))?;
                self.write_ops(f, body, depth + 1)
            }
            Op::CacheRows { rows } => {
                writeln!(
                    f,
                    "barrier; cacheRows {rows} x {} by {} units; barrier",
                    self.features,
                    self.units()
                )
            }
            Op::ClearShared => writeln!(f, "clear shared sums; barrier"),
            Op::ReduceShared { into, rows } => {
                writeln!(
                    f,
                    "barrier; {} reduce shared sums, {}; barrier",
                    self.sum_text(into),
                    self.chains(rows)
                )
            }
            Op::ReduceDimension { buffer, dimension, outer, rows, in_place } => {
                let name = if *in_place { "reduceDimensionInplace" } else { "result += reduceDimension" };
                let outer: Vec<String> = outer.iter().map(|r| format!("r{r}")).collect();
                let rows = self.chains(rows);
                writeln!(f, "{name}(partial{buffer}, {dimension}, [{}], {rows})", outer.join(", "))
            }
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
