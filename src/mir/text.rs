//! The loop nest's text form, in the words of the papers' listings.

use std::fmt;

use super::{BufferId, Dim, IndexVar, Loop, LoopNest, Mode, Op, Size};

impl fmt::Display for LoopNest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "result: f32[batch, outputs]")?;
        for (i, partial) in self.partials.iter().enumerate() {
            let copies: Vec<String> = partial.loops.iter().map(|(_, v, _)| extent(v)).collect();
            let space = if self.shared(i) { "shared " } else { "" };
            writeln!(f, "partial{i}: {space}f32[{}, batch, outputs]", copies.join(", "))?;
        }
        writeln!(f, "model = ensemble(trees)")?;
        write_ops(self, f, &self.body, &mut Vec::new())
    }
}

impl LoopNest {
    /// Whether a partial buffer's copies belong in shared memory: some loop of its chain says so.
    pub fn shared(&self, buffer: usize) -> bool {
        fn says(ops: &[Op], depth: usize, at: usize, var: &IndexVar) -> bool {
            ops.iter().any(|op| match op {
                Op::Loop(l) if depth == at => l.shared_reduce && l.var == *var,
                Op::Loop(l) => says(&l.body, depth + 1, at, var),
                _ => false,
            })
        }
        self.partials[buffer].loops.iter().any(|(depth, var, _)| says(&self.body, 0, *depth, var))
    }
}

fn extent(var: &IndexVar) -> String {
    var.extent().to_string()
}

/// `a + b` of the loops of a dimension, and lanes as a vector.
fn index(path: &[&IndexVar], lanes: Option<&IndexVar>, dim: Dim) -> String {
    let mut names: Vec<String> = path.iter().filter(|v| v.dim == dim).map(|v| v.name.clone()).collect();
    names.extend(lanes.filter(|v| v.dim == dim).map(|v| format!("{}[0:{}]", v.name, extent(v))));
    names.join(" + ")
}

fn limits(var: &IndexVar, path: &[&IndexVar]) -> String {
    let texts: Vec<String> = var
        .bounds
        .iter()
        .map(|b| b.minus.iter().fold(b.end.to_string(), |text, d| format!("{text} - {}", path[*d].name)))
        .collect();
    if let [only] = &texts[..] { only.clone() } else { format!("min({})", texts.join(", ")) }
}

fn copy(var: &IndexVar) -> String {
    let base = match &var.start {
        Size::Const(0) => var.name.clone(),
        start => format!("({} - {start})", var.name),
    };
    match &var.step {
        Size::Const(1) => base,
        step @ (Size::Const(_) | Size::Batch | Size::Trees) => format!("{base}/{step}"),
        step => format!("{base}/({step})"),
    }
}

fn write_ops<'a>(
    nest: &LoopNest,
    f: &mut fmt::Formatter<'_>,
    ops: &'a [Op],
    path: &mut Vec<&'a IndexVar>,
) -> fmt::Result {
    ops.iter().try_for_each(|op| write_op(nest, f, op, path))
}

fn write_op<'a>(
    nest: &LoopNest,
    f: &mut fmt::Formatter<'_>,
    op: &'a Op,
    path: &mut Vec<&'a IndexVar>,
) -> fmt::Result {
    let pad = " ".repeat(2 * path.len());
    match op {
        Op::Loop(Loop { var, mode, body, .. }) => {
            let how = match mode {
                Mode::Serial => "for".to_owned(),
                Mode::Parallel => "par.for".to_owned(),
                Mode::Gpu(dim) => format!("{dim}.for"),
            };
            let step = match &var.step {
                Size::Const(1) => String::new(),
                step => format!(" step {step}"),
            };
            writeln!(f, "{pad}{how} {} = {} to {}{step}:", var.name, var.start, limits(var, path))?;
            path.push(var);
            write_ops(nest, f, body, path)?;
            path.pop();
            Ok(())
        }
        Op::CacheRows => {
            let rows = index(path, None, Dim::Batch);
            writeln!(f, "{pad}cacheRows(rows[{rows} :])")
        }
        Op::Walk(walk) => {
            let [trees, rows] = [Dim::Tree, Dim::Batch].map(|d| index(path, walk.lanes.as_ref(), d));
            let unroll = match walk.unroll {
                None => String::new(),
                Some(None) => ", unrollDepth=all".to_owned(),
                Some(Some(n)) => format!(", unrollDepth={n}"),
            };
            let target = match walk.into {
                BufferId::Result => "result".to_owned(),
                BufferId::Partial(b) => nest.partials[b]
                    .loops
                    .iter()
                    .fold(format!("partial{b}"), |text, (_, v, _)| format!("{text}[{}]", copy(v))),
            };
            writeln!(f, "{pad}t = getTree(model, {trees})")?;
            writeln!(f, "{pad}p = walkDecisionTree(t, rows[{rows}]{unroll})")?;
            writeln!(f, "{pad}reduce({target}[{rows}], p)")
        }
        Op::Reduce(reduce) => {
            let partial = &nest.partials[reduce.buffer];
            let outer: Vec<String> =
                partial.loops[..reduce.dimension].iter().map(|(_, v, _)| format!("[{}]", copy(v))).collect();
            let rows: Vec<String> = reduce.rows.iter().map(|d| path[*d].name.clone()).collect();
            let rows = if rows.is_empty() {
                ":".to_owned()
            } else {
                format!("{} : +{}", rows.join(" + "), span(path, &reduce.rows))
            };
            let outer = outer.concat();
            let name = format!("partial{}", reduce.buffer);
            match reduce.dimension {
                0 => writeln!(f, "{pad}result[{rows}] += reduceDimension({name}[:, {rows}], 0)"),
                d => writeln!(f, "{pad}reduceDimInplace({name}{outer}[:, {rows}], {d})"),
            }
        }
    }
}

/// Rows of one iteration of all the enclosing row loops: the finest step among them.
fn span(path: &[&IndexVar], rows: &[usize]) -> String {
    let steps = || rows.iter().map(|d| &path[*d].step);
    let finest = steps().filter(|s| s.constant().is_some()).min_by_key(|s| s.constant());
    finest.or(steps().next_back()).map_or_else(String::new, Size::to_string)
}
