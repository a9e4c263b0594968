//! Compiles a [`Predictor`]: options, plans for sizes of batches, and the self-check before it serves.

use std::sync::Arc;

use super::{Predictor, RowTypes};
use crate::{
    check::{Check, Difference, SelfCheck, Strictness, Warning},
    contributions::RowExplainer,
    cpu::{Engines, Plans, Program, SchedulePrograms, SumMethod},
    error::{Error, Result},
    forest::{CompareType, Forest, Profile},
    plan::{LoweredForest, Request, lower_verified},
    schedule::{BatchSchedules, Preset, Schedule},
    sum::Contract,
};

/// Options of a [`Predictor`], from [`Predictor::builder`]. Each option has a default. If a method is called
/// twice, the last call counts.
///
/// ```
/// use fangorn::{Forest, Predictor, check::SelfCheck, cpu::Rows, schedule::Preset, sum::Contract};
///
/// let mut forest = Forest::builder(1, 1).base_score([1.0]);
/// for value in [2f64.powi(-25); 4] {
///     forest.tree(0).leaf(0, &[value]);
/// }
/// let forest = forest.build()?;
/// let predictor = Predictor::builder(&forest)
///     .schedule(Preset::Default.schedule(&forest, false))
///     .sum(Contract::Exact)
///     .threads(1)
///     .check(SelfCheck::Full)
///     .build()?;
/// assert!(predictor.warnings().is_empty());
/// // One such leaf does not change an f32 sum of 1. All four together change its last bit.
/// assert_eq!(predictor.margins(&Rows::new(&[0.0f32], 1)?)?, [1.0 + f32::EPSILON]);
/// # Ok::<(), fangorn::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "call `build` to compile the forest"]
pub struct PredictorBuilder<'f> {
    forest: &'f Forest,
    schedules: Option<BatchSchedules>,
    threads: Option<usize>,
    sum: Contract,
    profile: Option<&'f Profile>,
    check: SelfCheck,
    engines: Engines,
    pool: Option<Arc<rayon::ThreadPool>>,
    explainer: Option<RowExplainer>,
    types: RowTypes,
}

impl<'f> PredictorBuilder<'f> {
    pub(super) fn new(forest: &'f Forest) -> Self {
        Self {
            forest,
            schedules: None,
            threads: None,
            sum: Contract::Any,
            profile: None,
            check: SelfCheck::Quick,
            engines: Engines::default(),
            pool: None,
            explainer: None,
            types: RowTypes::Both,
        }
    }

    /// Sets how the forest is walked. The default is [`Preset::Default`] of the CPU.
    pub fn schedule(mut self, schedule: impl Into<Option<Schedule>>) -> Self {
        self.schedules = schedule.into().map(BatchSchedules::from);
        self
    }

    /// Sets how the forest is walked, by the number of rows in a batch. A batch whose size lies between two
    /// of the given sizes runs with the schedule that is estimated to take less time ([costs](crate::cost)).
    ///
    /// ```
    /// use fangorn::{
    ///     Predictor, cpu::Rows, import,
    ///     schedule::{BatchSchedules, FewRows, Preset},
    /// };
    ///
    /// let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/zoo/churn");
    /// let forest = import::load(format!("{folder}/model.ubj").as_ref(), &Default::default())?;
    /// let one = Preset::TreebeardOneRow.schedule(&forest, false).few_rows(FewRows::Rows);
    /// let many = Preset::Xgboost.schedule(&forest, false);
    /// let schedules = BatchSchedules::new([(1, one), (1024, many)]).expect("two sizes");
    /// let predictor = Predictor::builder(&forest).schedules(schedules).threads(1).build()?;
    /// assert_eq!(predictor.plans().len(), 2);
    /// # Ok::<(), fangorn::Error>(())
    /// ```
    pub fn schedules(mut self, schedules: impl Into<Option<BatchSchedules>>) -> Self {
        self.schedules = schedules.into();
        self
    }

    /// Sets the number of worker threads. With 1, every prediction stays on the caller's thread. The default
    /// is the number of threads of the [pool](Self::pool), or of the current rayon pool if none is set.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// Sets the contract that sums keep. The default is [`Contract::Any`].
    pub fn sum(mut self, sum: Contract) -> Self {
        self.sum = sum;
        self
    }

