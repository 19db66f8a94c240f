//! What functions beside the step read as parameters: with adapters, and with averages in place of trained values.

use crate::norms::{self, RecentredState};
use crate::options::TrainerOptions;
use lessen_graph::{Graph, Trace, Type};
use lessen_nn::names::average_of;
use lessen_nn::{Adapter, Centred, Cx, F32Storage, Lora, NormKind, ParamSpec, ParamStorage};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What functions read as the parameters of a model: adapters, averages, the storage of the parameters, and the norms
/// for which some of them are recentred.
#[derive(Clone, Debug)]
pub(crate) struct ParameterView {
    lora: Option<Lora>,
    /// The parameters that have an average.
    averaged: BTreeSet<String>,
    storage: Arc<dyn ParamStorage>,
    /// Norm conversion, and the parameters that are recentred for it.
    norm: (NormKind, Centred),
}

impl Default for ParameterView {
    /// Parameters as they are, in `f32`.
    fn default() -> ParameterView {
        ParameterView::of_inference(Arc::new(F32Storage))
    }
}

impl ParameterView {
    /// Parameters of inference, in this storage.
    pub fn of_inference(storage: Arc<dyn ParamStorage>) -> ParameterView {
        ParameterView {
            lora: None,
            averaged: BTreeSet::new(),
            storage,
            norm: (NormKind::default(), Centred::new()),
        }
    }

    /// Parameters of a training, which keeps some of them recentred.
    pub fn of_training(options: &TrainerOptions, params: &[ParamSpec], centred: Centred) -> ParameterView {
        let rule = options.update_rule();
        let trained = params.iter().filter(|param| rule.trains(param));
        let averaged = trained.filter(|_| rule.ema.is_some()).map(|param| param.name.clone());
        ParameterView {
            averaged: averaged.collect(),
            lora: rule.lora,
            norm: (options.norm, centred),
            ..ParameterView::default()
        }
    }

    /// Storage of parameters in states.
    pub fn storage(&self) -> &dyn ParamStorage {
        self.storage.as_ref()
    }

    /// Parameters that may be recentred: each has a single state.
    pub fn single_states(&self, params: &[ParamSpec]) -> Vec<ParamSpec> {
        let is_single = |param: &&ParamSpec| self.storage.states((*param).into()).len() == 1;
        params.iter().filter(is_single).cloned().collect()
    }

    /// States that are recentred: parameters, and their averages where they have some.
    pub fn recentred_states(&self, params: &[ParamSpec]) -> Vec<RecentredState<'_>> {
        let mut states = Vec::new();
        for param in params {
            let Some(axes) = self.centred().get(&param.name) else {
                continue;
            };
            for name in BTreeSet::from([param.name.clone(), self.result_of(&param.name)]) {
                let stored = self.storage.states(param.into()).into_iter().next();
                let ty = stored.map_or_else(|| Type::f32(&param.shape), |(_, ty)| ty);
                states.push(RecentredState { name, ty, axes });
            }
        }
        states
    }

    /// Sets the norm conversion, for which these parameters are recentred.
    pub fn set_norm(&mut self, kind: NormKind, centred: Centred) {
        self.norm = (kind, centred);
    }

    /// Parameters that are recentred.
    pub fn centred(&self) -> &Centred {
        &self.norm.1
    }

    /// Converts the norms of the graph of a function that reads the results of training.
    pub fn converted(&self, graph: Graph) -> Graph {
        let (kind, centred) = &self.norm;
        let states = centred.iter().map(|(name, axes)| (self.result_of(name), axes.clone()));
        norms::of_function(graph, *kind, &states.collect())
    }

    /// Cx of a function that reads parameters as the step does.
    pub fn of_step(&self, cx: Cx) -> Cx {
        cx.with_lora(self.lora.as_ref())
    }

    /// Cx of a function that reads the results of training.
    pub fn of_results(&self, cx: Cx) -> Cx {
        let cx = self.of_step(cx).with_averages(&self.averaged);
        cx.with_storage(self.storage.clone())
    }

    /// The adapters, if there are any.
    pub fn lora(&self) -> Option<&Lora> {
        self.lora.as_ref()
    }

    /// Whether functions compute with an average of a parameter.
    pub fn averages(&self, param: &str) -> bool {
        self.averaged.contains(param)
    }

    /// State with the result of training for a parameter: its average, or the parameter itself.
    pub fn result_of(&self, param: &str) -> String {
        if self.averages(param) {
            average_of(param)
        } else {
            param.to_string()
        }
    }

    /// Graph that assigns parameters their averages and adds adapters to the weights of their layers; none without
    /// averages and adapters.
    pub fn finish(&self, params: &[ParamSpec]) -> Option<Graph> {
        let trace = Trace::new();
        let (own, results) = (Cx::new(*trace, false), self.of_results(Cx::new(*trace, false)));
        let result = |param: &ParamSpec| {
            let cx = if self.averages(&param.name) { &results } else { &own };
            cx.param(&param.name, &param.shape, param.init)
        };
        let adapters = match self.lora {
            Some(_) => Adapter::of(params),
            None => Vec::new(),
        };
        for param in params {
            let mut value = result(param);
            if let (Some(lora), Some(adapter)) = (
                &self.lora,
                adapters.iter().find(|adapter| adapter.weight() == param.name),
            ) {
                let of = |name: String| params.iter().find(|param| param.name == name).map(result);
                let (Some(a), Some(b)) = (of(adapter.a()), of(adapter.b())) else {
                    continue;
                };
                let product = if lora.fan_in_fan_out {
                    a.transpose(0, 1).matmul(b.transpose(0, 1))
                } else {
                    b.matmul(a)
                };
                value = value + product * lora.scale();
            } else if !self.averaged.contains(&param.name) {
                continue;
            }
            trace.assign(own.param(&param.name, &param.shape, param.init), value);
        }
        let graph = trace.finish();
        (!graph.assigns.is_empty()).then_some(graph)
    }
}
