//! Fangorn's own model file, `.fangorn`: a forest that an importer made from a producer's model, ready to load.
//!
//! A [`Contents`] holds a forest, named schedules and plan files for it, and a profile of its leaves.
//! [`write`](Contents::to_bytes()) and [`read`](Contents::from_bytes()) are exact inverses. This is version 1 of the
//! format. All numbers are little-endian:
//!
//! | bytes | what |
//! |---|---|
//! | 8 | `FANGORN` and a zero |
//! | 4, 4 | version of the format; number of sections |
//! | 8 | length of the file |
//! | 32 for each section | its name (four letters), CRC-32 of its bytes, its offset and its length (8 each), 8 zeros |
//! | 4 | CRC-32 of all bytes before this number |
//!
//! Sections begin at multiples of 64 bytes, and sections of nodes and leaf values are arrays of one type. So a file
//! can be mapped into memory and read in place. A reader refuses an unknown section unless the first letter of its
//! name is lower case.
//!
//! | section | holds |
//! |---|---|
//! | `HEAD` | producer, columns, outputs, base score, scale, transform, classes, aggregate, compare type |
//! | `TREE` | u64 for each tree, and one more: the index of its first node |
//! | `TARG` | u32 for each tree: the output it adds to; absent if leaves are vectors |
//! | `ASKS` | u32 for each node: column, kind and flags |
//! | `WHAT` | u64 for each node: the bits of the threshold, the index of the category set, or the leaf slot |
//! | `LEFT`, `RGHT`, `NUMB` | u32 for each node: left child; right child; the producer's number |
//! | `LEAF` | f64 for each leaf value, by leaf slot |
//! | `SETS` | u64 for each category set, and one more: the index of its first word |
//! | `RULE`, `WORD` | u8 for each category set: its rule; u32 for each word of the sets |
//! | `schd`, `plan` | names and texts of schedules; names and texts of plan files |
//! | `prof` | u64 for each leaf slot: the number of rows that reached it |
//! | `code`, or `CODE` if a reader must apply the coding | how categories of columns become numbers: column, kind of coding, flags, and hashes (u32) with their numbers (f64) |
//! | `covr` | f64 for each node: its cover; absent if the model has none |
//! | `word` | one u32: 1 if labels of classes are texts; absent otherwise |
//! | `stop` | two u32: the best round of early stopping, and the number of rounds; absent if the model has none |

mod read;
mod write;

use crate::Forest;

/// The first bytes of a `.fangorn` file.
pub const MAGIC: [u8; 8] = *b"FANGORN\0";
/// The version of the format that is written, and the newest that is read.
pub const VERSION: u32 = 1;

/// Sections begin at multiples of this number of bytes.
const ALIGN: usize = 64;
const SECTION_BYTES: usize = 32;
const HEADER_BYTES: usize = 24;

/// A text with a name: a schedule, or the plan file for a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedText {
    /// The name.
    pub name: String,
    /// The text.
    pub text: String,
}

/// The contents of a `.fangorn` file.
///
/// ```
/// use fangorn::{file::Contents, import};
///
/// let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/zoo/churn");
/// let forest = import::load(format!("{folder}/model.ubj").as_ref(), &Default::default())?;
/// let bytes = Contents::new(forest.clone()).to_bytes();
/// assert_eq!(Contents::from_bytes(&bytes, &Default::default())?.forest, forest);
/// // `import::parse` reads the file, too.
/// assert_eq!(import::parse(&bytes, &Default::default())?, forest);
/// # Ok::<(), fangorn::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    /// The forest.
    pub forest: Forest,
    /// Schedules that were written or found for the forest.
    pub schedules: Vec<NamedText>,
    /// Plan files, each named after the device that it is for.
    pub plan_files: Vec<NamedText>,
    /// Number of rows that reached each leaf, by leaf slot.
    pub profile: Option<Vec<u64>>,
}

impl Contents {
    /// Returns contents that hold a forest and nothing more.
    pub fn new(forest: Forest) -> Self {
        Self { forest, schedules: Vec::new(), plan_files: Vec::new(), profile: None }
    }
}

/// Values in the section `code`: kinds of coding, and flags.
mod coding {
    pub const INDICES: u32 = 1;
    pub const HASHES: u32 = 2;
    /// Flag: categories are numbers or truth values.
    pub const NUMBERS: u32 = 1;
    /// Flag: a category that is not known is refused.
    pub const REFUSED: u32 = 2;
    /// Flag: rows have to be made with this coding.
    pub const NEEDED: u32 = 4;
    /// Flag: a category that is not known has a number of its own.
    pub const OWN: u32 = 8;
}

/// Values in the section `ASKS`: the kind of a node and flags, above the column's 24 bits.
mod kind {
    pub const LEAF: u32 = 0;
    pub const LESS: u32 = 1;
    pub const LESS_ZERO_ASIDE: u32 = 2;
    pub const EQUAL: u32 = 3;
    pub const IN_SET: u32 = 4;
    pub const ALWAYS: u32 = 5;
    pub const SHIFT: u32 = 24;
    pub const KIND: u32 = 7;
    /// Flag: a missing value goes right.
    pub const MISSING_RIGHT: u32 = 1 << 31;
    /// Flag: members of the category set go right.
    pub const INSIDE_RIGHT: u32 = 1 << 30;
    pub const COLUMN: u32 = (1 << 24) - 1;
}
