//! The engines that a program may use: all that fit, unless a test or a [check](crate::check) says otherwise.

use crate::schedule::FewRows;

/// The engines and rankings that a program may use, of those that the machine and the forest allow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Engines {
    /// How rows become ranks.
    pub ranking: Ranking,
    /// Whether to leave out vector kernels, blends and engines for a few rows.
    pub scalar: bool,
}

impl Engines {
    /// Only walks in the order of the loops, node by node: the least code that can serve a forest.
    pub const PLAIN: Self = Self { ranking: Ranking::Columns, scalar: true };
}

macro_rules! engines {
    ({} $($(#[$doc:meta])* $few:ident($file:ident::$table:ident) $word:literal $reads:ident;)*) => {
        /// Code that takes a block of rows through its trees and finds their leaves.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Engine {
            /// Walks one split a step, in the order of the loops.
            #[default]
            Walks,
            /// Walks one row after the other, each through several trees at a time. It serves so few rows that walks
            /// of a single tree would wait for their loads.
            WalksByRow,
            /// Walks a copy of rows, 64 rows at a time.
            WalksByWindow,
            /// Walks many rows at once in vectors.
            Vectors,
            /// Walks tiles of nodes in vectors.
            Tiles,
            /// Walks tiles of nodes in vectors, one row after the other.
            TilesByRow,
            /// Evaluates every split of a tree for 64 rows at once.
            Blends,
            $($(#[$doc])* $few,)*
        }

        impl Engine {
            /// All engines.
            pub const ALL: [Self; 7 + [$(stringify!($few)),*].len()] = [
                Self::Walks,
                Self::WalksByRow,
                Self::WalksByWindow,
                Self::Vectors,
                Self::Tiles,
                Self::TilesByRow,
                Self::Blends,
                $(Self::$few,)*
            ];

            /// Returns the engine's name in a plan's text.
            pub fn name(self) -> &'static str {
                match self {
                    Self::Walks => "walks",
                    Self::WalksByRow => "walks by row",
                    Self::WalksByWindow => "walks by window",
                    Self::Vectors => "vectors",
                    Self::Tiles => "tiles",
                    Self::TilesByRow => "tiles by row",
                    Self::Blends => "blends",
                    $(Self::$few => $word,)*
                }
            }

            /// Returns the engine that serves a few rows alone and that a schedule asks for. There is none where rows
            /// are walked, or where the machine chooses.
            pub fn of_few_rows(by: FewRows) -> Option<Self> {
                match by {
                    $(FewRows::$few => Some(Self::$few),)*
                    FewRows::Auto | FewRows::Rows | FewRows::Walk => None,
                }
            }
        }
    };
}

fangorn_ir::few_rows_engines! { engines {} }

impl Engine {
    /// Returns whether the engine visits the rows and trees of a block in the order of the schedule's loops.
    pub fn keeps_order(self) -> bool {
        matches!(self, Self::Walks | Self::Vectors | Self::Tiles)
    }
}

impl std::fmt::Display for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// How rows become ranks of one byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Ranking {
    /// One column block (sixteen columns) at a time if the machine has kernels for that, otherwise one column
    /// at a time.
    #[default]
    Chosen,
    /// One column at a time.
    Columns,
}

impl Ranking {
    /// All methods of ranking.
    pub const ALL: [Self; 2] = [Self::Chosen, Self::Columns];

    /// Returns the name of the ranking in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Chosen => "ranks as chosen",
            Self::Columns => "ranks by columns",
        }
    }
}
