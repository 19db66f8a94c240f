//! Compilation of a graph to a plan: the list of passes, and the choice of a plan within the budget.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Instant;

use lessen_base::{Error, Result};
use lessen_graph::ops::{FakeQuantize, StopGradient};
use lessen_graph::{Begun, Graph, Op, ValueId, verify};

use crate::bytes;
use crate::memo::Memo;
use crate::memory::{self, Alternatives, BlockedGraph, Selection};
use crate::options::{Options, Policy, Precision};
use crate::passes::remat::Forward;
use crate::passes::{self, Packed, Recomputation, Recompute, StorageFormat, bits, remat};
use crate::plan::Plan;
use crate::plan_graph::plan_graph;
use crate::target::Target;

/// Compiles a graph into a plan for a device.
///
/// # Errors
/// A malformed graph, or one with an operation whose answers do not fit its types; arrays that no machine can hold; a
/// budget below the floor, which is named.
pub fn compile(graph: &Graph, options: &Options, target: &dyn Target) -> Result<Plan> {
    let start = Instant::now();
    let target: &dyn Target = &Memo::new(target);
    verify(graph)?;
    let simple = simplify(graph, options, target)?;
    let budget = options.budget.unwrap_or(usize::MAX);
    let results = bytes::of_results(graph);
    bytes::check_peak(results)?;
    let for_others = options
        .budget
        .map_or(usize::MAX, |budget| budget.saturating_sub(results));
    let variants = variants(simple, target);
    let found = within(&variants, for_others, options, target);
    let found = found.or_else(|floor| match exchanges(&variants) {
        true => within(&variants, for_others, &waiting_at_once(options), target),
        false => Err(floor),
    });
    // A plan that takes nothing but its results may exceed the budget, too.
    let found = match found.map_err(|floor| floor.saturating_add(results)) {
        Ok(plan) if plan.peak_bytes() > budget => Err(plan.peak_bytes()),
        found => found,
    };
    let mut plan = found.map_err(|floor| match bytes::check_peak(floor) {
        Ok(()) => Error::user(format!(
            "the budget of {budget} bytes is below the floor of {floor} bytes; allow at least that, or take a smaller \
             batch"
        )),
        Err(error) => error,
    })?;
    bytes::check_peak(plan.peak_bytes())?;
    graph.check_answers()?;
    plan.compile_time = start.elapsed();
    Ok(plan)
}

/// The least peak of all plans: the floor of every budget.
///
/// # Errors
/// A malformed graph; arrays that no machine can hold.
pub fn floor_bytes(graph: &Graph, options: &Options, target: &dyn Target) -> Result<usize> {
    let target: &dyn Target = &Memo::new(target);
    verify(graph)?;
    let simple = simplify(graph, options, target)?;
    let floor = match within(&variants(simple, target), 0, &waiting_at_once(options), target) {
        Ok(plan) => plan.peak_bytes(),
        Err(floor) => floor.saturating_add(bytes::of_results(graph)),
    };
    bytes::check_peak(floor)?;
    Ok(floor)
}

/// The same options for plans that wait for messages at once.
fn waiting_at_once(options: &Options) -> Options {
    Options {
        waits_at_once: true,
        ..options.clone()
    }
}

/// Whether a graph exchanges messages with other ranks.
fn exchanges(variants: &[WithBits]) -> bool {
    let simple = variants.first().map(|variant| &variant.graph);
    simple.is_some_and(|graph| graph.nodes.iter().any(|node| node.op.is::<Begun>()))
}

/// The plan of a graph without any pass. Tests compare choices with it.
#[doc(hidden)]
pub fn plan_as_it_is(graph: &Graph, options: &Options, target: &dyn Target) -> Plan {
    plan_graph(graph.clone(), options, &Memo::new(target))
}

/// A graph whose whole backward phase runs in slices, where that saves memory. Tests compare it with the graph as it
/// is.
#[doc(hidden)]
pub fn in_slices(graph: &Graph, target: &dyn Target) -> Option<Graph> {
    passes::by_slices(graph, &BTreeSet::from([0]), &Memo::new(target))
}

