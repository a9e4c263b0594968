//! How the columns of a row become ranks sixteen at a time: which of them are compared where they lie, which are found by cells, and
//! which are copied and searched.
//!
//! To bring a line of 64 rows into columns takes as long whatever is wanted of it. A column of one threshold needs none of that: a
//! compare says for sixteen columns of a row which reach theirs. Columns of more thresholds take a compare for each, of all sixteen, so
//! for every line what takes fewer cycles is chosen by counting them.

use super::{
    super::{Ranking, line::Line},
    cells::{self, Blocks, CellRoom, Celled, Found, MOST_COLUMNS, MOST_UNSURE, Scales, TOGETHER, TableLine},
    row_block::{BLOCK, LINE, LineOf, LineRoom, MOST_LAYERS, MOST_LINES, RowBlock},
    scales::{CellCosts, OnScale},
    search::{Layered, Missing, Search, Searched},
};
use crate::isa::{Isa, isa};

/// Lines that are asked for before they are read.
const AHEAD: usize = 2;

/// A column of ranks, and whose it is.
#[derive(Clone, Debug)]
pub(super) struct Of {
    pub(super) feature: u32,
    /// Its search, and what is searched, if it is one of ascending and finite thresholds.
    pub(super) thresholds: Option<(Search, Vec<f32>)>,
}

impl Of {
    /// Whether it stands in layers where columns of at most so many thresholds do, by what their missing values are.
    fn in_layers(&self, most: [usize; 2]) -> bool {
        self.thresholds.as_ref().is_some_and(|(search, own)| own.len() <= most[search.missing as usize])
    }
}

/// Lines of columns.
#[derive(Clone, Debug)]
pub(super) struct Lines {
    lines: Vec<Plan>,
    /// Of all lines.
    layers: Vec<Line<[f32; LINE]>>,
    layered: Vec<Layered>,
    /// Columns of ranks that are found by cells, …
    celled: Vec<Celled>,
    /// … their scales, …
    scales: Vec<Scales>,
    /// … their tables, …
    tables: Vec<TableLine>,
    /// … and their thresholds, after one that all values reach, …
    thresholds: Vec<f32>,
    /// … where these begin.
    begins: Vec<u32>,
    /// Columns of ranks that are searched, which read one of their line's columns; …
    searched: Vec<Searched>,
    /// … and those that are answered otherwise.
    others: Vec<(u32, u8)>,
}

/// One line's place in [`Lines`].
#[derive(Clone, Debug)]
struct Plan {
    line: LineOf,
    sheets: [Sheet; 2],
    celled: (u32, u32),
    /// Which of the scales are its own, if it has columns on such.
    scales: u32,
    /// Whether it has columns that are not found by cells.
    mixed: bool,
    searched: (u32, u32),
    others: (u32, u32),
}

/// Layers whose missing values are ranked alike.
#[derive(Clone, Copy, Debug, Default)]
struct Sheet {
    layers: (u32, u32),
    columns: (u32, u32),
}

const MISSING: [Missing; 2] = [Missing::Least, Missing::Most];

/// Cycles of 64 rows, about.
#[derive(Clone, Copy, Debug)]
struct Costs {
    /// Of bringing a line into columns.
    line: f64,
    /// Of a layer; …
    layer: f64,
    /// … and of a threshold in it.
    threshold: f64,
    /// Of a search, and of each of its levels.
    search: (f64, f64),
    cells: Option<CellCosts>,
}

impl Costs {
    /// Those of this machine, if it compares a line's columns together.
    fn new() -> Option<Self> {
        match isa() {
            Isa::Avx512 => Some(Self {
                line: 300.0,
                layer: 200.0,
                threshold: 4.0,
                search: (9.0, 6.0),
                cells: cells::available().then_some(CellCosts::VBMI),
            }),
            Isa::Avx2 => {
                Some(Self { line: 400.0, layer: 400.0, threshold: 6.0, search: (15.0, 16.0), cells: None })
            }
            Isa::Neon | Isa::Portable => None,
        }
    }

    fn search(&self, search: &Search) -> f64 {
        self.search.0 + self.search.1 * f64::from(search.levels)
    }

