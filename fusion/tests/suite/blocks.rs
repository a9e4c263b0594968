//! Runs over the row blocks of an input against runs over all of it.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Mutex, MutexGuard},
};

use fangorn_fusion::{
    Bindings, BlockOperator, BlockParts, FusionError, Matrix, MatrixBlocks, RowBlocks,
    dag::{Aggregation, Binary, Builder, Dag, Direction, Format},
    select::{BlockCosts, Costs, Plan, PlanCache, Policy},
};

use crate::random::{Random, bindings, graph, graph_of_compressed};

/// Runs a plan with one input in row blocks, and the others in memory.
fn by_blocks(
    plan: &Plan,
    dag: &Dag,
    bindings: &Bindings,
    name: &str,
    rows: usize,
) -> Result<HashMap<String, Matrix>, FusionError> {
    let mut others = bindings.clone();
    let blocks = MatrixBlocks { matrix: others.remove(name).expect("the input is bound"), rows };
    plan.run_blocks(dag, &others, &HashMap::from([(name.to_owned(), &blocks as &dyn RowBlocks)]))
}

/// A matrix in blocks, whose results come from a function.
struct Source<F> {
    blocks: MatrixBlocks,
    results: F,
}

impl<F> RowBlocks for Source<F>
where
    F: Fn(&MatrixBlocks, &BlockOperator) -> Result<BlockParts, FusionError>,
{
    fn shape(&self) -> (usize, usize) {
        self.blocks.shape()
    }

    fn each(
        &self,
        take: &mut dyn FnMut(usize, Matrix) -> Result<(), FusionError>,
    ) -> Result<(), FusionError> {
        self.blocks.each(take)
    }

    fn results(&self, operator: &BlockOperator) -> Result<BlockParts, FusionError> {
        (self.results)(&self.blocks, operator)
    }
}

/// Computes results as if each block were on a machine of its own: operators and results travel as bytes. Unless
/// `has_numbers`, blocks tell the numbers of their rows only where the operator needs them.
fn distributed(
    blocks: &MatrixBlocks,
    operator: &BlockOperator,
    has_numbers: bool,
) -> Result<BlockParts, FusionError> {
    let (sent, mut answers) = (operator.to_bytes(), Vec::new());
    blocks.each(&mut |first, block| {
        let received = BlockOperator::from_bytes(&sent)?;
        assert_eq!(received.to_bytes(), sent);
        assert_eq!(received.shape(), blocks.shape());
        let number = (has_numbers || received.needs_row_numbers()).then_some(first);
        let mut parts = BlockParts::default();
        received.add(&mut parts, number, &block)?;
        answers.push(parts.to_bytes());
        Ok(())
    })?;
    // The last ones come first, and two at a time are merged on their way.
    let mut all = BlockParts::default();
    for answers in answers.rchunks(2) {
        let mut two = BlockParts::default();
        for answer in answers {
            operator.merge(&mut two, operator.parts_from_bytes(answer)?)?;
        }
        operator.merge(&mut all, operator.parts_from_bytes(&two.to_bytes())?)?;
    }
    Ok(all)
}

fn assert_same(name: &str, expected: &HashMap<String, Matrix>, found: &HashMap<String, Matrix>, plan: &str) {
    assert_eq!(found.len(), expected.len());
    for (output, expected) in expected {
        assert_eq!(found[output].shape(), expected.shape(), "{name}, {output}");
        for (at, (a, b)) in expected.to_dense().into_iter().zip(found[output].to_dense()).enumerate() {
            let same =
                (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1e-3) || a.is_nan() && b.is_nan() || a == b;
            assert!(same, "{name}, {output}[{at}]: {b} instead of {a}\n{plan}");
        }
    }
}