    /// Sets the profile, which says how many rows reach each leaf. The directives
    /// `tileNodes(n, probability)`, `tileNodes(n, hybrid)`, `peelWalk(v, 90%)` and `sort(likely_leaf)` need
    /// it.
    ///
    /// ```
    /// use fangorn::{Predictor, cpu::Rows, forest::Profile, import, schedule::Schedule};
    ///
    /// let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/zoo/churn");
    /// let forest = import::load(format!("{folder}/model.ubj").as_ref(), &Default::default())?;
    /// let rows = vec![0.5f32; 3 * forest.features.len()]; // rows like those to come
    /// let rows = Rows::new(&rows, forest.features.len())?;
    /// let plain = Predictor::new(&forest)?;
    /// let mut profile = Profile::new(&forest);
    /// profile.count(&forest, &plain.leaf_slots(&rows)?)?;
    /// let schedule = Schedule::parse("tileNodes(8, probability)")?;
    /// let tiled = Predictor::builder(&forest).schedule(schedule).profile(&profile).build()?;
    /// assert_eq!(tiled.leaf_slots(&rows)?, plain.leaf_slots(&rows)?);
    /// # Ok::<(), fangorn::Error>(())
    /// ```
    pub fn profile(mut self, profile: impl Into<Option<&'f Profile>>) -> Self {
        self.profile = profile.into();
        self
    }

    /// Sets how much the predictor checks before it serves. The default is [`SelfCheck::Quick`].
    pub fn check(mut self, check: SelfCheck) -> Self {
        self.check = check;
        self
    }

    /// Sets which engines may be chosen. The default allows all.
    pub fn engines(mut self, engines: Engines) -> Self {
        self.engines = engines;
        self
    }