    /// Cycles of a line that is ranked so.
    fn cycles(&self, columns: &[(u32, Of)], cells: &[Option<(OnScale, f64)>], way: Way) -> f64 {
        let mut layers = [0; 2];
        let mut cycles = 0.0;
        let (mut copied, mut keyed) = (false, false);
        for ((_, column), cells) in columns.iter().zip(cells) {
            match (&column.thresholds, cells) {
                (Some((search, own)), _) if column.in_layers(way.layered) => {
                    let layers: &mut usize = &mut layers[search.missing as usize];
                    *layers = own.len().max(*layers);
                    cycles += self.threshold * own.len() as f64;
                }
                (Some(_), Some((_, own))) if way.by_cells => {
                    cycles += own;
                    keyed = true;
                }
                (Some((search, _)), _) => {
                    cycles += self.search(search);
                    copied = true;
                }
                (None, _) => copied = true,
            }
        }
        let keys = self.cells.filter(|_| keyed).map_or(0.0, |cells| cells.keys);
        cycles
            + self.layer * layers.iter().sum::<usize>() as f64
            + if copied { self.line } else { 0.0 }
            + keys
    }

    /// The quickest way of a line among those that are allowed.
    fn best(&self, columns: &[(u32, Of)], cells: &[Option<(OnScale, f64)>], ranking: Ranking) -> Way {
        let layered = (0..=MOST_LAYERS).flat_map(|least| (0..=MOST_LAYERS).map(move |most| [least, most]));
        let ways = layered
            .flat_map(|layered| [false, true].map(|by_cells| Way { layered, by_cells }))
            .filter(|way| match ranking {
                Ranking::Chosen => true,
                Ranking::Cells => way.by_cells && way.layered == [0; 2],
                Ranking::Lines | Ranking::Columns => !way.by_cells,
            });
        let cycles = |way: &Way| self.cycles(columns, cells, *way);
        ways.min_by(|a, b| cycles(a).total_cmp(&cycles(b))).unwrap_or_default()
    }

    /// The scale of each column that can be ranked by cells, and its cycles: columns of a feature, which are side by side, share it.
    fn cells(&self, columns: &[(u32, Of)], ranking: Ranking) -> Vec<Option<(OnScale, f64)>> {
        let Some(costs) = self.cells.filter(|_| columns.len() <= MOST_COLUMNS) else {
            return vec![None; columns.len()];
        };
        let of_feature = |columns: &[(u32, Of)]| {
            let own = columns.iter().filter_map(|(_, of)| of.thresholds.as_ref());
            let scale = costs.best(&own.map(|(_, own)| own.as_slice()).collect::<Vec<_>>());
            let cells = |of: &(u32, Of)| {
                let (search, own) = of.1.thresholds.as_ref()?;
                let cycles = costs.cycles(own, &scale?)?;
                // Its share of the line's copy is all that it can spare beside the search.
                let least = self.search(search) + self.line / LINE as f64;
                Some((scale?, cycles)).filter(|_| cycles < least || ranking == Ranking::Cells)
            };
            columns.iter().map(cells).collect::<Vec<_>>()
        };
        columns.chunk_by(|a, b| a.1.feature == b.1.feature).flat_map(of_feature).collect()
    }
}

/// How a line is ranked.
#[derive(Clone, Copy, Debug, Default)]
struct Way {
    /// How many thresholds a column has at most that stands in layers, by what its missing values are.
    layered: [usize; 2],
    /// Whether other columns that can be are ranked by cells.
    by_cells: bool,
}