#[test]
fn random_graphs_give_the_same_by_row_blocks() {
    let (mut runs, mut refused, mut seen) = (0, 0, BTreeSet::new());
    for seed in 0..600 {
        let mut random = Random::new(7000 + seed);
        let (rows, columns) = (random.pick(&[2, 3, 17, 64, 150]), random.pick(&[1, 2, 5, 30]));
        let operators = 1 + random.below(12);
        let dag = match seed % 4 {
            0 => graph_of_compressed(&mut random, operators, rows, columns),
            _ => graph(&mut random, operators, rows, columns),
        };
        let bindings = bindings(&mut random, &dag);
        let input = random.pick(&["X", "S", "Y", "U"]);
        if !bindings.contains_key(input) {
            continue;
        }
        let of_block = random.pick(&[1, 2, 7, 63, 64, 1000]);
        for policy in Policy::ALL {
            let plan = Plan::new(&dag, policy, &Costs::default());
            let expected = plan.run(&dag, &bindings).expect("a run");
            match by_blocks(&plan, &dag, &bindings, input, of_block) {
                Ok(found) => {
                    let name =
                        format!("seed {seed}, {policy:?}, {input} in blocks of {of_block} of {rows} rows");
                    let text = format!("{dag}{}", plan.explain(&dag));
                    assert_same(&name, &expected, &found, &text);
                    let mut others = bindings.clone();
                    let matrix = others.remove(input).expect("the input is bound");
                    let blocks = MatrixBlocks { matrix, rows: of_block };
                    let results = |blocks: &_, operator: &_| distributed(blocks, operator, seed % 2 == 0);
                    let distributed = Source { blocks, results };
                    let sources = HashMap::from([(input.to_owned(), &distributed as &dyn RowBlocks)]);
                    let found = plan.run_blocks(&dag, &others, &sources).expect("it ran here");
                    assert_same(&format!("{name}, sent"), &expected, &found, &text);
                    runs += 1;
                    seen.extend(plan.operators().iter().map(|operator| {
                        let skips = if operator.driver.is_some() { " sparse" } else { "" };
                        format!("{:?} {}{skips}", operator.template, operator.variant(&dag))
                    }));
                }
                Err(FusionError::Input { name, problem }) => {
                    let is_known = problem.contains("so it can't go through row blocks")
                        || problem.contains("it is an output, too; bind it in memory");
                    assert!(is_known && name == input, "{problem}");
                    refused += 1;
                }
                Err(other) => panic!("seed {seed}: {other}"),
            }
        }
    }
    assert!(runs > 2 * refused, "{runs} runs, {refused} refused");
    for kind in [
        "Some(Row) col_t_agg",
        "Some(Row) row_agg",
        "Some(Cell) full_agg sparse",
        "None no_agg",
        "Some(Cell) no_agg",
    ] {
        assert!(seen.contains(kind), "{kind} is not among {seen:?}");
    }
}

/// The matrix as blocks in an order of their own, which a source may choose.
struct Shuffled {
    blocks: Vec<(usize, Matrix)>,
    shape: (usize, usize),
}

impl RowBlocks for Shuffled {
    fn shape(&self) -> (usize, usize) {
        self.shape
    }

    fn each(
        &self,
        take: &mut dyn FnMut(usize, Matrix) -> Result<(), FusionError>,
    ) -> Result<(), FusionError> {
        self.blocks.iter().try_for_each(|(first, block)| take(*first, block.clone()))
    }
}

