//! Every engine of the CPU by a name, and the tables and batches that each of them serves in turn.

use fangorn::{
    Predictor,
    cpu::{Engine, Engines, Ranking},
    schedule::{FewRows, Schedule},
};

use super::{Seeded, tables::Table};

/// Tables that a change is held to, and the most rows of one.
pub const TABLES: u32 = 60;
const MOST_ROWS: usize = 5000;
/// Steps of the reference interpreter a table.
const STEPS: usize = 400_000;

/// A table of a seed, and the batches of its rows: the first row's number, and how many.
pub fn usual(seed: u64) -> (Table, Vec<(usize, usize)>) {
    let mut random = Seeded(seed ^ 0x7ab1e);
    let count = match random.below(8) {
        0 => 1 + random.below(MOST_ROWS),
        _ => 60 + random.below(600),
    };
    (Table::draw(seed, count, STEPS), batches(seed, count))
}

/// What serves, by name: a schedule, or the default, and engines.
pub fn engines() -> Vec<(String, Option<Schedule>, Engines)> {
    let window = |body: &str| {
        let text =
            format!("tile(batch, b0, b1, 256)\nreorder(b0, tree, b1)\ncache(b0)\nlayout(sparse)\n{body}");
        Some(Schedule::parse(&text).expect("a schedule"))
    };
    let with_ranking = |ranking| Engines { ranking, ..Engines::default() };
    let mut all = vec![("default".to_owned(), None, Engines::default())];
    for few_rows in FewRows::ALL {
        let directive = format!("fewRows({})", few_rows.name());
        all.push((directive.clone(), window(&directive), Engines::default()));
    }
    for few_rows in FewRows::ALL.into_iter().filter(|by| Engine::of_few_rows(*by).is_some()) {
        let apart = Schedule::parse("tile(tree, t0, t1, 8)\nreorder(t1, t0, batch)").expect("a schedule");
        let name = format!("{}, trees eight apart", few_rows.name());
        all.push((name, Some(apart.few_rows(few_rows)), Engines::default()));
    }
    for ranking in Ranking::ALL {
        let name = ranking.name();
        all.push((
            format!("{name}, blends"),
            window("ranks(u8)\nevaluate(b1, blend)"),
            with_ranking(ranking),
        ));
        all.push((format!("{name}, walks"), window("ranks(u8)"), with_ranking(ranking)));
    }
    for (name, body) in [
        ("blends of 3 levels", "ranks(u8)\nevaluate(b1, blend(3))"),
        ("blends of 8 levels", "ranks(u8)\nevaluate(b1, blend(8))"),
        ("ranks of two bytes", "ranks(u16)"),
        ("unrolled walks", "unrollWalk(b1)"),
    ] {
        all.push((name.to_owned(), window(body), Engines::default()));
    }
    for (name, text) in [
        ("tiles", "tile(batch, b0, b1, 64)\nreorder(b0, tree, b1)\ntileNodes(8, uniform)"),
        ("rows as they lie", "tile(batch, b0, b1, 64)\nreorder(b0, tree, b1)\nlayout(sparse)"),
        (
            "eight rows interleaved",
            "tile(batch, b0, b1, 8)\nreorder(b0, tree, b1)\ninterleave(b1)\nlayout(sparse)",
        ),
        ("trees inside", "tile(tree, t0, t1, 8)\ninterleave(t1)\nlayout(depth_first)"),
    ] {
        all.push((name.to_owned(), Some(Schedule::parse(text).expect("a schedule")), Engines::default()));
    }
    all.push(("plain".to_owned(), Some(Schedule::default()), Engines::PLAIN));
    all
}

/// Batches of a table: few rows, blocks, and what is left of blocks of 16, 64, 128 and 256.
fn batches(seed: u64, count: usize) -> Vec<(usize, usize)> {
    let mut random = Seeded(seed ^ 0xba7c);
    let usual = [1, 2, 15, 16, 17, 31, 63, 64, 79, 80, 127, 128, 129, 143, 144, 191, 192, 255, 256, 257, 300];
    let mut all = vec![(0, count)];
    for batch in [usual[random.below(usual.len())], usual[random.below(usual.len())], 1 + random.below(400)] {
        let batch = batch.min(count);
        all.push((random.below(count - batch + 1), batch));
    }
    all
}

/// Whether a predictor has the engine that the schedule forces, where the model and the machine allow it. Every model can
/// be walked.
pub fn serves(predictor: &Predictor, schedule: Option<&Schedule>) -> bool {
    let has_limits = |by: &FewRows| [FewRows::Registers, FewRows::Abreast, FewRows::Full].contains(by);
    let forced = schedule.map(Schedule::few_rows_by).filter(has_limits);
    forced.is_none_or(|by| predictor.uses(by))
}
