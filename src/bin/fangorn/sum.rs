//! The option `--sum`.

use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser},
};
use fangorn::sum::Contract;

/// The contract of the sums in margins and values.
#[derive(Clone, Copy, Debug, Args)]
pub struct SumChoice {
    /// What sums promise. any: sums differ by rounding only, and the order is the fastest. tree: the producer's own order
    /// and type. exact: the same bytes for every schedule, batch and device. The backend reference takes only any
    #[arg(long, value_name = "any|tree|exact", default_value = "any", value_parser = contract())]
    pub sum: Contract,
}

/// Returns the parser of a contract's name.
pub fn contract() -> impl TypedValueParser<Value = Contract> {
    let names = PossibleValuesParser::new(Contract::ALL.map(Contract::name));
    names.map(|name| Contract::parse(&name).unwrap_or_default())
}