impl Lines {
    /// Of columns by feature.
    pub(super) fn new(columns: impl Iterator<Item = Of>, ranking: Ranking) -> Self {
        let columns: Vec<(u32, Of)> = (0..).zip(columns).collect();
        let mut new = Self {
            lines: Vec::new(),
            layers: Vec::new(),
            layered: Vec::new(),
            celled: Vec::new(),
            scales: Vec::new(),
            tables: Vec::new(),
            thresholds: Vec::new(),
            begins: Vec::new(),
            searched: Vec::new(),
            others: Vec::new(),
        };
        let costs = Costs::new();
        let lines: Vec<_> =
            columns.chunk_by(|a, b| a.1.feature / LINE as u32 == b.1.feature / LINE as u32).collect();
        let cells: Vec<_> = lines
            .iter()
            .map(|line| costs.map_or(vec![None; line.len()], |costs| costs.cells(line, ranking)))
            .collect();
        let ways = |allowed: Ranking| {
            let lines = lines.iter().zip(&cells);
            let best = |costs: Costs, (line, cells): (&&[_], &Vec<_>)| costs.best(line, cells, allowed);
            lines.map(|line| costs.map_or_else(Way::default, |costs| best(costs, line))).collect::<Vec<_>>()
        };
        let mut chosen = ways(ranking);
        // Two blocks go a line at a time then, which takes of the other lines what it spares a few.
        let few = chosen.iter().filter(|way| way.by_cells).count() * 2 < lines.len();
        if ranking == Ranking::Chosen && few {
            chosen = ways(Ranking::Lines);
        }
        for ((line, cells), way) in lines.iter().zip(&cells).zip(chosen) {
            new.push(line, cells, way);
        }
        if new.lines.len() > MOST_LINES {
            LineOf::ask_ahead(new.lines.iter_mut().map(|plan| &mut plan.line), AHEAD);
        }
        new
    }

    /// Adds a line.
    fn push(&mut self, columns: &[(u32, Of)], cells: &[Option<(OnScale, f64)>], way: Way) {
        let first = columns[0].1.feature / LINE as u32 * LINE as u32;
        let lane = |of: &Of| (of.feature - first) as u8;
        let mut line = LineOf { first, wanted: 0, ahead: None };
        let sheets = MISSING.map(|missing| {
            let mut own: Vec<_> = columns
                .iter()
                .filter_map(|(column, of)| {
                    let (search, thresholds) =
                        of.thresholds.as_ref().filter(|_| of.in_layers(way.layered))?;
                    (search.missing == missing).then_some((*column, lane(of), thresholds))
                })
                .collect();
            // Those of as many thresholds side by side: so are their branches.
            own.sort_by_key(|(.., thresholds)| thresholds.len());
            let begins = (self.layers.len() as u32, self.layered.len() as u32);
            for j in 0..own.last().map_or(0, |(.., thresholds)| thresholds.len()) {
                let mut layer = [f32::NAN; LINE];
                for (_, lane, thresholds) in own.iter().filter(|(.., thresholds)| j < thresholds.len()) {
                    debug_assert!(layer[usize::from(*lane)].is_nan(), "a feature has one such column a side");
                    layer[usize::from(*lane)] = thresholds[j];
                }
                self.layers.push(Line(layer));
            }
            let layered = |(column, lane, thresholds): (u32, u8, &Vec<f32>)| Layered {
                column,
                lane,
                count: thresholds.len() as u8,
            };
            self.layered.extend(own.into_iter().map(layered));
            Sheet {
                layers: (begins.0, self.layers.len() as u32),
                columns: (begins.1, self.layered.len() as u32),
            }
        });
        let begins = (self.searched.len() as u32, self.others.len() as u32);
        let mut celled = Vec::new();
        for ((column, of), cells) in columns.iter().zip(cells) {
            let searched = |search| Searched::new(search, lane(of).into(), *column);
            match &of.thresholds {
                Some(_) if of.in_layers(way.layered) => continue,
                Some((search, own)) => {
                    let cells = cells.filter(|_| way.by_cells).and_then(|(on, _)| {
                        let to = (&on.scale, on.lines);
                        Some((on, Celled::new(searched(*search), own, to, &mut self.tables)?))
                    });
                    if let Some((on, cells)) = cells {
                        celled.push((cells, on.scale, own));
                        continue;
                    }
                    self.searched.push(searched(*search));
                }
                None => self.others.push((*column, lane(of))),
            }
            line.wanted |= 1 << lane(of);
        }
        // Those of a kernel side by side: it is called once for a run, and takes them by twos.
        let own = &mut self.searched[begins.0 as usize..];
        own.sort_by_key(|column| column.search.kernel());
        Searched::count_runs(own);
        celled.sort_by_key(|(cells, ..)| (cells.kernel(), cells.slots()));
        let mut scales = Scales::new(celled.iter().map(|(cells, ..)| cells.searched.search.missing));
        let first = self.celled.len() as u32;
        for (cells, scale, own) in celled {
            scales.set(cells.searched.from, scale);
            if scales.keep_missing() && cells.searched.search.missing == Missing::Most {
                cells.keep_missing(own.len(), &mut self.tables);
            }
            self.celled.push(cells);
            self.begins.push(self.thresholds.len() as u32);
            self.thresholds.push(f32::NEG_INFINITY);
            self.thresholds.extend_from_slice(own);
        }
        Celled::count_runs(&mut self.celled[first as usize..]);
        let searched = (begins.0, self.searched.len() as u32);
        let celled = (first, self.celled.len() as u32);
        if celled.0 < celled.1 {
            self.scales.push(scales);
        }
        let scales = self.scales.len().saturating_sub(1) as u32;
        let others = (begins.1, self.others.len() as u32);
        let mixed = celled.1 - celled.0 < columns.len() as u32;
        self.lines.push(Plan { line, sheets, celled, scales, mixed, searched, others });
    }

