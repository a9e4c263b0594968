//! Our own model file, `.fangorn`: what an importer made of any producer's model, ready to load.
//!
//! A [`Contents`] is a forest, and what was found out about it: schedules and plans by name, a profile of its leaves.
//! [`write`](Contents::to_bytes()) and [`read`](Contents::from_bytes()) are exact inverses. Version 1, all numbers
//! little-endian:
//!
//! | bytes | what |
//! |---|---|
//! | 8 | `FANGORN` and a zero |
//! | 4, 4 | version of the format; number of sections |
//! | 8 | length of the file |
//! | 32 each | sections: four letters, CRC-32 of its bytes, place, length (8 each), 8 zeros |
//! | 4 | CRC-32 of all that stands before it |
//!
//! Sections begin at multiples of 64 bytes and hold arrays of one type, so a file can be mapped into memory and read
//! where it lies. A reader refuses a section it does not know unless its first letter is lower case.
//!
//! | section | holds |
//! |---|---|
//! | `HEAD` | producer, columns, outputs, base score, scale, transform, classes, aggregate, compare type |
//! | `TREE` | u64 a tree and one more: where its nodes begin |
//! | `TARG` | u32 a tree: the output it adds to; absent where leaves are vectors |
//! | `ASKS` | u32 a node: column and kind |
//! | `WHAT` | u64 a node: the threshold's bits, the set, or the slot |
//! | `LEFT`, `RGHT`, `NUMB` | u32 a node: children; the producer's number |
//! | `LEAF` | f64 a leaf value, by slot |
//! | `SETS` | u64 a category set and one more: where its words begin; `RULE` u8 a set; `WORD` u32 a word |
//! | `schd`, `plan` | names and texts |
//! | `prof` | u64 a slot: rows that reached it |
//! | `code`, or `CODE` where rows can't be made otherwise | how columns' categories become numbers: column, sort and flags, and for hashes (u32) their numbers (f64) |
//! | `word` | a u32: 1 where labels of classes are texts; absent where they are not |
//! | `stop` | two u32: the best round of early stopping, and how many rounds there are; absent where nothing says so |

mod read;
mod write;

use crate::Forest;

/// The first bytes of a file.
pub const MAGIC: [u8; 8] = *b"FANGORN\0";
/// The version of the format that is written, and the newest that is read.
pub const VERSION: u32 = 1;

/// Sections begin at multiples of this.
const ALIGN: usize = 64;
const SECTION_BYTES: usize = 32;
const HEADER_BYTES: usize = 24;

/// A text by name: a schedule, or a plan of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedText {
    /// What it is called.
    pub name: String,
    /// The text.
    pub text: String,
}

/// What a `.fangorn` file holds.
///
/// ```
/// use fangorn::{file::Contents, import};
///
/// let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/zoo/churn");
/// let forest = import::load(format!("{folder}/model.ubj").as_ref(), &Default::default())?;
/// let bytes = Contents::new(forest.clone()).to_bytes();
/// assert_eq!(Contents::from_bytes(&bytes, &Default::default())?.forest, forest);
/// // An importer like any other.
/// assert_eq!(import::parse(&bytes, &Default::default())?, forest);
/// # Ok::<(), fangorn::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    /// The forest.
    pub forest: Forest,
    /// Schedules that were written or found for it.
    pub schedules: Vec<NamedText>,
    /// Plans, by the device they are for.
    pub plans: Vec<NamedText>,
    /// How many rows reached each leaf, by slot.
    pub profile: Option<Vec<u64>>,
}

impl Contents {
    /// A forest and nothing more.
    pub fn new(forest: Forest) -> Self {
        Self { forest, schedules: Vec::new(), plans: Vec::new(), profile: None }
    }
}

/// How a column's categories become numbers, in `code`.
mod coding {
    pub const PLACES: u32 = 1;
    pub const HASHES: u32 = 2;
    /// Categories are numbers.
    pub const NUMBERS: u32 = 1;
    /// One that is not known is refused.
    pub const REFUSED: u32 = 2;
    /// Rows have to be made so.
    pub const NEEDED: u32 = 4;
}

/// The kind of a node in `ASKS`, above the column's 24 bits.
mod kind {
    pub const LEAF: u32 = 0;
    pub const LESS: u32 = 1;
    pub const LESS_ZERO_ASIDE: u32 = 2;
    pub const EQUAL: u32 = 3;
    pub const IN_SET: u32 = 4;
    pub const ALWAYS: u32 = 5;
    pub const SHIFT: u32 = 24;
    pub const KIND: u32 = 7;
    /// A missing value goes right.
    pub const MISSING_RIGHT: u32 = 1 << 31;
    /// Members of the set go right.
    pub const INSIDE_RIGHT: u32 = 1 << 30;
    pub const COLUMN: u32 = (1 << 24) - 1;
}
