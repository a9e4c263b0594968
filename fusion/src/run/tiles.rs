//! Programs over tiles of rows.

use std::ops::Range;

use fangorn::cpu::prefer_large_pages;
use rayon::prelude::*;

use super::{
    Values,
    groups::{LeftProduct, RightProduct, pays},
    kernels::{
        View, add_scaled_skipping, aggregate, aggregate_columns, aggregate_rows, binary, multiply_skipping,
        unary,
    },
    narrow::{NARROW, add_transposed, multiply},
};
use crate::{
    CompressedMatrix, Matrix, SingleMatrix,
    dag::{Aggregation, Binary, Dag, Direction, Format, NodeId, Operator},
    select::{GROUP_COLUMNS, PlannedOperator},
};

/// The number of elements of the widest node's register. The registers of a program then fit a second-level cache.
const TILE: usize = 4096;

/// The number of shares of a result's rows for each thread.
const SHARES: usize = 8;

/// What a root computes from tiles.
#[derive(Clone, Copy)]
enum End {
    /// Rows of the result, tile by tile.
    Rows,
    /// An aggregate of all elements.
    Full(Aggregation),
    /// An aggregate of each column.
    Columns(Aggregation),
    /// t(X) W, summed over the rows.
    Product,
}

/// The right factor of a product.
struct WholeFactor<'a> {
    /// All of its elements, row after row.
    values: &'a [f64],
    /// Number of rows.
    rows: usize,
    /// Number of columns.
    columns: usize,
}

struct Tiles<'a> {
    dag: &'a Dag,
    operator: &'a PlannedOperator,
    values: &'a Values,
    /// The rows that the operator goes through.
    rows: usize,
    /// For each covered node the product, if its left-hand side is a compressed matrix whose groups it goes over.
    products: Vec<Option<RightProduct<'a>>>,
    /// For each node of the graph, where a tile finds its rows.
    places: Vec<Place<'a>>,
    /// The number of columns of each register.
    widths: Vec<usize>,
}

/// Where a tile finds the rows of a node.
#[derive(Clone, Copy)]
enum Place<'a> {
    /// Nowhere: a transposition that products view, or a node that the operator does not read.
    Nowhere,
    /// A register, which a later node takes over when nothing reads this one any more.
    Register(usize),
    /// The rows of a root's result, by the root's index.
    Result(usize),
    /// Sums of a root, by its index. Nothing in the operator reads them.
    Sums(usize),
    /// All elements of a dense matrix.
    Dense(&'a [f64]),
    /// The register of an input in another format, by the input's index.
    Loaded(usize),
}

/// Rows of an input that is not a dense matrix of double precision.
#[derive(Default)]
struct Loaded {
    /// The first row and the number of rows.
    rows: (usize, usize),
    values: Vec<f64>,
}

/// What one thread computes a tile with.
struct Registers<'a, 'o> {
    computed: Vec<Vec<f64>>,
    /// For each root, the rows of its result that the tile computes; empty if it is summed.
    results: Vec<&'o mut [f64]>,
    inputs: Vec<Loaded>,
    /// For each root, the product t(X) W of the rows so far, if X is a compressed matrix whose groups it goes over.
    left: Vec<Option<LeftProduct<'a>>>,
    /// The rows of a left-hand side of other products, if it is compressed or of single precision.
    factor: Vec<f64>,
}

