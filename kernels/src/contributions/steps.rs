//! The instructions of a tree's contributions, as a unit executes them on its stacks.

use cubecl::prelude::*;

use fangorn_ir::RowType;

use super::encoding::*;
use crate::node;

/// What a program computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Explained {
    /// Interactions. Otherwise contributions.
    pub pairs: bool,
    /// Against the rows of a background. Otherwise by the covers of the nodes.
    pub background: bool,
}

impl Explained {
    /// Words of an instruction.
    pub fn instruction_words(self) -> u32 {
        if self.pairs { INTERACTION_WORDS } else { INSTRUCTION_WORDS }
    }

    /// Number of a unit's terms, given the points of a pass. Only interactions read them.
    pub fn terms(self, points: u32) -> u32 {
        if self.pairs { points } else { 1 }
    }
}

/// What a kernel is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// The type of the rows' values.
    pub from: RowType,
    /// Number of points of a pass.
    pub points: u32,
    /// Number of levels of a stack.
    pub levels: u32,
    /// What is explained.
    pub explained: Explained,
}

/// The chunks of a launch.
#[derive(CubeType, CubeLaunch)]
pub struct ChunkSpan {
    /// Number of items: passes, each with a block of background rows, or subtrees with tables.
    pub items: u32,
    /// Number of items of a chunk.
    pub chunk: u32,
    /// Number of chunks.
    pub chunks: u32,
    /// Number of chunks in `partial` that other launches write, before those of this one.
    pub first: u32,
}

/// What the units of a launch have in common.
#[derive(CubeType, CubeLaunch)]
pub struct Sections {
    /// Index of the first word of the questions.
    pub questions_at: u32,
    /// Index of the first word of the ancestors.
    pub ancestors_at: u32,
    /// Index of the first word of the background's sides.
    pub sides_at: u32,
    /// Index of the first word of the subtrees with tables.
    pub subtrees_at: u32,
    /// Number of sums of a row.
    pub width: u32,
    /// Number of background rows, or 1 if there are none.
    pub background_rows: u32,
    /// Number of blocks of background rows.
    pub blocks: u32,
    /// Weight of a background row, or 1.
    pub weight: f32,
}

/// An instruction, as it is encoded.
#[derive(CubeType)]
pub struct Instruction {
    pub opcode: u32,
    pub flags: u32,
    pub column: u32,
    pub asked: u32,
    pub meta: u32,
    /// By covers the split's lists, against a background the instruction after those of the child.
    pub lists_or_after: u32,
    /// By covers the left child's share as a float, against a background the split's sides.
    pub share_or_sides: u32,
    pub left: f32,
    pub right: f32,
    pub feature: u32,
}

/// The stacks of a unit, with a number for each level and point.
#[derive(CubeType)]
pub struct Stacks {
    /// The fractions of the row that arrive at the splits of the path. The one at `top` is the running split's.
    pub paths: Array<f32>,
    pub top: RuntimeCell<u32>,
    /// The sums of the leaves below splits whose instructions are done, `count` of them.
    pub belows: Array<f32>,
    pub count: RuntimeCell<u32>,
    /// For each split of the path, bit 0: the row goes left. Bit 1: it took the path's sides at the splits above on the
    /// same feature. Bits 2 and 3: the same of the background row.
    pub masks: Array<u32>,
    /// What the last split that ended adds to its feature's contribution at each point.
    pub terms: Array<f32>,
}

/// A split at a point: the fraction of the left child, and the split's change.
#[derive(CubeType)]
struct PointNumbers {
    fraction: f32,
    change: f32,
}

/// Loads the instruction at index `at`.
#[cube]
pub fn load(program: &[u32], at: u32) -> Instruction {
    let at = at as usize;
    let flags = program[at];
    Instruction {
        opcode: flags & OPCODE,
        flags,
        column: program[at + 1],
        asked: program[at + 2],
        meta: program[at + 3],
        lists_or_after: program[at + 4],
        share_or_sides: program[at + 5],
        left: f32::reinterpret(program[at + 6]),
        right: f32::reinterpret(program[at + 7]),
        feature: program[at + 8],
    }
}

/// Empties the stacks, and puts the weights of a pass's points under all paths, each times `weight`.
#[cube]
pub fn begin(program: &[u32], points_at: u32, weight: f32, stacks: &mut Stacks, #[comptime] points: u32) {
    stacks.top.store(0u32);
    stacks.count.store(0u32);
    #[unroll]
    for q in 0..points {
        let of_point = f32::reinterpret(program[(points_at + comptime![points + q]) as usize]);
        stacks.paths[q as usize] = of_point * weight;
    }
}

/// Writes the mask of a split on the top of the path, for a row whose value has this key and for background row `other`.
#[cube]
pub fn enter(
    program: &[u32],
    sections: &Sections,
    instruction: &Instruction,
    key: u32,
    other: u32,
    stacks: &mut Stacks,
    #[comptime] shape: Shape,
) {
    let left = goes_left(program, sections.questions_at, instruction.asked, instruction.meta, key);
    let mut above = 0u32.runtime();
    if (instruction.flags & REPEATED) != 0u32 {
        above = stacks.masks[(instruction.flags >> ABOVE_SHIFT) as usize];
    }
    let mut mask = mask_of(left, instruction, above);
    if comptime![shape.explained.background] {
        let sides = program[(sections.sides_at + instruction.share_or_sides + (other >> 5u32)) as usize];
        let other_left = (sides >> (other & 31u32)) & 1u32;
        mask |= mask_of(other_left, instruction, above >> 2u32) << 2u32;
    }
    stacks.masks[stacks.top.read() as usize] = mask;
}