#[test]
fn blocks_come_in_any_order_and_have_each_row_once() {
    let builder = Builder::new();
    let (x, w) = (builder.dense("X", 4, 2), builder.dense("w", 4, 1));
    builder.output("weighted", x * w);
    builder.output("least", (x * w).aggregate(Aggregation::Min, Direction::Column));
    builder.output("all", x.binary(Binary::Greater, w).sum());
    let dag = builder.finish().expect("a graph");
    let matrix = |rows: usize, values: &[f64]| Matrix::dense((rows, 2), values.to_vec()).expect("whole rows");
    let w = Matrix::dense((4, 1), vec![1.0, 2.0, 3.0, -1.0]).expect("four elements");
    let bindings = Bindings::from([("w".to_owned(), w)]);
    let run = |blocks: Vec<(usize, Matrix)>, shape| {
        let source = Shuffled { blocks, shape };
        let plan = Plan::new(&dag, Policy::CostBased, &Costs::default());
        plan.run_blocks(&dag, &bindings, &HashMap::from([("X".to_owned(), &source as &dyn RowBlocks)]))
    };
    let (first, rest) = (matrix(1, &[1.0, 2.0]), matrix(3, &[3.0, 1.0, 4.0, 5.0, 6.0, 7.0]));
    let found = run(vec![(1, rest.clone()), (0, first.clone())], (4, 2)).expect("a run");
    assert_eq!(found["weighted"].to_dense(), [1.0, 2.0, 6.0, 2.0, 12.0, 15.0, -6.0, -7.0]);
    assert_eq!(found["least"].to_dense(), [-6.0, -7.0]);
    assert_eq!(found["all"].to_dense(), [6.0]);
    let refuses = |blocks: Vec<(usize, Matrix)>, shape, phrase: &str| {
        let error = run(blocks, shape).expect_err(phrase).to_string();
        assert!(error.contains(phrase) && error.contains("\"X\""), "`{phrase}` is not in {error}");
    };
    refuses(vec![(1, rest.clone())], (4, 2), "blocks leave out row 0");
    refuses(vec![(0, first.clone())], (4, 2), "blocks leave out row 1");
    refuses(vec![(1, rest.clone()), (0, first.clone()), (3, first.clone())], (4, 2), "come in two blocks");
    refuses(vec![(0, first.clone()), (0, first.clone()), (1, rest.clone())], (4, 2), "come in two blocks");
    refuses(
        vec![(2, rest.clone()), (0, first.clone())],
        (4, 2),
        "a block of 3 rows and 2 columns from row 2 on",
    );
    refuses(vec![(usize::MAX, rest.clone())], (4, 2), "from row");
    refuses(vec![(0, first.clone())], (5, 2), "declared");
    refuses(vec![(0, Matrix::dense((1, 3), vec![0.0; 3]).expect("a row"))], (4, 2), "3 columns");
    refuses(vec![(0, Matrix::csr((4, 2), &[0.0; 8]).expect("rows"))], (4, 2), "declared");
    refuses(Vec::new(), (4, 2), "blocks leave out row 0");
}

/// A source that does not pass errors on, and gives a row twice.
struct Careless;

impl RowBlocks for Careless {
    fn shape(&self) -> (usize, usize) {
        (2, 1)
    }

    fn each(
        &self,
        take: &mut dyn FnMut(usize, Matrix) -> Result<(), FusionError>,
    ) -> Result<(), FusionError> {
        for first in [0, 0, 1] {
            let _ = take(first, Matrix::dense((1, 1), vec![1.0]).expect("a row"));
        }
        Ok(())
    }
}

/// Sums show no rows, so rows that are missing or come twice are found by their numbers alone.
#[test]
fn sums_miss_no_rows_and_have_none_twice() {
    let builder = Builder::new();
    builder.output("sum", builder.dense("X", 2, 1).sum());
    let dag = builder.finish().expect("a graph");
    let plan = Plan::new(&dag, Policy::CostBased, &Costs::default());
    let run = |source: &dyn RowBlocks| {
        plan.run_blocks(&dag, &Bindings::new(), &HashMap::from([("X".to_owned(), source)]))
    };
    let error = run(&Careless).expect_err("a row comes twice").to_string();
    assert!(error.contains("rows 0 to 1 come in two blocks"), "{error}");
    let row = Matrix::dense((1, 1), vec![3.0]).expect("a row");
    let error =
        run(&Shuffled { blocks: vec![(1, row.clone())], shape: (2, 1) }).expect_err("no row 0").to_string();
    assert!(error.contains("blocks leave out row 0"), "{error}");
    let both = run(&Shuffled { blocks: vec![(1, row.clone()), (0, row)], shape: (2, 1) }).expect("both rows");
    assert_eq!(both["sum"].to_dense(), [6.0]);
}

/// Both inputs of each operator are the one before: there are 2^60 ways to the input.
#[test]
fn a_chain_of_doublings_is_looked_at_once() {
    let builder = Builder::new();
    let mut all = builder.dense("X", 4, 1);
    for _ in 0..60 {
        all = all + all;
    }
    builder.output("sum", all.sum());
    let dag = builder.finish().expect("a graph");
    let bindings = Bindings::from([("X".to_owned(), Matrix::dense((4, 1), vec![0.5; 4]).expect("rows"))]);
    let plan = Plan::new(&dag, Policy::FuseAll, &Costs::default());
    let found = by_blocks(&plan, &dag, &bindings, "X", 3).expect("a run");
    assert_eq!(found["sum"].to_dense(), [61f64.exp2()]);
}

