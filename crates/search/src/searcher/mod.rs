//! A search, one epoch after another (algorithm 2).

mod epoch;
mod state;

pub use epoch::{Epoch, SearchStep};

use crate::cost::{CostTable, Costs};
use crate::derive::derive;
use crate::parts::parted;
use crate::settings::Settings;
use crate::space::{Choice, Space};
use crate::steps::{LOGITS, Steps};
use crate::supernet::parameters;
use crate::variables::Variables;
use lessen_base::{Error, Result};
use lessen_compile::Plan;
use lessen_data::images::ImageSource;
use lessen_device::SharedDevice;
use lessen_nn::ParamSpec;
use lessen_nn::models::vision::MixedArchitecture;
use lessen_train::{Function, FunctionOptions, Session};
use std::sync::Arc;

/// A search: a supernet, and the logits of its choices. Both have their own optimizers.
///
/// All random numbers depend on the seed and the number of the epoch alone, so a search that is resumed from a state
/// ends with the bits of one that was not interrupted.
pub struct Searcher<'a> {
    space: Space,
    variables: Variables,
    table: CostTable,
    settings: Settings,
    source: &'a dyn ImageSource,
    /// The images on which weights and architecture are updated.
    parts: [Vec<usize>; 2],
    params: Vec<ParamSpec>,
    session: Session,
    weights: Function,
    architecture: Function,
    done: usize,
}

impl<'a> Searcher<'a> {
    /// Prepares a search: the costs of all choices are told, graphs are compiled and weights drawn.
    ///
    /// # Errors
    /// Settings or a space out of range, a space with a single network, bits that the hardware does not have, a limit
    /// that no network meets (with the least cost), too few images, a budget below the floor.
    pub fn new(
        device: impl Into<SharedDevice>,
        space: Space,
        costs: &Costs<'_>,
        source: &'a dyn ImageSource,
        settings: Settings,
    ) -> Result<Searcher<'a>> {
        settings.check()?;
        space.check()?;
        let variables = Variables::of(&space);
        if variables.is_empty() {
            return Err(Error::user(
                "the space has a single network, and there is nothing to search; give some choice several possibilities",
            ));
        }
        let table = CostTable::new(&space, costs)?;
        table.check_limit(settings.limit, settings.cost)?;
        let parts = parted(source, &settings)?;
        let params = parameters(&space, source)?;
        let mut session = Session::zeros(device, params.clone())?;
        session.set_precision(settings.precision);
        let options = FunctionOptions {
            training: true,
            budget: settings.budget,
            tightest: settings.tightest,
            ..FunctionOptions::default()
        };
        let steps = Steps {
            space: &space,
            variables: &variables,
            settings: &settings,
            shape: source.shape(),
            classes: source.classes(),
        };
        let weights = session.function_with(options, |cx| steps.add_weights(cx, &params))?;
        let architecture = session.function_with(options, |cx| steps.add_architecture(cx, &params))?;
        session.draw(|_| true, settings.seed)?;
        Ok(Searcher {
            space,
            variables,
            table,
            settings,
            source,
            parts,
            params,
            session,
            weights,
            architecture,
            done: 0,
        })
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The space.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// The choices that are open.
    pub fn variables(&self) -> &Variables {
        &self.variables
    }

    /// The costs of all choices.
    pub fn table(&self) -> &CostTable {
        &self.table
    }

    /// Epochs done.
    pub fn done(&self) -> usize {
        self.done
    }

    /// Weights of the supernet.
    pub fn params(&self) -> &[ParamSpec] {
        &self.params
    }

    /// Images on which weights and architecture are updated.
    pub fn images(&self) -> [usize; 2] {
        [self.parts[0].len(), self.parts[1].len()]
    }

    /// Steps of an epoch.
    pub fn steps(&self) -> usize {
        self.parts[0].len() / self.settings.batch
    }

    /// The session with all states.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The plans of all functions: `weights` and `architecture`, an update of each.
    ///
    /// # Errors
    /// None, as long as the search has its functions.
    pub fn plans(&self) -> Result<Vec<(String, Arc<Plan>)>> {
        let named = [("weights", self.weights), ("architecture", self.architecture)];
        let plan = |(name, function): (&str, Function)| Ok((name.to_string(), self.session.plan(function)?));
        named.into_iter().map(plan).collect()
    }

    /// Bytes of the arrays that a step makes on the host.
    pub fn array_bytes(&self) -> usize {
        let image = 4 * self.source.size();
        let order = size_of::<usize>() * (self.parts[0].len() + self.parts[1].len());
        2 * self.settings.batch * (image + 4 * self.source.classes()) + 2 * image + order
    }

    /// Allocates the memory of runs; without this call, the first run does.
    ///
    /// # Errors
    /// Memory that the device does not have.
    pub fn reserve(&mut self) -> Result<()> {
        self.session.reserve()
    }

    /// The logits of the choices.
    ///
    /// # Errors
    /// A device that fails.
    pub fn logits(&self) -> Result<Vec<f64>> {
        Ok(self.elements(LOGITS)?.into_iter().map(f64::from).collect())
    }

    /// The choice of each block that the search ends with; see [`derive()`].
    ///
    /// # Errors
    /// A device that fails.
    pub fn choices(&self) -> Result<Vec<Choice>> {
        derive(&self.space, &self.logits()?, &self.table, self.settings.limit)
    }

    /// The network of these choices.
    ///
    /// # Errors
    /// A device that fails.
    pub fn derived(&self) -> Result<MixedArchitecture> {
        Ok(self.space.architecture(&self.choices()?))
    }
}