/// Returns 1 if a value with this key goes left at a split, 0 if it goes right.
#[cube]
pub fn goes_left(program: &[u32], questions_at: u32, asked: u32, meta: u32, key: u32) -> u32 {
    let mut right = node::right(key, asked, meta);
    if (meta & comptime![node::QUESTION]) != 0u32 {
        right = node::question_right(program, questions_at + asked, key, meta);
    }
    1u32 - right
}

/// Returns the mask of one row that goes `left` at a split. `above` is its mask at the split above on the same feature.
#[cube]
fn mask_of(left: u32, instruction: &Instruction, above: u32) -> u32 {
    let mut reached = 2u32.runtime();
    if (instruction.flags & REPEATED) != 0u32 {
        let side = select((instruction.flags & ABOVE_LEFT) != 0u32, 1u32, 0u32);
        reached = select((above & 1u32) == side, above & 2u32, 0u32);
    }
    left | reached
}

/// Returns whether an instruction goes to a child at which neither the row nor the background row can arrive.
#[cube]
pub fn is_out_of_reach(instruction: &Instruction, stacks: &Stacks) -> bool {
    let mask = stacks.masks[stacks.top.read() as usize];
    let arrives = select(instruction.opcode == LEFT, 3u32, 2u32);
    let goes_down = instruction.opcode == LEFT || instruction.opcode == RIGHT;
    goes_down && (mask & 3u32) != arrives && ((mask >> 2u32) & 3u32) != arrives
}

/// Pushes a sum of leaves that is 0 at all points.
#[cube]
pub fn push_nothing(stacks: &mut Stacks, #[comptime] points: u32) {
    let count = stacks.count.read();
    #[unroll]
    for q in 0..points {
        stacks.belows[(count * points + q) as usize] = 0.0f32;
    }
    stacks.count.store(count + 1u32);
}

/// Returns the numbers of a split at point `q`, for a row with this mask.
#[cube]
fn numbers(
    program: &[u32],
    points_at: u32,
    instruction: &Instruction,
    mask: u32,
    #[comptime] q: u32,
    #[comptime] shape: Shape,
) -> PointNumbers {
    let points = comptime![shape.points];
    let left = (mask & 1u32) == 1u32;
    let reached = (mask & 2u32) == 2u32;
    let at = f32::reinterpret(program[(points_at + q) as usize]);
    if comptime![shape.explained.background] {
        let own = select(left, 1.0f32, 0.0f32);
        let others = select((mask & 4u32) == 4u32, 1.0f32, 0.0f32);
        let other_reached = (mask & 8u32) == 8u32;
        let both = reached && other_reached;
        // If only one of the rows took the path's sides above, the path follows that row, and nothing changes.
        let one = select(reached, own, others);
        let fraction = select(both, own * at + others * (1.0f32 - at), one);
        PointNumbers { fraction, change: select(both, own - others, 0.0f32) }
    } else {
        let share = f32::reinterpret(instruction.share_or_sides);
        let mut fraction = share * (1.0f32 - at) + select(left, at, 0.0f32);
        let mut change = select(left, 1.0f32 - share, -share);
        if (instruction.flags & REPEATED) != 0u32 {
            let lists =
                points_at + comptime![2 * points] + instruction.lists_or_after * comptime![4 * points];
            let list = lists + select(left, 0u32, comptime![points].runtime()) + q;
            fraction = select(reached, f32::reinterpret(program[list as usize]), share);
            let changed = f32::reinterpret(program[(list + comptime![2 * points]) as usize]);
            change = select(reached, changed, 0.0f32);
        }
        PointNumbers { fraction, change }
    }
}

/// Executes an instruction at all points of a pass. Returns what it adds to the contribution of its feature, if it ends
/// a split.
#[cube]
pub fn execute(
    program: &[u32],
    points_at: u32,
    instruction: &Instruction,
    stacks: &mut Stacks,
    #[comptime] shape: Shape,
) -> f32 {
    let points = comptime![shape.points];
    let top = stacks.top.read();
    let mask = stacks.masks[top as usize];
    let mut added = 0.0f32.runtime();
    if instruction.opcode == LEFT || instruction.opcode == RIGHT {
        #[unroll]
        for q in 0..points {
            let numbers = numbers(program, points_at, instruction, mask, q, shape);
            let path = stacks.paths[(top * points + q) as usize];
            let left = path * numbers.fraction;
            let child = select(instruction.opcode == LEFT, left, path - left);
            stacks.paths[((top + 1u32) * points + q) as usize] = child;
        }
        stacks.top.store(top + 1u32);
    } else {
        // The index of the left child's sum in the stack, and then of the split's own.
        let mut own = stacks.count.read();
        if instruction.opcode == JOIN {
            own -= 2u32;
        } else if instruction.opcode != LEAVES {
            own -= 1u32;
        }
        #[unroll]
        for q in 0..points {
            let numbers = numbers(program, points_at, instruction, mask, q, shape);
            let index = (own * points + q) as usize;
            let mut lefts = instruction.left;
            let mut rights = instruction.right;
            if instruction.opcode == JOIN || instruction.opcode == RIGHT_LEAF {
                lefts = stacks.belows[index];
            }
            if instruction.opcode == JOIN {
                rights = stacks.belows[((own + 1u32) * points + q) as usize];
            } else if instruction.opcode == LEFT_LEAF {
                rights = stacks.belows[index];
            }
            let difference = lefts - rights;
            stacks.belows[index] = numbers.fraction * difference + rights;
            let term = stacks.paths[(top * points + q) as usize] * numbers.change * difference;
            if comptime![shape.explained.pairs] {
                stacks.terms[q as usize] = term;
            }
            added += term;
        }
        stacks.count.store(own + 1u32);
    }
    added
}
