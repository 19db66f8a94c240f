//! How functions beside the step read the parameters of a training: with adapters, and with averages in their place.

use crate::norms;
use crate::options::TrainerOptions;
use lessen_graph::{Graph, Trace};
use lessen_nn::optimizer::average_of;
use lessen_nn::{Adapter, Centred, Context, Held, Lora, NormKind, ParamSpec};
use std::collections::BTreeSet;

/// How functions read parameters.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reading {
    lora: Option<Lora>,
    /// The parameters that have an average.
    averaged: BTreeSet<String>,
    /// How they are held.
    pub held: Held,
    /// How layer norms are computed, and the parameters that are recentred for it.
    norm: (NormKind, Centred),
}

impl Reading {
    /// That of inference with parameters that are held so.
    pub fn of_inference(held: Held) -> Reading {
        Reading {
            held,
            ..Reading::default()
        }
    }

    /// That of a training of these parameters, of which it keeps some recentred.
    pub fn of(options: &TrainerOptions, params: &[ParamSpec], centred: Centred) -> Reading {
        let rule = options.update_rule();
        let trained = params
            .iter()
            .filter(|param| rule.trains(param))
            .map(|param| &param.name);
        Reading {
            averaged: if rule.ema.is_some() {
                trained.cloned().collect()
            } else {
                BTreeSet::new()
            },
            lora: rule.lora,
            held: Held::Wide,
            norm: (options.norm, centred),
        }
    }

    /// Computes layer norms in another way, for which these parameters are recentred.
    pub fn set_norm(&mut self, kind: NormKind, centred: Centred) {
        self.norm = (kind, centred);
    }

    /// The parameters that are recentred.
    pub fn centred(&self) -> &Centred {
        &self.norm.1
    }

    /// The graph of a function that computes with what training results in, with its norms converted.
    pub fn converted(&self, graph: Graph) -> Graph {
        let (kind, centred) = &self.norm;
        let states = centred.iter().map(|(name, axes)| (self.result_of(name), axes.clone()));
        norms::of_function(graph, *kind, &states.collect())
    }

    /// The context of a function that computes with the parameters as the step does.
    pub fn of_step<'g>(&self, cx: Context<'g>) -> Context<'g> {
        cx.with_lora(self.lora.as_ref())
    }

    /// The context of a function that computes with what training results in.
    pub fn of_results<'g>(&self, cx: Context<'g>) -> Context<'g> {
        self.of_step(cx).with_averages(&self.averaged).with_held(self.held)
    }

    /// The adapters, if there are any.
    pub fn lora(&self) -> Option<&Lora> {
        self.lora.as_ref()
    }

    /// Whether functions compute with an average of a parameter.
    pub fn averages(&self, param: &str) -> bool {
        self.averaged.contains(param)
    }

    /// The state that has what training results in of a parameter.
    pub fn result_of(&self, param: &str) -> String {
        match self.averaged.contains(param) {
            true => average_of(param),
            false => param.to_string(),
        }
    }

    /// The graph that gives parameters their averages and adds adapters to the weights of their layers; none where
    /// there are neither.
    pub fn finish(&self, params: &[ParamSpec]) -> Option<Graph> {
        let trace = Trace::new();
        let (own, results) = (
            Context::new(&trace, false),
            self.of_results(Context::new(&trace, false)),
        );
        let result = |param: &ParamSpec| match self.averaged.contains(&param.name) {
            true => results.param(&param.name, &param.shape, param.init),
            false => own.param(&param.name, &param.shape, param.init),
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
                let product = match lora.fan_in_fan_out {
                    true => a.transpose(0, 1).matmul(b.transpose(0, 1)),
                    false => b.matmul(a),
                };
                value = value + product * lora.scale();
            } else if !self.averaged.contains(&param.name) {
                continue;
            }
            trace.assign(own.param(&param.name, &param.shape, param.init), value);
        }
        drop((own, results));
        let graph = trace.finish();
        (!graph.assigns.is_empty()).then_some(graph)
    }
}
