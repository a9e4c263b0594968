//! Which engines a program may take: all that fit, unless a test or a [check](crate::check) says otherwise.

/// What a program may take of what the machine and the forest allow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Engines {
    /// How a few rows are walked.
    pub few_rows: FewRows,
    /// How rows become ranks.
    pub ranking: Ranking,
    /// Whether kernels of vectors and blends are left out.
    pub scalar: bool,
}

impl Engines {
    /// Walks of one row after the other, node by node: the least code that can serve a forest.
    pub const PLAIN: Self = Self { few_rows: FewRows::Walks, ranking: Ranking::Columns, scalar: true };
}

/// How a few rows are walked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FewRows {
    /// By whichever the machine is fastest with.
    #[default]
    Chosen,
    /// With the row in registers, four levels of a tree a step.
    Registers,
    /// Through 64 trees abreast, by gathers.
    Abreast,
    /// Through trees filled up, four side by side.
    Full,
    /// As many rows are.
    Walks,
}

impl FewRows {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Chosen, Self::Registers, Self::Abreast, Self::Full, Self::Walks];

    /// Its name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Chosen => "few rows as chosen",
            Self::Registers => "few rows in registers",
            Self::Abreast => "few rows through trees abreast",
            Self::Full => "few rows through full trees",
            Self::Walks => "few rows by walks",
        }
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