/// Computes the roots of an operator.
pub(super) fn run(dag: &Dag, operator: &PlannedOperator, values: &Values) -> Vec<(NodeId, Matrix)> {
    let rows = operator.space(dag).0;
    let mut tiles =
        Tiles { dag, operator, values, rows, products: Vec::new(), places: Vec::new(), widths: Vec::new() };
    tiles.products = operator.covered.iter().map(|node| tiles.right_product(*node)).collect();
    tiles.place();
    // Rows of a compressed matrix, or of one of single precision, are held only if elements of it are read, or if a
    // product does not go over its groups.
    let is_held = |node: &NodeId| !tiles.is_converted(*node) || operator.reads_elements(dag, *node);
    let held = operator.covered.iter().chain(&operator.inputs).copied().filter(is_held);
    let factors = operator.covered.iter().filter_map(|node| tiles.converted_factor(*node));
    let widths = held.chain(factors).filter(|node| dag.shape(*node).0 == rows);
    let widest = widths.map(|node| dag.shape(node).1).max().unwrap_or(1);
    // Blocked products need several rows at a time, those with many columns more of them.
    let mut products = operator.covered.iter().filter(|node| *dag.operator(**node) == Operator::MatMul);
    let is_blocked = operator.template.is_none() || products.clone().any(|node| dag.shape(*node).1 > NARROW);
    let multiplies = products.next().is_some();
    let decompresses = operator.inputs.iter().any(|node| tiles.compressed(*node).is_some());
    let least = match (multiplies, is_blocked) {
        (true, true) => 128,
        // Each tile starts anew in each column group, which a few rows do not pay for.
        _ if decompresses && widest <= TILE => 32,
        (true, false) => 16,
        _ => 1,
    };
    let height = (TILE / widest).max(least).clamp(1, rows);
    let results = tiles.results(height);
    let matrices = operator
        .roots
        .iter()
        .zip(results)
        .filter_map(|(root, result)| Some((*root, Matrix::dense(dag.shape(*root), result)?)));
    matrices.collect()
}