    /// Columns of ranks that are found by cells, by line.
    #[cfg(test)]
    pub(super) fn by_cells(&self) -> Vec<u32> {
        self.lines.iter().map(|plan| plan.celled.1 - plan.celled.0).collect()
    }

    /// Blocks that are ranked together.
    pub(super) fn together(&self) -> usize {
        if self.celled.is_empty() { 1 } else { TOGETHER }
    }

    /// Line by line, by column.
    pub(super) fn iter(&self) -> impl Iterator<Item = OneLine<'_>> {
        self.lines.iter().map(|plan| OneLine { of: self, plan })
    }
}

/// A line's columns.
#[derive(Clone, Copy, Debug)]
pub(super) struct OneLine<'l> {
    of: &'l Lines,
    plan: &'l Plan,
}

impl<'l> OneLine<'l> {
    /// Ranks the columns that are compared where they lie, and gives what is left of the line.
    pub(super) fn layered(
        &self,
        rows: &RowBlock<'_>,
        room: &mut LineRoom,
        out: &mut [u8],
        apart: usize,
    ) -> LineOf {
        let mut line = self.plan.line;
        // An array that is moved into an iterator is read before its parts have been written, which waits for them.
        for (sheet, missing) in self.plan.sheets.iter().zip(&MISSING) {
            let columns = within(&self.of.layered, sheet.columns);
            if !columns.is_empty() {
                let layers = within(&self.of.layers, sheet.layers);
                rows.layered(line, (layers, *missing), columns, room, out, apart);
                line.ahead = None;
            }
        }
        line
    }

    /// Whether columns are found by cells.
    pub(super) fn has_cells(&self) -> bool {
        self.plan.celled.0 < self.plan.celled.1
    }

    /// Ranks columns of some blocks by cells, and says by block which of them are left to be searched.
    pub(super) fn by_cells(
        &self,
        blocks: &[RowBlock<'_>],
        room: &mut CellRoom,
        out: &mut Blocks<'_>,
    ) -> [u64; TOGETHER] {
        let mut left = [0; TOGETHER];
        let columns = within(&self.of.celled, self.plan.celled);
        let scales = &self.of.scales[self.plan.scales as usize];
        let of = (columns, &self.of.tables[..]);
        if !RowBlock::ranked_by_cells(blocks, self.plan.line, scales, of, room, out) {
            return [u64::MAX >> (64 - columns.len()); TOGETHER];
        }
        for (b, (rows, left)) in blocks.iter().zip(&mut left).enumerate() {
            let apart = out.apart;
            *left = self.settle(columns, rows, (&room.unsure[b], &mut room.found), out.block(b), apart);
        }
        left
    }

    /// Whether all its columns have been found by cells.
    pub(super) fn is_done(&self, left: &[u64; TOGETHER]) -> bool {
        !self.plan.mixed && left.iter().all(|left| *left == 0)
    }

    /// What a line reads for columns that cells have left, …
    pub(super) fn wanted(&self, left: u64) -> u16 {
        if left == 0 {
            return 0;
        }
        self.unsettled(left).fold(0, |wanted, column| wanted | 1 << column.from)
    }

    /// … and these.
    pub(super) fn unsettled(&self, left: u64) -> impl Iterator<Item = Searched> + use<'l> {
        let columns = if left == 0 { &[] } else { within(&self.of.celled, self.plan.celled) };
        columns.iter().enumerate().filter(move |(i, _)| left >> i & 1 == 1).map(|(_, column)| column.searched)
    }

