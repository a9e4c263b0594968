//! Which engines a program may take: all that fit, unless a test or a [check](crate::check) says otherwise.

/// What a program may take of what the machine and the forest allow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Engines {
    /// How rows become ranks.
    pub ranking: Ranking,
    /// Whether kernels of vectors, blends and engines for a few rows are left out.
    pub scalar: bool,
}

impl Engines {
    /// Walks in the order of the loops, node by node: the least code that can serve a forest.
    pub const PLAIN: Self = Self { ranking: Ranking::Columns, scalar: true };
}

/// What takes a block of rows through its trees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Engine {
    /// Walks, a split a step, in the order of the loops.
    #[default]
    Walks,
    /// The same, one row through all trees after the other: so few rows that walks of one tree would wait for their loads.
    WalksByRow,
    /// The same of a copy of rows, 64 of them at a time.
    WalksByWindow,
    /// Walks of rows in vectors.
    Vectors,
    /// Walks of tiles of nodes in vectors.
    Tiles,
    /// The same, one row after the other.
    TilesByRow,
    /// Every split for 64 rows at once.
    Blends,
    /// A row in registers, four levels of a tree a step.
    Registers,
    /// A row through 64 trees abreast, by gathers.
    Abreast,
    /// A row through trees that are filled up, four side by side.
    FullTrees,
}

impl Engine {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Walks,
        Self::WalksByRow,
        Self::WalksByWindow,
        Self::Vectors,
        Self::Tiles,
        Self::TilesByRow,
        Self::Blends,
        Self::Registers,
        Self::Abreast,
        Self::FullTrees,
    ];

    /// Its name in a plan's text.
    pub fn name(self) -> &'static str {
        match self {
            Self::Walks => "walks",
            Self::WalksByRow => "walks by row",
            Self::WalksByWindow => "walks by window",
            Self::Vectors => "vectors",
            Self::Tiles => "tiles",
            Self::TilesByRow => "tiles by row",
            Self::Blends => "blends",
            Self::Registers => "registers",
            Self::Abreast => "abreast",
            Self::FullTrees => "full trees",
        }
    }

    /// Whether it visits the rows and trees of a block in the order of the schedule's loops.
    pub fn keeps_order(self) -> bool {
        matches!(self, Self::Walks | Self::Vectors | Self::Tiles)
    }
}

impl std::fmt::Display for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// How rows become ranks of a byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Ranking {
    /// A line of sixteen columns at a time, where the machine has kernels for that.
    #[default]
    Chosen,
    /// A column at a time.
    Columns,
}

impl Ranking {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Chosen, Self::Columns];

    /// Its name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Chosen => "ranks as chosen",
            Self::Columns => "ranks by columns",
        }
    }
}
