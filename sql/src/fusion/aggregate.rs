//! An operator of a fusion plan as an aggregate function.

use std::{
    hash::{Hash, Hasher},
    sync::Arc,
};

use arrow::{
    array::{ArrayRef, AsArray},
    datatypes::{DataType, Field, FieldRef},
};
use datafusion::{
    common::{DataFusionError, Result, ScalarValue, exec_datafusion_err, plan_err},
    logical_expr::{
        Accumulator, AggregateUDFImpl, Signature, Volatility,
        function::{AccumulatorArgs, StateFieldsArgs},
    },
};
use fangorn_fusion::{BlockOperator, BlockParts, FusionError, Matrix, dag::Format};

use super::rows::Rows;
use crate::sent::MOST_WITHOUT_FILE;

/// The maximum size of an operator in a plan that is sent to a cluster, in bytes. Each task gets a copy of it.
pub const MOST_IN_PLAN: usize = MOST_WITHOUT_FILE;

/// The aggregate function of an operator. It takes the numbers of rows, if they have numbers, and the columns of a matrix.
/// It returns the operator's [results](BlockParts) as bytes.
#[derive(Clone, Debug)]
pub struct FusedAggregate {
    operator: Arc<BlockOperator>,
    columns: Vec<String>,
    numbered: bool,
    signature: Signature,
}

/// The form in which a [`FusedAggregate`] is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentAggregate {
    /// The operator.
    pub operator: Vec<u8>,
    /// The names of the columns, for errors.
    pub columns: Vec<String>,
    /// Whether the first argument has the numbers of the rows.
    pub numbered: bool,
}

impl FusedAggregate {
    /// The function's name.
    pub const NAME: &'static str = "fangorn_fused";

    /// Returns the function of an operator over columns with these names. If `numbered` is set, the first argument has the
    /// numbers of the rows.
    pub fn new(operator: BlockOperator, columns: Vec<String>, numbered: bool) -> Self {
        let mut types = vec![DataType::Float64; columns.len()];
        if numbered {
            types.insert(0, DataType::Int64);
        }
        let signature = Signature::exact(types, Volatility::Immutable);
        Self { operator: Arc::new(operator), columns, numbered, signature }
    }

    /// Returns the form in which the function is sent to another process.
    ///
    /// # Errors
    /// It takes more than [`MOST_IN_PLAN`] bytes.
    pub fn sent(&self) -> Result<SentAggregate> {
        let operator = self.operator.to_bytes();
        if operator.len() > MOST_IN_PLAN {
            return plan_err!(
                "what an operator over {:?} needs besides its rows takes {} bytes, more than the {MOST_IN_PLAN} that a plan \
                 may hold; make vectors with an element a row columns of the query, or give the plan's costs less \
                 memory, so that they stay in the blocks",
                self.operator.input(),
                operator.len()
            );
        }
        Ok(SentAggregate { operator, columns: self.columns.clone(), numbered: self.numbered })
    }

    /// Returns the function that another process sent.
    ///
    /// # Errors
    /// It is damaged.
    pub fn received(sent: SentAggregate) -> Result<Self> {
        let operator = BlockOperator::from_bytes(&sent.operator).map_err(refused)?;
        Ok(Self::new(operator, sent.columns, sent.numbered))
    }
}

/// Returns an operator's error as one of execution, after which no task is tried again.
pub(super) fn refused(error: FusionError) -> DataFusionError {
    exec_datafusion_err!("{error}")
}

/// Adds what an operator gives for a dense block, which it may take in CSR.
pub(super) fn add_block(
    operator: &BlockOperator,
    parts: &mut BlockParts,
    first: Option<usize>,
    block: &Matrix,
) -> Result<()> {
    let sparse = match block {
        Matrix::Dense(dense) if operator.format() == Format::Csr => {
            let sparse = Matrix::csr(dense.shape(), dense.values());
            Some(sparse.ok_or_else(|| exec_datafusion_err!("the columns are too many for rows in CSR"))?)
        }
        _ => None,
    };
    operator.add(parts, first, sparse.as_ref().unwrap_or(block)).map_err(refused)
}

impl PartialEq for FusedAggregate {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.operator, &other.operator)
            && (&self.columns, self.numbered) == (&other.columns, other.numbered)
    }
}

impl Eq for FusedAggregate {}

impl Hash for FusedAggregate {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.operator).hash(state);
    }
}

impl AggregateUDFImpl for FusedAggregate {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::LargeBinary)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        Ok(vec![Arc::new(Field::new(args.name, DataType::LargeBinary, true))])
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(FusedAccumulator {
            operator: self.operator.clone(),
            rows: Rows::new(self.columns.clone(), self.numbered),
            parts: BlockParts::default(),
        }))
    }
}

/// The results of an operator from the rows so far.
#[derive(Debug)]
struct FusedAccumulator {
    operator: Arc<BlockOperator>,
    rows: Rows,
    parts: BlockParts,
}

impl FusedAccumulator {
    fn bytes_of_parts(&mut self) -> Result<ScalarValue> {
        let Self { operator, rows, parts } = self;
        rows.finish(|first, block| add_block(operator, parts, first, &block))?;
        Ok(ScalarValue::LargeBinary(Some(parts.to_bytes())))
    }
}

impl Accumulator for FusedAccumulator {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let Self { operator, rows, parts } = self;
        rows.add(values, |first, block| add_block(operator, parts, first, &block))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.bytes_of_parts()?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let Some(states) = states.first() else { return Ok(()) };
        for bytes in states.as_binary::<i64>().iter().flatten() {
            let others = self.operator.parts_from_bytes(bytes).map_err(refused)?;
            self.operator.merge(&mut self.parts, others).map_err(refused)?;
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.bytes_of_parts()
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.rows.bytes()
    }
}