/// The graphs of plans that keep everything: as it is, with bits, and in slices. They hold all operations of any plan.
pub(crate) fn planned_graphs(graph: &Graph, options: &Options, target: &dyn Target) -> Vec<Graph> {
    let target: &dyn Target = &Memo::new(target);
    let Ok(simple) = simplify(graph, options, target) else {
        return Vec::new();
    };
    let variants = variants(simple, target);
    let plans = variants
        .iter()
        .map(|variant| Variant::of(variant).plan(selection(Vec::new()), options, target));
    let graphs = plans.flat_map(|plan| {
        let in_slices = passes::by_slices(&plan.graph, &BTreeSet::from([0]), target);
        std::iter::once(plan.graph).chain(in_slices)
    });
    graphs.collect()
}

/// Runs the passes that decide nothing about memory.
///
/// # Errors
/// An operation whose answers do not fit its types; arrays that no machine can hold.
fn simplify(graph: &Graph, options: &Options, target: &dyn Target) -> Result<Graph> {
    let takes_codes = matches!(options.precision, Precision::Int8 | Precision::Int4);
    // What only the derivative knows is gone, and levels of products are codes.
    let is_lowered = |op: &dyn Op| op.is::<StopGradient>() || (takes_codes && op.is::<FakeQuantize>());
    let keeps = |op: &dyn Op| target.supports(op) && !is_lowered(op);
    let graph = checked(lessen_rewrite::lower(graph, &keeps));
    let graph = match options.precision {
        Precision::F32 => graph,
        Precision::Bf16 => checked(passes::mixed(&graph, target)),
        Precision::Int8 | Precision::Int4 => checked(passes::integers(&graph)),
    };
    let graph = checked(passes::fill_words(&graph, target));
    let graph = checked(lessen_rewrite::without_dead_code(graph));
    let graph = checked(lessen_rewrite::write_codes(&graph));
    let graph = checked(lessen_rewrite::fold_constants(&graph));
    let graph = checked(lessen_rewrite::eliminate_common_subexpressions(&graph));
    let graph = checked(passes::read_narrow(&graph, target));
    let graph = checked(lessen_rewrite::without_dead_code(graph));
    let graph = checked(passes::sparsify(&graph, target));
    let graph = checked(passes::carry(&graph, options.carrier.as_ref())?);
    let graph = checked(passes::materialize(&graph, target));
    graph.check_answers()?;
    bytes::check_arrays(&graph)?;
    Ok(graph)
}

/// A plan within the budget, or the least peak of all plans that were tried.
type Found = std::result::Result<Plan, usize>;

/// A graph, and the forward values that backward reads as bits where it does not recompute them.
struct WithBits {
    graph: Graph,
    bits: Vec<Packed>,
}

/// A graph that is planned in several ways.
struct Variant<'a> {
    forward: Forward<'a>,
    bits: &'a [Packed],
}

/// A simplified graph as it is and, where that differs, with bits: first where bits lower the bytes that are kept, then
/// also where they only save recomputation, which takes memory at the peak.
fn variants(simple: Graph, target: &dyn Target) -> Vec<WithBits> {
    let mut with_bits: Vec<WithBits> = Vec::new();
    if remat::trains(&simple) {
        let forward = Forward::new(&simple);
        for even in [false, true] {
            let with_predicates = bits::hoist_by(&forward, remat::SMALLEST, even);
            let (graph, bits) = match with_predicates {
                Some(hoisted) => {
                    let graph = checked(hoisted.graph);
                    let bits = bits::packable(&Forward::new(&graph), &hoisted.freed, target);
                    (Some(graph), bits)
                }
                None => (None, bits::packable(&forward, &HashMap::new(), target)),
            };
            if bits.len() > with_bits.last().map_or(0, |last| last.bits.len()) {
                let graph = graph.unwrap_or_else(|| simple.clone());
                with_bits.push(WithBits { graph, bits });
            }
        }
    }
    let plain = WithBits {
        graph: simple,
        bits: Vec::new(),
    };
    std::iter::once(plain).chain(with_bits).collect()
}