/// A zero of a matrix that is declared in CSR skips infinity, however the matrix is held.
#[test]
fn zeros_are_skipped_in_blocks_as_in_whole_matrices() {
    let builder = Builder::new();
    let (s, x) = (builder.csr("S", 4, 3, 0.5), builder.dense("X", 4, 1));
    builder.output("product", s.columns(0, 2).transpose().matmul(x));
    builder.output("scaled", s * x);
    let dag = builder.finish().expect("a graph");
    let s = [0.0, 1.0, 2.0, 3.0, 0.0, 1.0, 1.0, 1.0, 0.0, 0.0, 2.0, 0.0];
    let bindings = Bindings::from([
        ("S".to_owned(), Matrix::csr((4, 3), &s).expect("rows")),
        ("X".to_owned(), Matrix::dense((4, 1), vec![f64::INFINITY, 1.0, f64::NAN, -1.0]).expect("rows")),
    ]);
    for policy in Policy::ALL {
        let plan = Plan::new(&dag, policy, &Costs::default());
        let expected = plan.run(&dag, &bindings).expect("a run");
        for (input, rows) in [("X", 1), ("X", 3), ("X", 4), ("S", 1), ("S", 3)] {
            let found = by_blocks(&plan, &dag, &bindings, input, rows).expect("a run");
            assert_same(&format!("{policy:?}, {input}, {rows}"), &expected, &found, &plan.explain(&dag));
        }
    }
}

#[test]
fn what_needs_the_whole_matrix_is_refused_by_name() {
    let refused = |build: &dyn Fn(&Builder)| {
        let builder = Builder::new();
        build(&builder);
        let dag = builder.finish().expect("a graph");
        let bindings = bindings(&mut Random::new(3), &dag);
        let plan = Plan::new(&dag, Policy::CostBased, &Costs::default());
        by_blocks(&plan, &dag, &bindings, "X", 2).expect_err("it is refused").to_string()
    };
    let whole = "so it can't go through row blocks; bind the matrix in memory";
    let product =
        refused(&|builder| builder.output("p", builder.dense("A", 3, 4).matmul(builder.dense("X", 4, 2))));
    assert!(product.contains(whole) && product.contains("\"X\""), "{product}");
    let transposed = refused(&|builder| builder.output("t", builder.dense("X", 4, 2).transpose()));
    assert!(transposed.contains(whole) && transposed.contains("\"X\""), "{transposed}");
    // The same rows are used for each block, and as a whole factor.
    let square = refused(&|builder| {
        let x = builder.dense("X", 4, 4);
        builder.output("s", x.matmul(x));
    });
    assert!(square.contains(whole) && square.contains("\"X\""), "{square}");
}

/// Vectors that two operators over row blocks need are added up first if it takes long to bring them to the blocks, and are
/// added up for each block otherwise.
#[test]
fn a_vector_operation_moves_out_of_blocks_by_the_cost_of_broadcasts() {
    let builder = Builder::new();
    let rows = 1_000_000;
    let x = builder.dense("X", rows, 100);
    let [a, b, c] = ["a", "b", "c"].map(|name| builder.dense(name, rows, 1));
    let (added, x_node) = (a + b * c, x.node());
    let sum = (x * added).sum();
    builder.output("sum", sum);
    // It needs the whole sum, so the two can't share a pass.
    builder.output("columns", (x * sum + added).aggregate(Aggregation::Max, Direction::Column));
    let dag = builder.finish().expect("a graph");
    let readers = |broadcast: f64| {
        let blocks = Some(BlockCosts { read: 1e9, broadcast });
        let plan = Plan::new(&dag, Policy::CostBased, &Costs { memory: 1e8, blocks, ..Costs::default() });
        assert!(plan.cost().is_finite());
        let reads_x = |operator: &&fangorn_fusion::select::PlannedOperator| operator.inputs.contains(&x_node);
        let own = plan.operators().iter().filter(|operator| !reads_x(operator)).count();
        (own, plan.operators().iter().filter(reads_x).map(|operator| operator.inputs.len()).sum::<usize>())
    };
    // Both operators read X, and either the three vectors or the one; the second also reads the sum.
    assert_eq!(readers(1e10), (0, 9));
    assert_eq!(readers(1e8), (1, 5));
    let none = Plan::new(&dag, Policy::CostBased, &Costs { memory: 1e8, ..Costs::default() });
    assert!(none.cost().is_infinite());
    // Kept plans are those of their bandwidths.
    let mut cache = PlanCache::default();
    let mut kept = |broadcast: f64| {
        let blocks = Some(BlockCosts { read: 1e9, broadcast });
        let costs = Costs { memory: 1e8, blocks, ..Costs::default() };
        cache.plan(&dag, Policy::CostBased, &costs).operators().len()
    };
    assert_ne!(kept(1e10), kept(1e8));
}