impl<'a> Tiles<'a> {
    fn compressed(&self, node: NodeId) -> Option<&'a CompressedMatrix> {
        match self.values.get(&node) {
            Some(Matrix::Compressed(matrix)) => Some(matrix.as_ref()),
            _ => None,
        }
    }

    /// Returns the left-hand side of a product, X of t(X) W, if it is compressed, and tells whether the product goes over
    /// its groups.
    fn factor(&self, product: NodeId) -> Option<(NodeId, &'a CompressedMatrix, bool)> {
        if *self.dag.operator(product) != Operator::MatMul {
            return None;
        }
        let left = self.turned(product).unwrap_or(self.dag.inputs(product)[0]);
        let (matrix, width) = (self.compressed(left)?, self.dag.shape(product).1);
        let by_groups = width <= GROUP_COLUMNS && pays(matrix, width, rayon::current_num_threads());
        Some((left, matrix, by_groups))
    }

    /// Returns the left-hand side of a product if rows of it are decompressed or widened.
    fn converted_factor(&self, product: NodeId) -> Option<NodeId> {
        if let Some((left, _, by_groups)) = self.factor(product) {
            return (!by_groups).then_some(left);
        }
        let is_product = *self.dag.operator(product) == Operator::MatMul;
        let left = || self.turned(product).unwrap_or(self.dag.inputs(product)[0]);
        is_product.then(left).filter(|left| self.is_converted(*left))
    }

    /// Tells whether rows of a left-hand side of a product need a register of their own.
    fn is_converted(&self, node: NodeId) -> bool {
        matches!(self.values.get(&node), Some(Matrix::Single(_) | Matrix::Compressed(_)))
    }

    fn right_product(&self, product: NodeId) -> Option<RightProduct<'a>> {
        let (_, matrix, by_groups) = self.factor(product)?;
        if !by_groups || self.turned(product).is_some() {
            return None;
        }
        let width = self.dag.shape(product).1;
        Some(match self.values.get(&self.dag.inputs(product)[1])? {
            Matrix::Dense(dense) => RightProduct::new(matrix, dense.values(), width),
            other => RightProduct::new(matrix, &other.to_dense(), width),
        })
    }

    fn end(&self, root: NodeId) -> End {
        match self.dag.operator(root) {
            Operator::Aggregate(aggregation, Direction::Full) => End::Full(*aggregation),
            Operator::Aggregate(aggregation, Direction::Column) => End::Columns(*aggregation),
            Operator::MatMul if self.turned(root).is_some() => End::Product,
            _ => End::Rows,
        }
    }

    /// Tells whether a zero of a node gives 0 in products, even times NaN or infinity. It may do so in a dense
    /// register, too.
    fn skips(&self, node: NodeId) -> bool {
        self.dag.size(node).format == Format::Csr
    }

    /// Returns X if a node is a product t(X) W.
    fn turned(&self, node: NodeId) -> Option<NodeId> {
        let inputs = self.dag.inputs(node);
        let differ = *self.dag.operator(node) == Operator::MatMul && inputs[0] != inputs[1];
        self.dag.transposed(inputs[0]).filter(|_| differ)
    }

    /// Says where a tile finds the rows of each node. A register is taken over once the last node that reads it is
    /// computed, so that few of them need a place in the cache.
    fn place(&mut self) {
        let PlannedOperator { covered, roots, inputs, .. } = self.operator;
        let mut places = vec![Place::Nowhere; self.dag.nodes().len()];
        // A product reads what is transposed.
        let read = |node: NodeId| {
            let of = self.dag.inputs(node).iter().copied();
            of.flat_map(|input| [Some(input), self.dag.transposed(input)]).flatten()
        };
        for input in covered.iter().flat_map(|node| read(*node)) {
            places[input] = match (self.values.get(&input), inputs.binary_search(&input)) {
                (Some(Matrix::Dense(dense)), _) => Place::Dense(dense.values()),
                (_, Ok(at)) => Place::Loaded(at),
                _ => Place::Nowhere,
            };
        }
        let mut last_readers: Vec<usize> = (0..covered.len()).collect();
        for (index, node) in covered.iter().enumerate() {
            read(*node)
                .filter_map(|of| covered.binary_search(&of).ok())
                .for_each(|at| last_readers[at] = index);
        }
        let mut read_last = vec![Vec::new(); covered.len()];
        last_readers.iter().enumerate().for_each(|(at, reader)| read_last[*reader].push(covered[at]));
        let (mut widths, mut free) = (Vec::<usize>::new(), Vec::<usize>::new());
        for (index, node) in covered.iter().enumerate() {
            let root = roots.binary_search(node).ok();
            places[*node] = match (root, self.end(*node)) {
                _ if *self.dag.operator(*node) == Operator::Transpose => Place::Nowhere,
                (Some(root), End::Rows) => Place::Result(root),
                (Some(root), _) => Place::Sums(root),
                (None, _) => {
                    let width = self.dag.shape(*node).1;
                    // The narrowest one that is wide enough, or the widest one.
                    let key = |at: &usize| (widths[*at] < width, widths[*at].abs_diff(width));
                    let register = match free.iter().copied().min_by_key(key) {
                        Some(register) => {
                            free.retain(|at| *at != register);
                            register
                        }
                        None => {
                            widths.push(0);
                            widths.len() - 1
                        }
                    };
                    widths[register] = widths[register].max(width);
                    Place::Register(register)
                }
            };
            // What this node reads last is free only after it, since loops do not read what they write.
            free.extend(read_last[index].iter().filter_map(|node| match places[*node] {
                Place::Register(register) => Some(register),
                _ => None,
            }));
        }
        (self.places, self.widths) = (places, widths);
    }

    fn registers(&self, height: usize) -> Registers<'a, '_> {
        let left = |root: &NodeId| {
            let factor =
                self.factor(*root).filter(|(.., by_groups)| *by_groups && self.turned(*root).is_some());
            factor.map(|(_, matrix, _)| LeftProduct::new(matrix, self.dag.shape(*root).1))
        };
        let roots = &self.operator.roots;
        Registers {
            computed: self.widths.iter().map(|width| vec![0.0; width * height]).collect(),
            results: roots.iter().map(|_| [].as_mut_slice()).collect(),
            inputs: self.operator.inputs.iter().map(|_| Loaded::default()).collect(),
            left: roots.iter().map(left).collect(),
            factor: Vec::new(),
        }
    }

    /// Computes the results of all roots in one pass over the rows. Each thread takes shares of adjacent tiles, computes
    /// their rows of results, and sums over them; the sums of shares are joined in the end.
    fn results(&self, height: usize) -> Vec<Vec<f64>> {
        let roots = &self.operator.roots;
        let is_summed = |root: &NodeId| !matches!(self.end(*root), End::Rows);
        // Shares that are not summed cost nothing, and small ones keep all threads busy.
        let for_each = if roots.iter().any(is_summed) { 1 } else { SHARES };
        let tiles = self.rows.div_ceil(height);
        let each = tiles.div_ceil(for_each * rayon::current_num_threads().max(1)).max(1);
        let mut whole: Vec<Vec<f64>> = roots.iter().map(|root| self.memory(*root)).collect();
        let mut shares: Vec<Vec<&mut [f64]>> = (0..tiles.div_ceil(each)).map(|_| Vec::new()).collect();
        for (root, whole) in roots.iter().zip(&mut whole) {
            let mut rows = whole.chunks_mut(each * height * self.dag.shape(*root).1);
            shares.iter_mut().for_each(|share| share.push(rows.next().unwrap_or_default()));
        }
        let sums = shares.into_par_iter().enumerate().map(|(at, rows)| {
            let tiles = at * each..tiles.min((at + 1) * each);
            self.share(tiles, height, rows)
        });
        let mut sums = sums.collect::<Vec<Vec<Vec<f64>>>>().into_iter();
        let mut joint = sums.next().unwrap_or_default();
        for sums in sums {
            for ((root, joint), sums) in roots.iter().zip(&mut joint).zip(sums) {
                let join = |a: f64, b: f64| match self.end(*root) {
                    End::Full(aggregation) | End::Columns(aggregation) => aggregation.join(a, b),
                    _ => a + b,
                };
                joint.iter_mut().zip(sums).for_each(|(a, b)| *a = join(*a, b));
            }
        }
        for ((root, whole), joint) in roots.iter().zip(&mut whole).zip(joint) {
            if is_summed(root) {
                *whole = joint;
            }
        }
        whole
    }

    /// Returns memory for the rows of a result; none for one that is summed.
    fn memory(&self, root: NodeId) -> Vec<f64> {
        if !matches!(self.end(root), End::Rows) {
            return Vec::new();
        }
        let mut rows = vec![0.0; self.rows * self.dag.shape(root).1];
        prefer_large_pages(&mut rows);
        rows
    }

    /// Computes some tiles: their rows of results, and for each root the sums over them, which are none for a root that
    /// gives rows.
    fn share(&self, tiles: Range<usize>, height: usize, mut rows: Vec<&mut [f64]>) -> Vec<Vec<f64>> {
        let roots = &self.operator.roots;
        let start = |root: &NodeId| {
            let (count, width) = self.dag.shape(*root);
            match self.end(*root) {
                End::Rows => Vec::new(),
                End::Full(aggregation) | End::Columns(aggregation) => {
                    vec![aggregation.start(); count * width]
                }
                End::Product => vec![0.0; count * width],
            }
        };
        let mut sums: Vec<Vec<f64>> = roots.iter().map(start).collect();
        let mut registers = self.registers(height);
        for tile in tiles {
            let first = tile * height;
            let count = height.min(self.rows - first);
            for ((root, rest), result) in roots.iter().zip(&mut rows).zip(&mut registers.results) {
                let whole = std::mem::take(rest);
                let elements = if whole.is_empty() { 0 } else { count * self.dag.shape(*root).1 };
                (*result, *rest) = whole.split_at_mut(elements);
            }
            self.evaluate(first, count, &mut registers, &mut sums);
        }
        for (left, sums) in registers.left.into_iter().zip(&mut sums) {
            if let Some(left) = left {
                left.finish(sums);
            }
        }
        sums
    }

    /// Computes the covered nodes on a tile, and adds to the sums of roots.
    fn evaluate(&self, first: usize, count: usize, registers: &mut Registers, sums: &mut [Vec<f64>]) {
        for node in &self.operator.covered {
            match self.places[*node] {
                Place::Register(at) => {
                    let mut out = std::mem::take(&mut registers.computed[at]);
                    self.compute(*node, first, count, registers, &mut out);
                    registers.computed[at] = out;
                }
                Place::Result(at) => {
                    let out = std::mem::take(&mut registers.results[at]);
                    self.compute(*node, first, count, registers, out);
                    registers.results[at] = out;
                }
                Place::Sums(at) => self.accumulate(*node, first, count, registers, (at, &mut sums[at])),
                Place::Nowhere | Place::Dense(_) | Place::Loaded(_) => {}
            }
        }
    }

    fn accumulate(
        &self,
        root: NodeId,
        first: usize,
        count: usize,
        registers: &mut Registers,
        (at, sums): (usize, &mut [f64]),
    ) {
        let inputs = self.dag.inputs(root);
        match self.end(root) {
            End::Rows => {}
            End::Full(aggregation) => {
                self.load(inputs[0], first, count, registers);
                let view = self.view(inputs[0], first, count, registers);
                let width = self.dag.shape(inputs[0]).1;
                sums[0] = aggregate(aggregation, sums[0], &view.data[..count * width]);
            }
            End::Columns(aggregation) => {
                self.load(inputs[0], first, count, registers);
                let view = self.view(inputs[0], first, count, registers);
                aggregate_columns(aggregation, &view.data[..count * sums.len()], sums);
            }
            End::Product => {
                let Some(left) = self.turned(root) else { return };
                self.load(inputs[1], first, count, registers);
                let (columns, width) = self.dag.shape(root);
                if let Some(Matrix::Csr(sparse)) = self.values.get(&left) {
                    let right = self.view(inputs[1], first, count, registers);
                    if width == 1 {
                        for row in 0..count {
                            let scale = right.data[row];
                            for (column, value) in sparse.row(first + row).filter(|(_, value)| *value != 0.0)
                            {
                                sums[column] += value * scale;
                            }
                        }
                        return;
                    }
                    for row in 0..count {
                        let from = &right.data[row * width..][..width];
                        for (column, value) in sparse.row(first + row) {
                            add_scaled_skipping(&mut sums[column * width..][..width], value, from);
                        }
                    }
                    return;
                }
                if let Some(mut product) = registers.left[at].take() {
                    let right = self.view(inputs[1], first, count, registers).data;
                    product.add(first..first + count, right);
                    registers.left[at] = Some(product);
                    return;
                }
                self.load_factor(left, first, count, registers);
                let right = self.view(inputs[1], first, count, registers);
                let left = self.rows_of_factor(left, first, count, registers);
                if self.turned(root).is_some_and(|turned| self.skips(turned)) {
                    for (row, left) in left.chunks_exact(columns).take(count).enumerate() {
                        let from = &right.data[row * width..][..width];
                        for (column, value) in left.iter().enumerate() {
                            add_scaled_skipping(&mut sums[column * width..][..width], *value, from);
                        }
                    }
                    return;
                }
                if width <= NARROW {
                    add_transposed(&left[..count * columns], &right.data[..count * width], width, sums);
                    return;
                }
                if columns <= NARROW {
                    // The transposed product has few columns.
                    let mut turned = vec![0.0; sums.len()];
                    let (left, right) = (&left[..count * columns], &right.data[..count * width]);
                    add_transposed(right, left, columns, &mut turned);
                    for (at, sum) in sums.iter_mut().enumerate() {
                        *sum += turned[at % width * columns + at / width];
                    }
                    return;
                }
                let left = View { data: left, row: 1, column: columns };
                let right = View { data: right.data, row: width, column: 1 };
                gemm([columns, count, width], left, right, 1.0, sums);
            }
        }
    }

    /// Fills the register of an input that is not a dense matrix of double precision.
    fn load(&self, node: NodeId, first: usize, count: usize, registers: &mut Registers) {
        let Place::Loaded(index) = self.places[node] else { return };
        let Some(matrix) = self.values.get(&node) else { return };
        let (rows, width) = self.dag.shape(node);
        // An input of one row, or the right-hand side of a product, is read whole.
        let (first, count) = if rows == self.rows { (first, count) } else { (0, rows) };
        let register = &mut registers.inputs[index];
        if register.rows == (first, count) {
            return;
        }
        register.rows = (first, count);
        register.values.clear();
        register.values.resize(count * width, 0.0);
        match matrix {
            Matrix::Dense(_) => {}
            Matrix::Single(single) => widen(single, first, &mut register.values),
            Matrix::Csr(sparse) => {
                for row in 0..count {
                    for (column, value) in sparse.row(first + row) {
                        register.values[row * width + column] = value;
                    }
                }
            }
            Matrix::Compressed(compressed) => {
                compressed.decompress(first..first + count, &mut register.values)
            }
        }
    }

    /// Decompresses or widens the rows of a left-hand side of a product. They have a register of their own, because the
    /// input's register may hold the whole matrix for the right-hand side.
    fn load_factor(&self, left: NodeId, first: usize, count: usize, registers: &mut Registers) {
        let size = count * self.dag.shape(left).1;
        match self.values.get(&left) {
            Some(Matrix::Compressed(matrix)) => {
                registers.factor.resize(size, 0.0);
                matrix.decompress(first..first + count, &mut registers.factor);
            }
            Some(Matrix::Single(matrix)) => {
                registers.factor.resize(size, 0.0);
                widen(matrix, first, &mut registers.factor);
            }
            _ => {}
        }
    }

    /// Returns the rows of a left-hand side of a product, row-major.
    fn rows_of_factor<'v>(
        &'v self,
        left: NodeId,
        first: usize,
        count: usize,
        registers: &'v Registers,
    ) -> &'v [f64] {
        if self.is_converted(left) {
            return &registers.factor;
        }
        self.view(left, first, count, registers).data
    }

    /// Returns the rows of a node in a tile, from a register or from the matrix itself.
    fn view<'v>(&'v self, node: NodeId, first: usize, count: usize, registers: &'v Registers) -> View<'v> {
        let (rows, width) = self.dag.shape(node);
        let column = usize::from(width > 1);
        let row = if rows == self.rows && rows > 1 { width } else { 0 };
        let data: &[f64] = match self.places[node] {
            Place::Register(at) => return View { data: &registers.computed[at], row: width, column },
            Place::Result(at) => return View { data: &registers.results[at][..], row: width, column },
            Place::Dense(values) if row > 0 => &values[first * width..(first + count) * width],
            Place::Dense(values) => values,
            Place::Loaded(at) => &registers.inputs[at].values,
            Place::Nowhere | Place::Sums(_) => &[],
        };
        View { data, row, column }
    }

    fn compute(&self, node: NodeId, first: usize, count: usize, registers: &mut Registers, out: &mut [f64]) {
        let inputs = self.dag.inputs(node);
        let width = self.dag.shape(node).1;
        let out = &mut out[..count * width];
        let operator = self.dag.operator(node);
        if *operator == Operator::MatMul {
            let at = self.operator.covered.binary_search(&node);
            if let Some(product) = at.ok().and_then(|at| self.products[at].as_ref()) {
                product.rows(first..first + count, out);
                return;
            }
            self.load_factor(inputs[0], first, count, registers);
            self.multiply(inputs[0], inputs[1], first, count, registers, out);
            return;
        }
        inputs.iter().for_each(|input| self.load(*input, first, count, registers));
        let view = |at: usize| {
            let view = self.view(inputs[at], first, count, registers);
            // One column of a wider result stands for all of its columns.
            View { column: if width == 1 { 0 } else { view.column }, ..view }
        };
        match operator {
            Operator::Unary(function) => unary(*function, view(0), out, width),
            Operator::Binary(Binary::Multiply) if self.skips(inputs[0]) || self.skips(inputs[1]) => {
                let skips = [self.skips(inputs[0]), self.skips(inputs[1])];
                multiply_skipping(view(0), view(1), skips, out, width);
            }
            Operator::Binary(function) => binary(*function, view(0), view(1), out, width),
            Operator::Aggregate(aggregation, _) => {
                let from = self.dag.shape(inputs[0]).1;
                let data = self.view(inputs[0], first, count, registers).data;
                out.fill(aggregation.start());
                aggregate_rows(*aggregation, &data[..count * from], from, out);
            }
            Operator::Columns { start, end } => {
                let from = self.dag.shape(inputs[0]).1;
                let data = self.view(inputs[0], first, count, registers).data;
                for (out, row) in out.chunks_exact_mut(width).zip(data.chunks_exact(from)) {
                    out.copy_from_slice(&row[*start..*end]);
                }
            }
            _ => {}
        }
    }

    fn multiply(
        &self,
        left: NodeId,
        right: NodeId,
        first: usize,
        count: usize,
        registers: &mut Registers,
        out: &mut [f64],
    ) {
        let (inner, width) = self.dag.shape(right);
        let whole = match self.values.get(&right) {
            Some(Matrix::Dense(dense)) => dense.values(),
            // A right-hand side in another format is made dense in its register, once for all tiles of a thread.
            _ => {
                self.load_whole(right, registers);
                let index = self.operator.inputs.binary_search(&right).unwrap_or(0);
                let right = std::mem::take(&mut registers.inputs[index]);
                let factor = WholeFactor { values: &right.values, rows: inner, columns: width };
                self.multiply_by(left, first, count, registers, factor, out);
                registers.inputs[index] = right;
                return;
            }
        };
        let factor = WholeFactor { values: whole, rows: inner, columns: width };
        self.multiply_by(left, first, count, registers, factor, out);
    }

    fn load_whole(&self, node: NodeId, registers: &mut Registers) {
        let Ok(index) = self.operator.inputs.binary_search(&node) else { return };
        let Some(matrix) = self.values.get(&node) else { return };
        let register = &mut registers.inputs[index];
        if register.rows != (0, matrix.shape().0) {
            *register = Loaded { rows: (0, matrix.shape().0), values: matrix.to_dense() };
        }
    }

    fn multiply_by(
        &self,
        left: NodeId,
        first: usize,
        count: usize,
        registers: &mut Registers,
        right: WholeFactor,
        out: &mut [f64],
    ) {
        let WholeFactor { values: right, rows: inner, columns: width } = right;
        if let Some(Matrix::Csr(sparse)) = self.values.get(&left) {
            if width == 1 {
                for (row, out) in out.iter_mut().enumerate() {
                    let held = sparse.row(first + row).filter(|(_, value)| *value != 0.0);
                    *out = held.map(|(column, value)| value * right[column]).sum();
                }
                return;
            }
            out.fill(0.0);
            for (row, out) in out.chunks_exact_mut(width).enumerate() {
                for (column, value) in sparse.row(first + row) {
                    add_scaled_skipping(out, value, &right[column * width..][..width]);
                }
            }
            return;
        }
        let data = self.rows_of_factor(left, first, count, registers);
        if self.skips(left) {
            out.fill(0.0);
            for (row, out) in data.chunks_exact(inner).zip(out.chunks_exact_mut(width)) {
                for (column, value) in row.iter().enumerate() {
                    add_scaled_skipping(out, *value, &right[column * width..][..width]);
                }
            }
            return;
        }
        if width <= NARROW {
            multiply(data, right, width, out);
            return;
        }
        let data = View { data, row: inner, column: 1 };
        gemm([count, inner, width], data, View { data: right, row: width, column: 1 }, 0.0, out);
    }
}