/// The best plan of a graph's variants within the budget.
fn within(variants: &[WithBits], budget: usize, options: &Options, target: &dyn Target) -> Found {
    let variants: Vec<Variant<'_>> = variants.iter().map(Variant::of).collect();
    if options.policy == Policy::Knapsack
        && let Some(blocked) = variants[0].blocked(options, target)
    {
        let plan = |_, chosen: Selection<'_>| variants[0].plan(chosen, options, target);
        return memory::within(&[blocked.for_knapsack()], budget, plan);
    }
    if options.policy != Policy::Planner {
        let blocked = variants[0].blocked(options, target);
        let plan = variants[0].by_policy(options.policy, blocked.as_ref(), options, target);
        let bytes = plan.working_bytes();
        return if bytes <= budget { Ok(plan) } else { Err(bytes) };
    }
    let with_errors = levels(options);
    let blocked = with_errors
        .iter()
        .flat_map(|options| variants.iter().map(|variant| variant.blocked(options, target)));
    let blocked: Option<Vec<BlockedGraph>> = blocked.collect();
    let plan = |i: usize, chosen: Selection<'_>| variants[i % variants.len()].plan(chosen, options, target);
    match (subsets(&variants, blocked.as_deref(), target), &blocked) {
        (Some(alternatives), _) => memory::within_all(&alternatives, budget, plan).map(|plan| Plan {
            // Every set was planned.
            least_seconds: (budget < usize::MAX).then(|| plan.seconds - plan.waiting_seconds()),
            ..plan
        }),
        (None, Some(blocked)) => {
            let fixed = |policy| variants[0].by_policy(policy, blocked.first(), options, target);
            let mut found = memory::within(blocked, budget, plan);
            found = better(found, fixed(Policy::EveryBlock), budget);
            // Each policy keeps more than the one before.
            for policy in [Policy::RowWise, Policy::Tempo, Policy::KeepAll] {
                let plan = fixed(policy);
                let leaves_room = budget < usize::MAX && plan.working_bytes() <= budget;
                found = better(found, plan, budget);
                if !leaves_room {
                    break;
                }
            }
            let bounds = blocked.iter().map(|blocked| blocked.least_seconds(budget));
            let least_seconds = (budget < usize::MAX).then(|| bounds.fold(f64::INFINITY, f64::min));
            found.map(|plan| Plan { least_seconds, ..plan })
        }
        (None, None) => {
            let nested = variants
                .iter()
                .map(|variant| Alternatives::of_nested(&variant.forward, variant.bits));
            memory::within_all(&nested.collect::<Vec<_>>(), budget, plan)
        }
    }
}

/// The options and, where they allow rounding, the same without rounding. More ways for each block do not always give a
/// better plan of the whole graph, as the figures of samples are off by some percent.
fn levels(options: &Options) -> Vec<Options> {
    let rounds_nothing = options.allowed_error.min(StorageFormat::Bf16.error() / 2.0);
    let without = Options {
        allowed_error: rounds_nothing,
        ..options.clone()
    };
    if rounds_nothing < options.allowed_error {
        vec![without, options.clone()]
    } else {
        vec![without]
    }
}

/// The plan that was found, or the one of a fixed policy if that is no slower and, without a budget, smaller.
fn better(found: Found, fixed: Plan, budget: usize) -> Found {
    let bytes = fixed.working_bytes();
    match found {
        Ok(plan) => {
            let is_better = budget < usize::MAX || bytes < plan.working_bytes();
            let takes_fixed = bytes <= budget && fixed.seconds <= plan.seconds && is_better;
            Ok(if takes_fixed { fixed } else { plan })
        }
        Err(_) if bytes <= budget => Ok(fixed),
        Err(floor) => Err(floor.min(bytes)),
    }
}