/// Runs a plan with all of some inputs in blocks of two rows, and compares the outputs with those of a run in memory.
fn assert_runs_by_blocks(plan: &Plan, dag: &Dag, bindings: &Bindings, names: &[&str]) {
    let mut others = bindings.clone();
    let of = |name: &&str| {
        let matrix = others.remove(*name).expect("the input is bound");
        ((*name).to_owned(), MatrixBlocks { matrix, rows: 2 })
    };
    let blocks: HashMap<String, MatrixBlocks> = names.iter().map(of).collect();
    let sources = blocks.iter().map(|(name, blocks)| (name.clone(), blocks as &dyn RowBlocks)).collect();
    let found = plan.run_blocks(dag, &others, &sources).expect("a run by blocks");
    let expected = plan.run(dag, bindings).expect("a run");
    assert_same(&format!("{names:?}"), &expected, &found, &plan.explain(dag));
}

/// In memory both operators are one pass. It reads the ranks whole and row by row, which blocks of links can't.
#[test]
fn a_pass_that_needs_a_vector_whole_and_by_rows_runs_as_its_operators() {
    let builder = Builder::new();
    let (links, ranks) = (builder.dense("X", 7, 7), builder.dense("ranks", 7, 1));
    let next = links.matmul(ranks) * 0.85 + 0.15 / 7.0;
    builder.output("next", next);
    builder.output("change", (next - ranks).square().sum());
    let dag = builder.finish().expect("a graph");
    let bindings = bindings(&mut Random::new(8), &dag);
    let plan = Plan::new(&dag, Policy::CostBased, &Costs::default());
    assert_eq!(plan.operators().len(), 1, "{}", plan.explain(&dag));
    assert_runs_by_blocks(&plan, &dag, &bindings, &["X"]);
    assert_eq!(plan.operators().len(), 1);
}

/// Two matrices are larger than memory, and a pass over the rows of both can't wait for blocks of either.
#[test]
fn operators_over_blocks_of_two_inputs_share_no_pass() {
    let builder = Builder::new();
    let [x, y] = [("X", 3), ("Y", 4)].map(|(name, columns)| builder.dense(name, 9, columns));
    let w = builder.dense("w", 9, 1);
    let weights = w * 2.0 + 1.0;
    builder.output("of X", x.transpose().matmul(weights));
    builder.output("of Y", y.transpose().matmul(weights));
    builder.output("squares", (y * y * weights).sum());
    let dag = builder.finish().expect("a graph");
    let bindings = bindings(&mut Random::new(9), &dag);
    let plan = Plan::new(&dag, Policy::CostBased, &Costs::default());
    assert_eq!(plan.operators().len(), 1, "{}", plan.explain(&dag));
    for names in [&["X", "Y"][..], &["X"], &["Y"], &["w"]] {
        assert_runs_by_blocks(&plan, &dag, &bindings, names);
    }
}

/// Returns the operators of a plan that read the input X in blocks, up to the first that can't.
fn operators_over_x(dag: &Dag, bindings: &Bindings, plan: &Plan) -> Vec<BlockOperator> {
    let mut others = bindings.clone();
    let Some(matrix) = others.remove("X") else { return Vec::new() };
    let operators = Mutex::default();
    let results = |blocks: &MatrixBlocks, operator: &BlockOperator| {
        let mut operators: MutexGuard<Vec<BlockOperator>> = operators.lock().expect("a list");
        operators.push(operator.clone());
        blocks.results(operator)
    };
    let source = Source { blocks: MatrixBlocks { matrix, rows: 2 }, results };
    let sources = HashMap::from([("X".to_owned(), &source as &dyn RowBlocks)]);
    drop(plan.run_blocks(dag, &others, &sources));
    operators.into_inner().expect("a list")
}

