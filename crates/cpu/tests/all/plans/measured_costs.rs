//! Plans by measured costs: the planner takes the way that is cheaper by them, and they change neither the plans by
//! rates nor a bit of a result.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lessen_base::load::ProcessorTime;
use lessen_compile::{
    CostModel, CostSource, KernelKind, Limits, Lowering, Measured, MeasuredMemory, Operands, Options, Plan, Rates,
    RowBlocks, RowGroup, Target, compile, dump_memory, floor_bytes,
};
use lessen_cpu::{CpuBackend, CpuTarget};
use lessen_device::{Backend, Host};
use lessen_graph::{DType, Graph, Op, Phase, Trace, Type};

const CPU: CpuTarget = CpuTarget { threads: 2 };

/// Seconds of the slow operation, and of a product, which is too slow to be run twice.
const SECONDS: f64 = 1.0;
const PRODUCT: f64 = 10.0;

/// A CPU on which all operations take no time but products and the operation of this name.
struct Slow(&'static str);

impl Target for Slow {
    fn limits(&self) -> Limits {
        Limits {
            slice_rows: usize::MAX,
            ..CPU.limits()
        }
    }

    fn supports(&self, op: &dyn Op) -> bool {
        CPU.supports(op)
    }

    fn lower(&self, op: &dyn Op, inputs: &[Type], outputs: &[Type]) -> Arc<Lowering> {
        Arc::new(Lowering {
            cut: 0,
            adds_slices: false,
            ..Lowering::clone(&CPU.lower(op, inputs, outputs))
        })
    }

    fn blocks(&self, group: &RowGroup) -> RowBlocks {
        CPU.blocks(group)
    }

    fn costs(&self) -> &dyn CostModel {
        self
    }
}

impl CostModel for Slow {
    fn rates(&self) -> Rates {
        CPU.costs().rates()
    }

    fn measured(&self, op: &dyn Op, operands: &Operands<'_>) -> Option<Measured> {
        let seconds = match op.name() {
            "matmul" => PRODUCT,
            name if name == self.0 => SECONDS,
            _ => 0.0,
        };
        Some(match CPU.lower(op, operands.inputs, operands.outputs).kind {
            KernelKind::Rows { .. } => Measured::InCache(seconds),
            _ => Measured::Whole(seconds),
        })
    }

    fn measured_memory(&self) -> Option<MeasuredMemory> {
        Some(MeasuredMemory {
            rate: 1e12,
            step_overhead_seconds: 0.0,
        })
    }
}

/// States of [`training`].
const STATES: [(&str, [usize; 2]); 5] = [
    ("v", [64, 128]),
    ("p", [128, 64]),
    ("w", [64, 128]),
    ("q", [128, 64]),
    ("u", [64, 512]),
];

/// Training of two layers of the same sizes, one with GELU, one with SiLU, and of a wide product after them, where most
/// memory is needed. Backward reads both the input and the result of each activation function.
fn training() -> Graph {
    let trace = Trace::new();
    let x = trace.input("x", DType::F32, &[2048, 64]);
    let weights = STATES.map(|(name, shape)| trace.state(name, DType::F32, &shape));
    let [v, p, w, q, u] = weights;
    let y = x.matmul(v).gelu().matmul(p).matmul(w).silu().matmul(q).matmul(u);
    let loss = (y * y).mean();
    trace.output("loss", loss);
    let gradients = loss.grad(&weights);
    trace.in_phase(Phase::Update, || {
        for (weight, gradient) in weights.into_iter().zip(gradients) {
            trace.assign(weight, weight - gradient * 0.1);
        }
    });
    trace.finish()
}

fn options(cost: CostSource) -> Options {
    Options {
        cost,
        ..Options::default()
    }
}

/// How often a plan runs an operation.
fn count(plan: &Plan, name: &str) -> usize {
    plan.graph().nodes.iter().filter(|node| node.op.name() == name).count()
}

#[test]
fn the_planner_recomputes_what_is_cheap_by_measured_costs() {
    let graph = training();
    let measured = options(CostSource::Measured);
    let floor = floor_bytes(&graph, &measured, &Slow("gelu")).unwrap();
    let most = compile(&graph, &options(CostSource::Analytic), &CPU)
        .unwrap()
        .peak_bytes();
    let mut differ = 0;
    for part in 0..8 {
        let budget = floor + (most - floor) * part / 7;
        let options = Options {
            budget: Some(budget),
            ..measured.clone()
        };
        let plan = |slow| {
            let plan = compile(&graph, &options, &Slow(slow)).unwrap();
            let seconds = SECONDS * count(&plan, slow) as f64 + PRODUCT * count(&plan, "matmul") as f64;
            let estimated = plan.estimated_seconds();
            assert!(
                (estimated - seconds).abs() < 0.1,
                "{budget}: {estimated} s instead of {seconds} s"
            );
            plan
        };
        let (gelu, silu) = (plan("gelu"), plan("silu"));
        // Both fit the budget, so that neither is dearer than the other by its own costs.
        assert!(count(&gelu, "gelu") <= count(&silu, "gelu"), "{budget}");
        assert!(count(&silu, "silu") <= count(&gelu, "silu"), "{budget}");
        differ += usize::from(count(&gelu, "gelu") < count(&silu, "gelu"));
    }
    assert!(differ > 0);
}

#[test]
fn plans_by_rates_do_not_know_what_was_measured() {
    let graph = training();
    let analytic = options(CostSource::Analytic);
    let floor = floor_bytes(&graph, &analytic, &CPU).unwrap();
    for budget in [None, Some(floor)] {
        let options = Options {
            budget,
            ..analytic.clone()
        };
        let plans = [
            compile(&graph, &options, &CPU).unwrap(),
            compile(&graph, &options, &Slow("gelu")).unwrap(),
        ];
        let [rates, other] = plans
            .each_ref()
            .map(|plan| (dump_memory(plan), plan.estimated_seconds()));
        assert_eq!(rates, other);
    }
    // Nothing is measured of a device: its rates stand in.
    let [rates, none] = [CostSource::Analytic, CostSource::Measured]
        .map(|cost| compile(&graph, &options(cost), &CPU).unwrap())
        .map(|plan| (dump_memory(&plan), plan.estimated_seconds()));
    assert_eq!(rates, none);
}

/// The weights after two steps of a plan.
fn trained(cpu: &mut CpuBackend, plan: Plan) -> Vec<u32> {
    let model = cpu.add_model();
    let program = cpu.load(model, plan).unwrap();
    let numbers = |n: usize| (0..n).map(|i| (i % 17) as f32 / 17.0 - 0.4).collect::<Vec<_>>();
    for (name, shape) in STATES {
        cpu.allocate(model, name, &Type::f32(&shape)).unwrap();
        cpu.upload(model, name, Host::F32(&numbers(shape[0] * shape[1])))
            .unwrap();
    }
    for _ in 0..2 {
        cpu.run(program, &[("x", Host::F32(&numbers(2048 * 64)))]).unwrap();
    }
    let mut bits = Vec::new();
    for (name, _) in STATES {
        let mut keep = |host: Host<'_>| {
            if let Host::F32(numbers) = host {
                bits.extend(numbers.iter().map(|x| x.to_bits()));
            }
        };
        cpu.download(model, name, &mut keep).unwrap();
    }
    cpu.remove_model(model);
    bits
}