    /// Compares unsure values with thresholds, and says of which columns there are too many.
    fn settle(
        &self,
        columns: &[Celled],
        rows: &RowBlock<'_>,
        (unsure, found): (&[u64; MOST_COLUMNS], &mut Found),
        out: &mut [u8],
        apart: usize,
    ) -> u64 {
        let mut crowded = 0;
        let first = self.plan.line.first;
        let begins = within(&self.of.begins, self.plan.celled);
        // All of a line are found before the first is compared: how many a column has is not foreseen. Most often it is up to two.
        let mut count = 0;
        for (i, unsure) in unsure[..columns.len()].iter().enumerate() {
            let (mut unsure, begin) = (*unsure, count);
            loop {
                for _ in 0..2 {
                    found[count] = (BLOCK * i) as u16 + unsure.trailing_zeros() as u16;
                    count += usize::from(unsure != 0);
                    unsure &= unsure.wrapping_sub(1);
                }
                if unsure == 0 {
                    break;
                }
                if count - begin >= MOST_UNSURE {
                    crowded |= 1 << i;
                    count = begin;
                    break;
                }
            }
        }
        for (i, r) in found[..count].iter().map(|of| (usize::from(*of) / BLOCK, usize::from(*of) % BLOCK)) {
            let Searched { from, to, .. } = columns[i].searched;
            let value = rows.value(r, (first + from) as usize);
            let rank = &mut out[to as usize * apart + r];
            let own = &self.of.thresholds[begins[i] as usize..][..=usize::from(*rank)];
            // One threshold more or less is a toss, so it is no branch. Others with the same key are rare.
            *rank = match own {
                [.., below, _] if *below > value => own.partition_point(|t| *t <= value) as u8 - 1,
                [.., last] => *rank - u8::from(*last > value),
                [] => *rank,
            };
        }
        crowded
    }

    /// Columns of ranks that are searched.
    pub(super) fn searched(&self) -> &'l [Searched] {
        within(&self.of.searched, self.plan.searched)
    }

    /// Columns of ranks that are answered otherwise.
    pub(super) fn others(&self) -> &'l [(u32, u8)] {
        within(&self.of.others, self.plan.others)
    }
}

fn within<T>(all: &[T], (begin, end): (u32, u32)) -> &[T] {
    &all[begin as usize..end as usize]
}

#[cfg(test)]
mod tests {
    use crate::{
        cpu::{
            Ranker, Rows,
            ranking::{cells, row_block::LINE, search::BLOCK},
        },
        forest::{Forest, Predicate, Real, Side},
        ranks::{Asks, Choice, Ranks},
    };

    /// Blocks of fewer rows than 64, and features of more thresholds than a column of ranks has, whose rest is few.
    #[test]
    fn blocks_are_ranked_as_rows_are() {
        for features in [2u32, 16, 19, 35] {
            let mut builder = Forest::builder(features as usize, 1);
            for feature in 0..features {
                let thresholds = [1, 2, 0, 256, 7, 1, 258, 1][feature as usize % 8];
                for k in 0..thresholds {
                    let side = if feature % 3 == 0 { Side::Right } else { Side::Left };
                    let threshold = Predicate::Less { threshold: Real(f64::from(k) - 3.0) };
                    let mut tree = builder.tree(0);
                    tree.split(feature, threshold, side, 1, 2);
                    tree.leaf(1, &[1.0]);
                    tree.leaf(2, &[2.0]);
                }
            }
            let ranks = Ranks::new(&builder.build().expect("stumps"), Choice::U8).expect("ranks");
            let (ranker, columns) = (Ranker::new(&ranks), ranks.columns().len());
            for count in [1, 15, 16, 17, 40, 63, 64] {
                let value =
                    |i: usize| if i.is_multiple_of(13) { f32::NAN } else { (i * 7919 % 263) as f32 - 4.0 };
                let values: Vec<f32> = (0..count * features as usize).map(value).collect();
                let rows = Rows::new(&values, features as usize).expect("rows");
                let mut expected = vec![0u8; count * columns];
                ranker.rank(&rows, &mut expected).expect("room for all");
                let mut found = vec![0xee; columns * BLOCK];
                ranker.rank_blocks(&rows, &mut found).expect("room for all");
                for (i, rank) in expected.iter().enumerate() {
                    let (r, c) = (i / columns, i % columns);
                    assert_eq!(found[c * BLOCK + r], *rank, "row {r} of {count}, column {c} of {columns}");
                }
            }
        }
    }