    /// Sets the pool whose threads run large batches. A batch that needs one thread only stays on the
    /// caller's thread. By default each call uses the current rayon pool.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use fangorn::{Predictor, cpu::Rows, import};
    ///
    /// let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/zoo/churn");
    /// let forest = import::load(format!("{folder}/model.ubj").as_ref(), &Default::default())?;
    /// let pool = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(2).build()?);
    /// let predictor = Predictor::builder(&forest).threads(2).pool(pool).build()?;
    /// let rows = vec![0.5f32; 1000 * forest.features.len()];
    /// assert_eq!(predictor.margins(&Rows::new(&rows, forest.features.len())?)?.len(), 1000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn pool(mut self, pool: Arc<rayon::ThreadPool>) -> Self {
        self.pool = Some(pool);
        self
    }

    /// Sets what explains rows, for [`Predictor::contributions`] and [`Predictor::interactions`]: a
    /// [`contributions::Explainer`](crate::contributions::Explainer) of the forest, or a
    /// [`contributions::Interventional`](crate::contributions::Interventional), which explains against a background.
    pub fn explainer(mut self, explainer: impl Into<RowExplainer>) -> Self {
        self.explainer = Some(explainer.into());
        self
    }

    /// Limits the predictor to `f32` rows, so that one set of nodes is enough.
    #[cfg(feature = "burn")]
    pub(crate) fn f32_rows(mut self) -> Self {
        self.types = RowTypes::Singles;
        self
    }

    /// Compiles the forest and runs its self-check. If the check finds a difference, plain walks serve
    /// instead and [`Predictor::warnings`] says so.
    ///
    /// # Errors
    /// The forest does not verify; the schedule's directives contradict each other; the layout or
    /// [`FixedPoint`](crate::sum::FixedPoint) sums can't hold the forest; the profile is of another forest;
    /// an environment variable that selects kernels or checks has an unknown value; the explainer is of a forest of
    /// another shape; or plain walks fail their check too, which is [`Error::SelfCheck`].
    pub fn build(self) -> Result<Predictor> {
        let strictness = Strictness::from_environment()?;
        self.build_checked_by(strictness, |predictor, check| self.first_difference(predictor, check))
    }

    fn build_checked_by(
        &self,
        strictness: Strictness,
        check: impl Fn(&Predictor, SelfCheck) -> Option<Difference>,
    ) -> Result<Predictor> {
        let predictor = self.compile()?;
        let Some(extent) = strictness.of(self.check) else { return Ok(predictor) };
        let Some(difference) = check(&predictor, extent) else { return Ok(predictor) };
        let wrong = |difference| Error::SelfCheck { target: "cpu".into(), difference: Box::new(difference) };
        if strictness == Strictness::Strict {
            return Err(wrong(difference));
        }
        let schedules = Some(Schedule::default().into());
        let plain = Self { schedules, profile: None, engines: Engines::PLAIN, ..self.clone() };
        let mut plain = plain.compile()?;
        if let Some(difference) = check(&plain, extent) {
            return Err(wrong(difference));
        }
        let warning = Warning::FellBack { target: "cpu".into(), difference };
        log::warn!("fangorn: {warning}");
        plain.warnings.push(warning);
        Ok(plain)
    }

    /// Returns the first difference from the reference interpreter.
    fn first_difference(&self, predictor: &Predictor, check: SelfCheck) -> Option<Difference> {
        let doubles = self.types == RowTypes::Both && self.forest.compare == CompareType::F64;
        let check = Check::new(self.forest, check);
        let mut ignored = |_, _| {};
        let found = predictor.difference::<f32>(&check, &mut ignored);
        found.or_else(|| doubles.then(|| predictor.difference::<f64>(&check, &mut ignored)).flatten())
    }

    fn compile(&self) -> Result<Predictor> {
        let forest = self.forest;
        forest.verify()?;
        let shape = [forest.outputs as usize, forest.features.len()];
        if let Some(found) = self.explainer.as_ref().map(RowExplainer::shape).filter(|found| *found != shape)
        {
            let [outputs, columns] = found;
            return Err(Error::Contributions(format!(
                "the explainer is of a forest with {outputs} outputs and {columns} features, this one has {} and {}; make \
                 the explainer of this forest",
                shape[0], shape[1]
            )));
        }
        let of_pool =
            || self.pool.as_ref().map_or_else(rayon::current_num_threads, |p| p.current_num_threads());
        let threads = self.threads.unwrap_or_else(of_pool).clamp(1, 1 << 16) as u32;
        let request = Request { threads, sum: self.sum, ..Request::cpu() };
        let program = |lowered: &LoweredForest| {
            let program = Program::of_verified(forest, lowered, threads, self.engines)?;
            Ok::<_, Error>(match self.types {
                RowTypes::Both => program.with_doubles(forest, lowered),
                RowTypes::Singles => program,
            })
        };
        let mut ordered = true;
        let mut programs = |schedule: &Schedule| {
            let lowered = lower_verified(forest, schedule, request, self.profile)?;
            ordered &= lowered.keeps_tree_order(threads);
            let large = program(&lowered)?;
            // A batch with too few rows to rank runs a program with the same loops on values.
            let small = large.wants_many_rows().then(|| {
                let unranked = lower_verified(forest, &schedule.unranked(), request, self.profile)?;
                program(&unranked)
            });
            Ok::<_, Error>(SchedulePrograms::new(large, small.transpose()?))
        };
        let schedules = match &self.schedules {
            Some(schedules) => schedules.clone(),
            None => Preset::Default.schedule(forest, false).into(),
        };
        let mut buckets = Vec::new();
        let mut last = None;
        for (rows, schedule) in schedules.buckets() {
            match last.replace(schedule) {
                // The bucket before has the same schedule, so its programs run these batches as well.
                Some(last) if last == schedule => {}
                _ => buckets.push((rows, programs(schedule)?)),
            }
        }
        let plans =
            Plans::new(buckets).ok_or_else(|| Error::Internal("schedules without a bucket".into()))?;
        Ok(Predictor {
            plans,
            sum: self.sum,
            summing: SumMethod::new(self.sum, forest, ordered)?,
            leaf_width: forest.leaf_width(),
            scale: forest.scale.0 as f32,
            transform: forest.transform,
            compare: forest.compare,
            used: forest.used_columns(),
            ids: forest.leaf_ids(),
            pool: self.pool.clone(),
            explainer: self.explainer.clone(),
            warnings: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        check::Finding,
        forest::{Predicate, Real, Side},
    };

    fn forest() -> Forest {
        stumps(0.0)
    }

    /// Stumps whose thresholds begin with this one.
    fn stumps(first: f64) -> Forest {
        let mut builder = Forest::builder(2, 1);
        for t in 0..20 {
            let mut tree = builder.tree(0);
            tree.split(t % 2, Predicate::Less { threshold: Real(first + f64::from(t)) }, Side::Left, 1, 2);
            tree.leaf(1, &[1.0]);
            tree.leaf(2, &[-0.5]);
        }
        builder.build().expect("stumps")
    }

    fn wrong() -> Difference {
        let what = Finding::Leaf { tree: 3, found: 1, expected: 0 };
        Difference { batch: 145, row: 64, values: vec![0.5, 1.0], what }
    }

    #[test]
    fn plain_walks_serve_where_the_fast_engine_is_wrong() {
        let forest = forest();
        let plain = |p: &Predictor| p.program().vector_name().is_empty() && p.plans().len() == 1;
        let check = |made: &Predictor, extent| {
            if plain(made) {
                Predictor::builder(&forest).first_difference(made, extent)
            } else {
                Some(wrong())
            }
        };
        let builder = Predictor::builder(&forest);
        let fast = builder.compile().expect("a predictor");
        if plain(&fast) {
            // This machine has nothing faster than plain walks.
            return;
        }
        let found = builder.build_checked_by(Strictness::FallBack, check).expect("plain walks");
        let warning = Warning::FellBack { target: "cpu".into(), difference: wrong() };
        assert_eq!(found.warnings(), std::slice::from_ref(&warning));
        let text = warning.to_string();
        assert!(
            text.contains("row 64 of 145: leaf slot 1 in tree 3") && text.contains("plain walks serve"),
            "{text}"
        );
        assert_eq!(
            found.predict(&[3.0f32, 2.5], 2).expect("a row"),
            fast.predict(&[3.0f32, 2.5], 2).expect("a row")
        );
        let refused =
            builder.build_checked_by(Strictness::Strict, check).expect_err("a difference is an error");
        assert!(refused.to_string().starts_with("self-check on cpu: row 64 of 145"), "{refused}");
        let unchecked = builder.build_checked_by(Strictness::Off, check);
        assert!(unchecked.expect("unchecked").warnings().is_empty());
        let unchecked = builder.check(SelfCheck::Off).build_checked_by(Strictness::Strict, check);
        assert!(unchecked.expect("unchecked").warnings().is_empty());
    }

    /// The check's batches have up to some hundred rows, which only the first of these plans serves.
    #[test]
    fn plans_for_large_batches_are_checked_too() {
        let forest = forest();
        let builder = Predictor::builder(&forest).threads(1);
        let mut predictor = builder.clone().compile().expect("a predictor");
        // Plain walks take longer than the other plan, so the batches between the two sizes go to that one.
        let (other, plain) = (stumps(1.0), Schedule::default());
        let wrong = Predictor::builder(&other).schedule(plain).threads(1).compile().expect("a predictor");
        let programs = |of: &Predictor| SchedulePrograms::new(of.plans.large().clone(), None);
        let right = programs(&predictor);
        predictor.plans = Plans::new(vec![(1, right.clone()), (4096, right.clone())]).expect("two sizes");
        assert_eq!(builder.first_difference(&predictor, SelfCheck::Quick), None);
        let from = predictor.plans.named()[1].rows.clone();
        assert!(*from.start() > 1);
        predictor.plans = Plans::new(vec![(1, right), (1 << 20, programs(&wrong))]).expect("two sizes");
        assert!(*predictor.plans.named()[1].rows.start() > 4096);
        assert!(builder.first_difference(&predictor, SelfCheck::Quick).is_some());
        assert!(predictor.run_check(&forest, SelfCheck::Quick, |_, _| ()).is_some());
    }

    #[test]
    fn nothing_serves_where_plain_walks_are_wrong_too() {
        let check = |_: &Predictor, _| Some(wrong());
        let built = Predictor::builder(&forest()).build_checked_by(Strictness::FallBack, check);
        assert!(matches!(built, Err(Error::SelfCheck { .. })));
    }
}