/// A device of two threads that keeps times in a folder, on a machine that is busy as `processor_time` says.
fn measuring_in(folder: &Path, processor_time: fn() -> Option<ProcessorTime>) -> CpuBackend {
    let cpu = CpuBackend::new(2).unwrap().with_times_in(folder.to_path_buf());
    cpu.with_processor_time(processor_time)
}

/// Multiplies the times in a folder.
fn scale_times(folder: &Path, factor: f64) {
    let file = fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
    let mut times: serde_json::Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    for time in times["operations"].as_object_mut().unwrap().values_mut() {
        for number in time.as_array_mut().unwrap() {
            *number = serde_json::json!(number.as_f64().unwrap() * factor);
        }
    }
    fs::write(&file, times.to_string()).unwrap();
}

#[test]
fn a_device_measures_once_and_no_bit_changes() {
    let folder = tempfile::tempdir().unwrap();
    let graph = training();
    let new = || measuring_in(folder.path(), || None);
    let mut cpu = new();
    let device: &mut dyn Backend = &mut cpu;
    let analytic = device.compile(&graph, &options(CostSource::Analytic)).unwrap();
    let first = device.measure_graphs([&graph], &Options::default()).unwrap();
    assert!(first.measured > 8, "{first:?}");
    assert_eq!(device.memory().used.arena, 0, "measuring leaves no arena");
    let measured = device.compile(&graph, &options(CostSource::Measured)).unwrap();
    let seconds = measured.estimated_step_seconds();
    assert!(seconds.iter().all(|s| s.is_finite() && *s >= 0.0), "{seconds:?}");
    assert!(measured.estimated_seconds() > 0.0 && measured.estimated_seconds() != analytic.estimated_seconds());
    // Plans by rates are unchanged.
    let again = device.compile(&graph, &options(CostSource::Analytic)).unwrap();
    assert_eq!(dump_memory(&again), dump_memory(&analytic));
    assert_eq!(again.estimated_seconds(), analytic.estimated_seconds());
    assert_eq!(trained(&mut cpu, measured.clone()), trained(&mut cpu, analytic));

    // The next process reads what this one has measured; times that are much too short are none of a busy machine.
    scale_times(folder.path(), 1e-6);
    let mut next = new();
    let next: &mut dyn Backend = &mut next;
    let second = next.measure_graphs([&graph], &Options::default()).unwrap();
    assert_eq!((second.measured, second.left), (0, first.left));
    let same = next.compile(&graph, &options(CostSource::Measured)).unwrap();
    let (next, this) = (same.estimated_seconds(), measured.estimated_seconds());
    assert!(next > 0.0 && next < this, "{next} s after {this} s");
    assert_eq!(
        fs::read_dir(folder.path()).unwrap().count(),
        1,
        "one file, and none beside it"
    );
}

