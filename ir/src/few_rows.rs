//! How a few rows find their leaves: the choice of an engine, which schedules and plans name.

/// Lists the engines that serve a few rows alone, one a line, and hands the list to the macro `$then`, after `$before`.
///
/// A line has the engine's name in Rust, its file and type in the CPU's folder of engines, its word in schedules, plans
/// and traces, and what it reads: `Tables` of its own, or the `Nodes` of the layout. This list is the only one. An enum
/// or a `match` that needs the engines takes them from here.
#[doc(hidden)]
#[macro_export]
macro_rules! few_rows_engines {
    ($then:ident { $($before:tt)* }) => {
        $then! {
            { $($before)* }
            /// Holds a row in registers and decides four levels of a tree with one compare.
            Registers(registers::Registers) "registers" Tables;
            /// Holds a row in registers, decides up to 31 splits of a tree at once, and finds its leaf by masks.
            Masks(registers::Masks) "masks" Tables;
            /// Walks a row through 64 trees abreast, by gathers.
            Abreast(abreast::Abreast) "abreast" Nodes;
            /// Walks a row through four trees side by side; the trees are filled up to full trees.
            Full(full::FullTrees) "full" Tables;
        }
    };
}

/// What an engine for a few rows reads.
#[derive(Clone, Copy)]
enum Reads {
    /// Tables of its own.
    Tables,
    /// The nodes of the layout.
    Nodes,
}

macro_rules! few_rows {
    ({} $($(#[$doc:meta])* $engine:ident($file:ident::$table:ident) $word:literal $reads:ident;)*) => {
        /// How rows that are too few to fill vectors find their leaves (CPU). If the chosen engine can't serve the plan
        /// on the machine, rows are walked: one after the other where the plan allows it, and otherwise like many rows.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub enum FewRows {
            /// The fastest engine that can serve the forest on the machine.
            #[default]
            Auto,
            $($(#[$doc])* $engine,)*
            /// Walks one row after the other on the schedule's layout.
            Rows,
            /// Walks a few rows as many rows are walked: in the order of the loops.
            Walk,
        }

        impl FewRows {
            /// All choices.
            pub const ALL: [Self; 3 + [$(stringify!($engine)),*].len()] =
                [Self::Auto, $(Self::$engine,)* Self::Rows, Self::Walk];

            /// Returns the name in a schedule's text.
            pub fn name(self) -> &'static str {
                match self {
                    Self::Auto => "auto",
                    $(Self::$engine => $word,)*
                    Self::Rows => "rows",
                    Self::Walk => "walk",
                }
            }

            /// Returns what the chosen engine reads, if it serves a few rows alone.
            fn reads(self) -> Option<Reads> {
                match self {
                    $(Self::$engine => Some(Reads::$reads),)*
                    Self::Auto | Self::Rows | Self::Walk => None,
                }
            }
        }
    };
}

few_rows_engines! { few_rows {} }

impl FewRows {
    /// Returns what of the plan does not reach a few rows, for the plan's text.
    pub(crate) fn out_of_reach(self) -> &'static str {
        match self.reads() {
            Some(Reads::Tables) => "; the layout and the walks' steps do not reach them",
            Some(Reads::Nodes) => "; the walks' steps do not reach them",
            None => "",
        }
    }
}