/// Widens rows of a matrix of single precision, as many as `out` holds.
fn widen(matrix: &SingleMatrix, first: usize, out: &mut [f64]) {
    let values = &matrix.values()[first * matrix.shape().1..];
    out.iter_mut().zip(values).for_each(|(out, x)| *out = f64::from(*x));
}

/// `out = a b + beta out`, with a of rows x inner, and b of inner x columns.
pub(super) fn gemm([rows, inner, columns]: [usize; 3], a: View, b: View, beta: f64, out: &mut [f64]) {
    let reach = |rows: usize, columns: usize, view: View| (rows - 1) * view.row + (columns - 1) * view.column;
    assert!(a.data.len() > reach(rows, inner, a) && b.data.len() > reach(inner, columns, b));
    assert!(out.len() >= rows * columns);
    // SAFETY: the assertions above keep every element that the strides reach within its slice, and `out` is borrowed
    // mutably, so that it is neither a nor b.
    unsafe {
        matrixmultiply::dgemm(
            rows,
            inner,
            columns,
            1.0,
            a.data.as_ptr(),
            a.row as isize,
            a.column as isize,
            b.data.as_ptr(),
            b.row as isize,
            b.column as isize,
            beta,
            out.as_mut_ptr(),
            columns as isize,
            1,
        );
    }
}
