//! The plan's text form.

use std::fmt::{self, Write};

use super::{
    Adders, CachedTrees, Children, Combine, Dim, Emit, Limit, Map, NodeFormat, Op, Plan, Range, Rest,
    RowLoop, Sum, Target, Value, Walk,
};

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let target = match self.target {
            Target::Cpu => "cpu",
            Target::Cube => "cube",
        };
        let emit = match self.emit {
            Emit::Margins => "margins".to_owned(),
            Emit::Values(t) => format!("values({}, {})", t.name(), self.place().name()),
            Emit::Slots => "slots".to_owned(),
            Emit::Trace => "trace".to_owned(),
        };
        writeln!(f, "plan {target} emit={emit} outputs={} rows={:?}", self.outputs, self.rows)?;
        write!(f, "  layout {} ", self.layout)?;
        match self.children {
            Children::Affine { stride } => write!(f, "left=2*a+c right=left+{stride}")?,
            Children::Interleaved => write!(f, "left=2*a+c right=left+trees")?,
            Children::Linked => write!(f, "left=node.link right=left+1")?,
            Children::Near => write!(f, "left=a+1 right=node.link")?,
            Children::TilesComputed { nodes } => write!(f, "tiles={nodes} child=k+{}*a+c", nodes + 1)?,
            Children::TilesLinked { nodes } => write!(f, "tiles={nodes} child=k+tile.link")?,
        }
        if self.target == Target::Cube {
            let NodeFormat { words, column_bits, spare_bits } = self.node;
            write!(f, " words={words} column={column_bits}")?;
            if spare_bits > 0 {
                write!(f, " threshold={}", 32 - spare_bits)?;
            }
        }
        write!(f, " questions={} vector_leaves={}", self.questions, self.vector_leaves)?;
        match self.combine {
            Combine::Sum => writeln!(f)?,
            Combine::Min => writeln!(f, " combine=min")?,
            Combine::Max => writeln!(f, " combine=max")?,
            Combine::Fixed => writeln!(f, " combine=fixed")?,
        }
        if self.target == Target::Cube {
            let grid = self.grid.map(|g| g.map_or("1".to_owned(), |v| self.value(v)));
            writeln!(f, "  launch grid=[{}] block={:?}", grid.join(", "), self.cube_dim)?;
            writeln!(f, "  shared {} bytes, {} barriers", self.shared_bytes(), self.barriers())?;
        }
        for (i, size) in self.sizes.iter().enumerate() {
            writeln!(f, "  s{i} = {size}")?;
        }
        if self.cached_rows.is_some() {
            let which = if self.used_columns { "used " } else { "" };
            let from = self.ranks_from.map_or(String::new(), |from| format!(", ranks of {from:?} rows"));
            let group = self.column_group.map_or(String::new(), |trees| format!(" of each {trees} trees"));
            writeln!(
                f,
                "  row cache: keys[{which}{}{group}, {}]{from}",
                self.features,
                self.cached_stride()
            )?;
        }
        if let Some(CachedTrees { trees, words }) = self.cached_trees {
            writeln!(f, "  tree cache: {words} words for {trees} trees")?;
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
        if !self.tail.is_empty() {
            writeln!(f, "  tail ({}): {}", self.place().name(), self.tail)?;
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
            Sum::Atomic => "result atomic +=".to_owned(),
            Sum::Partial { buffer, atomic: false } => format!("partial{buffer} +="),
            Sum::Partial { buffer, atomic: true } => format!("partial{buffer} atomic +="),
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
        if walk.tested > 0 {
            text += &format!(" tested {}", walk.tested);
        }
        text += match walk.rest {
            Rest::Nothing => "",
            Rest::UntilLeaf => " until leaf",
            Rest::Counted => " to the tree's depth",
        };
        match walk.blend {
            None => {}
            Some(u32::MAX) => text += ", or blend",
            Some(levels) => text += &format!(", or from {levels} blended levels on"),
        }
        text += match (walk.cached_rows, walk.cached_trees) {
            (false, false) => "",
            (true, false) => ", rows cached",
            (false, true) => ", trees cached",
            (true, true) => ", rows and trees cached",
        };
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
                    Map::Unrolled { count } => format!("{count} times for"),
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
            Op::Only { dims, body } => {
                let dims: Vec<String> = dims.iter().map(|d| format!("{d} = 0")).collect();
                writeln!(f, "only {}:", dims.join(", "))?;
                self.write_ops(f, body, depth + 1)
            }
            Op::CacheRows { .. } if self.target == Target::Cpu => writeln!(f, "cacheRows"),
            Op::CacheTrees { .. } if self.target == Target::Cpu => writeln!(f, "cacheTrees"),
            Op::CacheTrees { trees } => {
                writeln!(f, "barrier; cacheTrees {trees} by {} units; barrier", self.units())
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
            Op::ReduceShared { into, rows, by } => {
                let by = match by {
                    Adders::Unit => "a unit a row",
                    Adders::Cube => "the cube's units together",
                    Adders::Plane => "a plane a row",
                };
                writeln!(
                    f,
                    "barrier; {} reduce shared sums by {by}, {}; barrier",
                    self.sum_text(into),
                    self.chains(rows)
                )
            }
            Op::ReduceDimension { buffer, dimension, outer, rows, in_place, atomic, vector } => {
                let name = match (in_place, atomic) {
                    (true, _) => "reduceDimensionInplace",
                    (false, false) => "result += reduceDimension",
                    (false, true) => "result atomic += reduceDimension",
                };
                let name = if *vector > 1 { format!("{name} by {vector}") } else { name.to_owned() };
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