#[test]
fn damaged_bytes_are_refused_and_never_crash() {
    let mut refused = 0;
    for seed in 0..40 {
        let mut random = Random::new(9100 + seed);
        let dag = graph(&mut random, 1 + seed as usize % 8, 5, 3);
        let bindings = bindings(&mut random, &dag);
        let plan = Plan::new(&dag, Policy::ALL[seed as usize % 4], &Costs::default());
        for operator in operators_over_x(&dag, &bindings, &plan) {
            let block = match operator.format() {
                Format::Csr => Matrix::csr((2, operator.shape().1), &vec![1.0; 2 * operator.shape().1]),
                _ => Matrix::dense((2, operator.shape().1), vec![1.0; 2 * operator.shape().1]),
            };
            let block = block.expect("two rows");
            let mut parts = BlockParts::default();
            operator.add(&mut parts, Some(1), &block).expect("two rows");
            let (sent, answer) = (operator.to_bytes(), parts.to_bytes());
            for at in 0..sent.len() {
                let changed = |with: u8| {
                    let mut bytes = sent.clone();
                    bytes[at] ^= with;
                    bytes
                };
                for bytes in [sent[..at].to_vec(), changed(1), changed(3), changed(0x80)] {
                    match BlockOperator::from_bytes(&bytes) {
                        // Another valid operator: it runs or refuses the block.
                        Ok(other) if other.shape().0 < 1000 => {
                            let _ = other.add(&mut BlockParts::default(), Some(1), &block);
                        }
                        Ok(_) => {}
                        Err(_) => refused += 1,
                    }
                }
            }
            for at in 0..answer.len() {
                let mut changed = answer.clone();
                changed[at] ^= 1 << (at % 8);
                for bytes in [&answer[..at], &changed] {
                    match operator.parts_from_bytes(bytes) {
                        Ok(other) => drop(operator.merge(&mut BlockParts::default(), other)),
                        Err(_) => refused += 1,
                    }
                }
            }
        }
    }
    assert!(refused > 10_000, "{refused}");
}

/// Sums need no row numbers. Rows of a result do, and so does another input of which the same rows are read.
#[test]
fn row_numbers_are_asked_for_where_rows_must_match() {
    let builder = Builder::new();
    let (x, v) = (builder.dense("X", 4, 2), builder.dense("v", 2, 1));
    builder.output("square", x.transpose().matmul(x.matmul(v)));
    let unnumbered = builder.finish().expect("a graph");
    let row = Matrix::dense((1, 2), vec![1.0, 2.0]).expect("a row");
    let all = |dag: &Dag| bindings(&mut Random::new(3), dag);
    let plan = |dag: &Dag| Plan::new(dag, Policy::CostBased, &Costs::default());
    let [operator] = &operators_over_x(&unnumbered, &all(&unnumbered), &plan(&unnumbered))[..] else {
        panic!("one operator");
    };
    assert!(!operator.needs_row_numbers());
    let mut parts = BlockParts::default();
    (0..3).for_each(|_| operator.add(&mut parts, None, &row).expect("a row"));
    let of_rows = |build: &dyn Fn(&Builder)| {
        let builder = Builder::new();
        build(&builder);
        let dag = builder.finish().expect("a graph");
        let [operator] = &operators_over_x(&dag, &all(&dag), &plan(&dag))[..] else {
            panic!("one operator");
        };
        assert!(operator.needs_row_numbers());
        let error = operator.add(&mut BlockParts::default(), None, &row).expect_err("no number").to_string();
        assert!(error.contains("needs the numbers of the rows") && error.contains("\"X\""), "{error}");
    };
    of_rows(&|builder| builder.output("rows", builder.dense("X", 4, 2) * 2.0));
    of_rows(&|builder| {
        let (x, w) = (builder.dense("X", 4, 2), builder.dense("w", 4, 1));
        builder.output("weighted", x.transpose().matmul(w));
    });
}