/// All ways of each variant, if they are few.
fn subsets<'a>(
    variants: &[Variant<'_>],
    blocked: Option<&'a [BlockedGraph]>,
    target: &dyn Target,
) -> Option<Vec<Alternatives<'a>>> {
    let alternatives = variants.iter().enumerate().map(|(i, Variant { forward, bits })| {
        let blocked = blocked.map(|blocked| &blocked[i]);
        remat::trains(forward.graph)
            .then(|| Alternatives::of_subsets(forward, bits, blocked, target))
            .flatten()
    });
    let alternatives: Vec<Alternatives> = alternatives.collect::<Option<_>>()?;
    memory::are_few(&alternatives).then_some(alternatives)
}

impl<'a> Variant<'a> {
    fn of(with_bits: &'a WithBits) -> Variant<'a> {
        Variant {
            forward: Forward::new(&with_bits.graph),
            bits: &with_bits.bits,
        }
    }

    fn blocked(&self, options: &Options, target: &dyn Target) -> Option<BlockedGraph> {
        remat::trains(self.forward.graph)
            .then(|| BlockedGraph::of(&self.forward, self.bits, options, target))
            .flatten()
    }

    /// The plan of a fixed policy. A graph without blocks counts as one block.
    fn by_policy(
        &self,
        policy: Policy,
        blocked: Option<&BlockedGraph>,
        options: &Options,
        target: &dyn Target,
    ) -> Plan {
        let chosen = |recomputed| self.plan(selection(recomputed), options, target);
        let by_blocks = blocked.and_then(|blocked| blocked.of_policy(policy));
        match (by_blocks, policy) {
            (Some(selection), _) => self.plan(selection, options, target),
            (None, Policy::KeepAll | Policy::InvertAll | Policy::Knapsack) => chosen(Vec::new()),
            (None, Policy::Tempo) => chosen(remat::tempo_values(&self.forward)),
            (None, Policy::Planner | Policy::RowWise) => chosen(remat::free(&self.forward)),
            (None, Policy::EveryBlock | Policy::SquareRoot) => {
                chosen([remat::free(&self.forward), remat::priced(&self.forward, &[])].concat())
            }
        }
    }

    fn plan(&self, chosen: Selection<'_>, options: &Options, target: &dyn Target) -> Plan {
        let Selection {
            recomputed,
            inverted,
            rounded,
            mut recomputation,
        } = chosen;
        let values: HashSet<ValueId> = recomputation.values.iter().copied().collect();
        let is_kept = |bits: &&Packed| !values.contains(&bits.value);
        let packed: Vec<Packed> = self.bits.iter().filter(is_kept).cloned().collect();
        let stores_all =
            recomputation.values.is_empty() && recomputation.inverted.is_empty() && recomputation.rounded.is_empty();
        let keeps_all = stores_all && recomputation.sliced.is_empty();
        let graph = if keeps_all && packed.is_empty() {
            self.forward.graph.clone()
        } else {
            recomputation.bits = packed.iter().map(|packed| packed.value).collect();
            let graph = checked(passes::recompute_by_stages(&self.forward, &recomputation));
            checked(lessen_rewrite::without_dead_code(graph))
        };
        let in_slices = passes::by_slices(&graph, &recomputation.sliced_stages(), target).map(checked);
        let sliced = in_slices.as_ref().map_or(0, |_| recomputation.sliced.len());
        let graph = in_slices.unwrap_or(graph);
        Plan {
            sliced,
            recomputed,
            inverted,
            rounded,
            packed,
            ..plan_graph(graph, options, target)
        }
    }
}

/// A selection that only recomputes values.
fn selection(recomputed: Vec<Recompute>) -> Selection<'static> {
    let values = recomputed.iter().map(|choice| choice.value).collect();
    Selection {
        recomputed,
        inverted: Vec::new(),
        rounded: Default::default(),
        recomputation: Recomputation {
            values,
            ..Recomputation::default()
        },
    }
}

/// A graph that a pass returned; verified in debug builds.
fn checked(graph: Graph) -> Graph {
    debug_assert!(verify(&graph) == Ok(()) || graph.check_answers().is_err());
    graph
}