#[test]
fn times_of_a_busy_machine_are_measured_again() {
    let folder = tempfile::tempdir().unwrap();
    let graph = training();
    let measure = || {
        let mut cpu = measuring_in(folder.path(), || None);
        let device: &mut dyn Backend = &mut cpu;
        let measuring = device.measure_graphs([&graph], &Options::default()).unwrap();
        let plan = device.compile(&graph, &options(CostSource::Measured)).unwrap();
        (measuring.measured, plan.estimated_seconds())
    };
    let (_, seconds) = measure();
    scale_times(folder.path(), 1e5);
    let (again, after) = measure();
    assert!(again > 0, "operations are measured again");
    assert!(after < 1e3 * seconds, "{after} s after {seconds} s");
}

/// The time of a machine of four processors; between two calls, others take `OTHERS` hundredths of them.
fn time_with_others<const OTHERS: u64>() -> Option<ProcessorTime> {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let calls = CALLS.fetch_add(1, Ordering::Relaxed);
    Some(ProcessorTime {
        processors: 4,
        all: 1000 * calls,
        busy: 10 * OTHERS * calls,
        own: 0,
    })
}

#[test]
fn times_that_other_processes_disturbed_are_not_kept() {
    let graph = training();
    // Two threads have two of four processors left where others take up to a half.
    for (processor_time, is_disturbed) in [
        (time_with_others::<0> as fn() -> Option<ProcessorTime>, false),
        (time_with_others::<49>, false),
        (time_with_others::<60>, true),
        (time_with_others::<100>, true),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut cpu = measuring_in(folder.path(), processor_time);
        let device: &mut dyn Backend = &mut cpu;
        let measuring = device.measure_graphs([&graph], &Options::default()).unwrap();
        assert!(measuring.measured > 0);
        assert_eq!(measuring.is_disturbed, is_disturbed);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), usize::from(!is_disturbed));
    }
}

#[test]
fn measuring_needs_no_folder_that_can_be_written_to() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let mut cpu = CpuBackend::new(1).unwrap().with_times_in(file.join("below"));
    let device: &mut dyn Backend = &mut cpu;
    let measuring = device.measure_graphs([&training()], &Options::default()).unwrap();
    assert!(measuring.measured > 0);
    let plan = device.compile(&training(), &options(CostSource::Measured)).unwrap();
    assert!(plan.estimated_seconds() > 0.0);
}