/// Rows without numbers are counted.
#[test]
fn a_source_without_row_numbers_has_as_many_rows_as_declared() {
    struct Counted(usize);
    impl RowBlocks for Counted {
        fn shape(&self) -> (usize, usize) {
            (4, 1)
        }

        fn each(
            &self,
            _: &mut dyn FnMut(usize, Matrix) -> Result<(), FusionError>,
        ) -> Result<(), FusionError> {
            unreachable!("it overrides what calls it")
        }

        fn results(&self, operator: &BlockOperator) -> Result<BlockParts, FusionError> {
            let mut parts = BlockParts::default();
            let row = Matrix::dense((1, 1), vec![2.0]).expect("a row");
            (0..self.0).try_for_each(|_| operator.add(&mut parts, None, &row))?;
            Ok(parts)
        }
    }
    let builder = Builder::new();
    builder.output("sum", builder.dense("X", 4, 1).sum());
    let dag = builder.finish().expect("a graph");
    let plan = Plan::new(&dag, Policy::CostBased, &Costs::default());
    let run = |rows: usize| {
        let source = Counted(rows);
        plan.run_blocks(&dag, &Bindings::new(), &HashMap::from([("X".to_owned(), &source as &dyn RowBlocks)]))
    };
    assert_eq!(run(4).expect("a sum")["sum"].scalar(), 8.0);
    for rows in [3, 5] {
        let error = run(rows).expect_err("another number").to_string();
        assert!(error.contains(&format!("blocks have {rows} rows, 4 declared")), "{error}");
    }
    assert!(run(0).expect_err("no rows").to_string().contains("leave out row 0"));
}

/// An operator that memory has room for says so, if the costs know of blocks at all.
#[test]
fn operators_know_whether_memory_has_room_for_them() {
    let builder = Builder::new();
    let x = builder.dense("X", 4, 2);
    builder.output("sum", x.sum());
    let dag = builder.finish().expect("a graph");
    let bindings = bindings(&mut Random::new(3), &dag);
    let blocks = Some(BlockCosts { read: 1e9, broadcast: 1e9 });
    // X takes 64 bytes, the sum 8.
    for (memory, blocks, fits) in [(72.0, blocks, true), (71.0, blocks, false), (f64::INFINITY, None, false)]
    {
        let costs = Costs { memory, blocks, ..Costs::default() };
        let plan = Plan::new(&dag, Policy::CostBased, &costs);
        let [operator] = &operators_over_x(&dag, &bindings, &plan)[..] else { panic!("one operator") };
        assert_eq!(operator.fits_memory(), fits, "{memory}");
        let text = plan.explain(&dag);
        assert_eq!(text.contains("in row blocks"), blocks.is_some() && !fits, "{text}");
    }
}

/// A result by rows that two others need is computed once if it comes back from the blocks quickly, and for each of them
/// otherwise.
#[test]
fn rows_stay_in_blocks_by_the_cost_of_bringing_them_back() {
    let builder = Builder::new();
    let (x, v) = (builder.dense("X", 1_000_000, 20), builder.dense("v", 20, 1));
    let product = x.matmul(v);
    let node = product.node();
    let sum = product.abs().sum();
    builder.output("sum", sum);
    // It needs the whole sum, so the two can't share a pass.
    builder.output("most", (product * sum).aggregate(Aggregation::Max, Direction::Full));
    let dag = builder.finish().expect("a graph");
    let written = |broadcast: f64| {
        let blocks = Some(BlockCosts { read: 1e9, broadcast });
        let plan = Plan::new(&dag, Policy::CostBased, &Costs { memory: 1e8, blocks, ..Costs::default() });
        plan.operators().iter().any(|operator| operator.roots.contains(&node))
    };
    assert!(written(1e10));
    assert!(!written(1e7));
}

#[test]
fn an_operator_reads_one_input_in_blocks() {
    let builder = Builder::new();
    let (x, y) = (builder.dense("X", 6, 2), builder.dense("Y", 6, 2));
    builder.output("s", (x * y).sum());
    builder.output("t", y.sum());
    let dag = builder.finish().expect("a graph");
    let all = bindings(&mut Random::new(5), &dag);
    let [x, y] = ["X", "Y"].map(|name| MatrixBlocks { matrix: all[name].clone(), rows: 4 });
    let plan = Plan::new(&dag, Policy::CostBased, &Costs::default());
    let both =
        HashMap::from([("X".to_owned(), &x as &dyn RowBlocks), ("Y".to_owned(), &y as &dyn RowBlocks)]);
    let error = plan.run_blocks(&dag, &Bindings::new(), &both).expect_err("two").to_string();
    assert!(error.contains("in blocks, too; bind one in memory"), "{error}");
    let error = plan.run_blocks(&dag, &all, &both).expect_err("both").to_string();
    assert!(error.contains("give one of the two"), "{error}");
    let error = plan.run_blocks(&dag, &Bindings::new(), &HashMap::new()).expect_err("none").to_string();
    assert!(error.contains("nothing is bound to it"), "{error}");
}