    /// Values on thresholds, next to them and between; missing ones on either side; thresholds of every kind that a scale may have: spread,
    /// in a heap, whole numbers, and far from 0.
    #[test]
    fn cells_rank_as_thresholds_are_counted() {
        // Of three lines: missing values are the least, the most, or either.
        const FEATURES: usize = 48;
        let spread = |f: usize, k: usize| ((k * k + 31 * k + f) as f32).sqrt() * 1.7 - 40.0;
        let threshold = |f: usize, k: usize| match f % 6 {
            0 | 1 => spread(f, k),
            2 => k as f32 * 3.0 - 100.0,
            // Some of one step of any scale of the column.
            3 if k.is_multiple_of(5) => spread(f, k),
            3 => spread(f, k - k % 5) + (k % 5) as f32 * 1e-5,
            4 => 4096.0 + spread(f, k),
            _ => (spread(f, k) / 90.0).exp(),
        };
        let count = |f: usize| [90, 200, 120, 60, 254, 300][f % 6] - f / 6;
        let mut builder = Forest::builder(FEATURES, 1);
        for f in 0..FEATURES {
            for k in 0..count(f) {
                let right = [false, true, (f + f / 6 * k) % 3 == 1][f / LINE];
                let side = if right { Side::Right } else { Side::Left };
                let threshold = Predicate::Less { threshold: Real(threshold(f, k).into()) };
                let mut tree = builder.tree(0);
                tree.split(f as u32, threshold, side, 1, 2);
                tree.leaf(1, &[1.0]);
                tree.leaf(2, &[2.0]);
            }
        }
        let ranks = Ranks::new(&builder.build().expect("stumps"), Choice::U8).expect("ranks");
        let (ranker, columns) = (Ranker::new(&ranks), ranks.columns().len());
        let celled = ranker.by_cells();
        assert!(celled.iter().all(|of_line| (*of_line > 8) == cells::available()), "{celled:?} by cells");
        // Of rows, one on a threshold or beside it; of every fourth block no value is anywhere else.
        let value = |i: usize| {
            let (r, f) = (i / FEATURES, i % FEATURES);
            let own = threshold(f, (r * 7919 + f) % count(f));
            match (r * 31 + f * 17) % 64 {
                0 => f32::NAN,
                1 => f32::INFINITY,
                2 => f32::NEG_INFINITY,
                3 => f32::MAX,
                4 => -0.0,
                5 => own.next_up(),
                6 => own,
                _ if r / BLOCK % 4 == 3 => own.next_down(),
                _ => own + spread(f, r) * 0.01,
            }
        };
        let all: Vec<f32> = (0..16 * BLOCK * FEATURES).map(value).collect();
        for (first, count) in [(0, 16 * BLOCK), (64, 64), (5, 65), (9, 127), (1, 129), (100, 150), (192, 17)]
        {
            let values = &all[first * FEATURES..][..count * FEATURES];
            let rows = Rows::new(values, FEATURES).expect("rows");
            let mut found = vec![0xee; columns * count.next_multiple_of(BLOCK)];
            ranker.rank_blocks(&rows, &mut found).expect("room for all");
            let mut strided = vec![0xee; columns * count];
            ranker.rank_strided(&rows, &mut strided, [1, count]).expect("room for all");
            for (i, value) in values.iter().enumerate() {
                let (r, f) = (i / FEATURES, i % FEATURES);
                let of_feature = ranks.columns().iter().enumerate().filter(|(_, c)| c.feature as usize == f);
                for (c, column) in of_feature {
                    let Asks::Thresholds { first, count: own } = column.asks else { unreachable!() };
                    let own = &ranks.thresholds()[first as usize..][..own as usize];
                    let expected = match value.is_nan() {
                        true if column.missing == Side::Right => own.len(),
                        true => 0,
                        false => own.partition_point(|t| t.0 <= f64::from(*value)),
                    };
                    let rank = found[(r / BLOCK * columns + c) * BLOCK + r % BLOCK];
                    assert_eq!(usize::from(rank), expected, "{value:e} in row {r} of {count}, column {c}");
                    assert_eq!(strided[c * count + r], rank, "{value:e} in row {r} of {count}, column {c}");
                }
            }
        }
    }
}
