//! The memory of whole runs: what is announced before the first step, what is counted, and what is resident.

use crate::support::*;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

const MIB: u64 = 1 << 20;

/// Checks the account of a session: what was allocated is what was planned within 1 MiB, and never more, and no more
/// than was planned in all was resident.
fn check_session(what: &str, report: &Value) {
    let part = |name: &str| report["account_bytes"][name].as_u64().unwrap();
    let unallocated = part("code") + part("allocator");
    assert!(part("code") > MIB && part("allocator") > MIB / 2, "{what}: {report}");
    let account = &report["session_bytes"];
    let bytes = |key: &str| account[key].as_u64().unwrap();
    let (planned, measured) = (bytes("planned"), bytes("measured"));
    assert!(
        measured + unallocated <= planned && planned - unallocated - measured <= MIB,
        "{what}: {measured} bytes allocated, {planned} planned, {unallocated} of them beside allocations"
    );
    if let Some(resident) = account["resident"].as_u64() {
        assert!(
            resident <= planned,
            "{what}: {resident} bytes resident, {planned} planned"
        );
    }
}

/// Checks that the peak of a run is the greatest of its sessions, part by part.
fn check_peak(what: &str, run: &Value, sessions: &[&Value]) {
    for key in ["planned", "measured", "resident"] {
        let of_sessions = sessions.iter().map(|report| report["session_bytes"][key].as_u64());
        assert_eq!(
            run["peak_bytes"][key].as_u64(),
            of_sessions.max().unwrap(),
            "{what}: {key}"
        );
    }
    let planned = run["peak_bytes"]["planned"].as_u64().unwrap();
    assert!(run["peak_bytes"]["plans"].as_u64().unwrap() < planned, "{what}");
}

/// Checks the account and the peak of a run in one session.
fn check(what: &str, report: &Value) {
    check_session(what, report);
    check_peak(what, report, &[report]);
}

/// Settings of a classifier with some MiB of forward values.
const MIDDLE: [&str; 12] = [
    "--set",
    "model.width=128",
    "--set",
    "model.layers=3",
    "--set",
    "model.ffn=512",
    "--set",
    "data.max_length=48",
    "--set",
    "train.eval_every=5",
    "--set",
    "train.checkpoint_every=4",
];

/// Checks that a plan announces what the run announced, up to the flags and the folder of its process.
fn check_plan(what: &str, plan: &Value, report: &Value) {
    let of_plan = plan["peak_bytes"].as_u64().unwrap();
    let of_run = report["peak_bytes"]["planned"].as_u64().unwrap();
    assert!(
        of_plan.abs_diff(of_run) <= 128 << 10,
        "{what}: {of_plan} bytes in the plan, {of_run} in the run"
    );
    assert_eq!(plan["plans_bytes"], report["peak_bytes"]["plans"], "{what}");
    let parts = plan["account_bytes"].as_object().unwrap();
    let sum: u64 = parts.values().map(|part| part.as_u64().unwrap()).sum();
    assert_eq!(sum, of_plan, "{what}");
}

/// Writes labelled texts of 1 to 40 characters.
fn texts(dir: &Path) -> PathBuf {
    let folder = dir.join("texts");
    fs::create_dir_all(&folder).unwrap();
    let line = |i: usize| format!("{}\t{}\n", "ab c".repeat(1 + i * i % 10), i % 2);
    fs::write(folder.join("train.txt"), (0..400).map(line).collect::<String>()).unwrap();
    fs::write(folder.join("dev.txt"), (0..90).map(line).collect::<String>()).unwrap();
    folder
}

#[test]
fn a_run_takes_the_memory_that_it_announces() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let saving = [
        "--set",
        "train.checkpoint_every=4",
        "--set",
        "train.eval_every=5",
        "--json",
    ];
    let args = [&tiny_adder(&["--steps", "12", "--out", "sums"])[..], &saving].concat();
    let report = json(dir, &args);
    check("sums", &report);
    let plan = [&["plan", "adder", "--set", "train.steps=12"], TINY_ADDER, &saving].concat();
    check_plan("sums", &json(dir, &plan), &report);
    let events = fs::read_dir(dir.join("sums"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut events = events.filter(|path| text(path).contains("tfevents"));
    let events = String::from_utf8_lossy(&fs::read(events.next().unwrap()).unwrap()).into_owned();
    for tag in ["memory/planned_mib", "memory/measured_mib"] {
        // At the first step, in the two evaluations, and in the evaluation of the last step.
        assert_eq!(events.matches(tag).count(), 4, "{tag}");
    }

    let data = texts(dir);
    for kind in ["bert", "encoder"] {
        let recipe = classifier(dir, kind, "");
        let more = [&MIDDLE[..], &["--set", "train.steps=30", "--json"]].concat();
        let report = json(dir, &[&train_on(&recipe, &data, &more)[..], &["--out", kind]].concat());
        check(kind, &report);
        let plan = [&["plan", text(&recipe), "--data", text(&data)], &more[..]].concat();
        check_plan(kind, &json(dir, &plan), &report);
        let more = ["train", "--resume", "--out", kind, "--steps", "40", "--json"];
        let resumed = json(dir, &more);
        check_session(&format!("{kind}, resumed"), &resumed);
        check_peak(&format!("{kind}, resumed"), &resumed, &[&report, &resumed]);
    }
}

#[test]
fn updates_in_the_next_step_take_the_memory_that_is_announced() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (data, recipe) = (texts(dir), classifier(dir, "encoder", ""));
    for placement in ["forward-fused", "planned"] {
        let placed = format!("optimizer.placement={placement}");
        let late = ["--set", &placed, "--set", "train.steps=20", "--json"];
        let more = [&MIDDLE[..], &late].concat();
        let plan = json(
            dir,
            &[&["plan", text(&recipe), "--data", text(&data)], &more[..]].concat(),
        );
        assert_eq!(plan["update_placement"], placement);
        let placements = plan["placements"].as_object().unwrap();
        let is_late = |name: &str| placements[name] == "forward-fused";
        assert!(placements.len() > 10);
        assert!(placement == "planned" || placements.keys().all(|name| is_late(name)));
        let floor = format!("{}B", plan["floor_bytes"].as_u64().unwrap());
        for (out, budget) in [("free", &[][..]), ("floor", &["--budget", &floor])] {
            let out = format!("{placement}-{out}");
            let report = json(
                dir,
                &[&train_on(&recipe, &data, &more)[..], budget, &["--out", &out]].concat(),
            );
            check(&out, &report);
            if budget.is_empty() {
                check_plan(&out, &plan, &report);
            }
        }
    }
}

#[test]
fn a_budget_binds_the_whole_process() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (data, recipe) = (texts(dir), classifier(dir, "bert", ""));
    let more = [&MIDDLE[..], &["--set", "train.batch=32", "--json"]].concat();
    let args = train_on(&recipe, &data, &[&more[..], &["--steps", "8"]].concat());
    let run = |budget: u64, out: &str| {
        let budget = format!("{budget}B");
        let report = json(dir, &[&args[..], &["--budget", &budget, "--out", out]].concat());
        check(out, &report);
        report
    };
    let free = json(dir, &[&args[..], &["--out", "free"]].concat());
    let needed = free["peak_bytes"]["planned"].as_u64().unwrap();

    // Too small a budget is refused with the smallest one, which is enough.
    let sentence = refuse(dir, &[&args[..], &["--budget", "1MiB", "--out", "none"]].concat());
    assert!(
        sentence.contains("the budget of 1.0 MiB is below the floor of ") && sentence.contains("arena "),
        "{sentence}"
    );
    assert!(!dir.join("none").exists());
    let bytes = sentence.split_once(" bytes)").unwrap().0;
    let floor: u64 = bytes.rsplit_once('(').unwrap().1.parse().unwrap();
    assert!(floor + 2 * MIB < needed, "{floor} of {needed}");
    let weights = |out: &str| fs::read(dir.join(out).join("model/model.safetensors")).unwrap();
    for (budget, out) in [(floor, "floor"), (floor.midpoint(needed), "middle")] {
        let report = run(budget, out);
        assert!(report["peak_bytes"]["measured"].as_u64().unwrap() <= budget, "{report}");
        assert!(report["peak_bytes"]["planned"].as_u64().unwrap() <= budget, "{report}");
        assert!(
            report["peak_bytes"]["resident"]
                .as_u64()
                .is_none_or(|resident| resident <= budget),
            "{report}"
        );
        assert!(weights(out) == weights("free"), "{out}");
    }
    let plan = [
        &["plan", text(&recipe), "--data", text(&data), "--set", "train.steps=8"],
        &more[..],
    ]
    .concat();
    let plan = json(dir, &plan);
    assert!(
        plan["floor_bytes"].as_u64().unwrap().abs_diff(floor) <= 128 << 10,
        "{plan}"
    );
}

#[test]
fn flags_that_do_not_change_a_run_do_not_change_its_memory() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let plan = [&["plan", "adder"], TINY_ADDER].concat();
    let peak = |report: &Value| report["peak_bytes"].as_u64().unwrap();
    let usual = json(dir, &[&plan[..], &["--json"]].concat());
    for flags in [
        &["--quiet"][..],
        &["--html", "a page with a long name.html"],
        &["--sweep"],
        &["--batches", "4,16"],
        &["--sweep", "--batches", "8"],
    ] {
        let own = json(dir, &[&plan[..], flags, &["--json"]].concat());
        assert_eq!(peak(&own), peak(&usual), "{flags:?}");
        assert_eq!(own["floor_bytes"], usual["floor_bytes"], "{flags:?}");
        assert_eq!(own["estimated_step_ms"], usual["estimated_step_ms"], "{flags:?}");
    }
    let trained = |out: &str, flags: &[&str]| {
        let report = json(
            dir,
            &tiny_adder(&[&["--steps", "2", "--json", "--out", out], flags].concat()),
        );
        report["session_bytes"]["planned"].as_u64().unwrap()
    };
    let usual = trained("a", &[]);
    assert_eq!(trained("b", &["--quiet"]), usual);
    assert_eq!(trained("a folder with a long name/in another one", &[]), usual);
}

#[test]
fn tables_say_the_costs_that_they_go_by() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let plan = |flags: &[&str]| {
        let mut command = command(dir, &[&["plan", "adder"], TINY_ADDER].concat());
        // `command` asks for analytic costs wherever it sees one of these flags.
        let output = command
            .args(flags)
            .env("XDG_CACHE_HOME", dir.join("cache"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let printed = plan(&["--sweep", "--batches", "2,4"]);
    for line in [
        " by analytic costs\n",
        "\nbudgets from the floor to none, steps by measured costs\n",
        "\nbatch sizes, steps by analytic costs\n",
    ] {
        assert!(printed.contains(line), "{printed}");
    }
    let object: Value = serde_json::from_str(&plan(&["--sweep", "--batches", "2", "--json"])).unwrap();
    for (key, cost) in [
        ("cost", "analytic"),
        ("sweep_cost", "measured"),
        ("batches_cost", "analytic"),
    ] {
        assert_eq!(object[key], cost, "{key}");
    }
    let object: Value = serde_json::from_str(&plan(&["--batches", "2", "--budget", "1GiB", "--json"])).unwrap();
    assert_eq!(
        (&object["cost"], &object["batches_cost"]),
        (&"measured".into(), &"measured".into())
    );
}

#[test]
fn a_budget_is_a_size_a_share_or_the_limit() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let budget = |flags: &[&str]| {
        let plan = json(
            dir,
            &[&["plan", "adder"], TINY_ADDER, flags, &["--cost", "analytic", "--json"]].concat(),
        );
        plan["budget_bytes"].as_u64().unwrap()
    };
    for (text, bytes) in [
        ("1G", 1 << 30),
        ("512M", 512 << 20),
        ("1GiB", 1 << 30),
        ("1.5GB", 1_500_000_000),
    ] {
        assert_eq!(budget(&["--budget", text]), bytes, "{text}");
        assert_eq!(budget(&["--set", &format!("run.budget={text}")]), bytes, "{text}");
    }
    #[cfg(target_os = "linux")]
    {
        let (half, whole) = (budget(&["--budget", "50%"]), budget(&["--set", "run.budget=100%"]));
        assert!(half > 0 && whole.abs_diff(2 * half) <= 1, "{half} of {whole}");
        let limit = budget(&["--budget", "auto"]);
        assert!(limit > 0 && limit <= whole, "{limit} of {whole}");
    }
    let sentence = refuse(dir, &["plan", "adder", "--budget", "120%"]);
    assert_eq!(
        sentence,
        "error: '120%' is no share of the memory; write a number above 0 and at most 100, such as 80%"
    );
}

#[test]
fn runs_that_share_a_process_take_no_more_than_planned() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let experiment = "title = \"Memory\"\nrecipe = \"adder\"\npage = \"page.md\"\nseeds = [1, 2, 3]\n\
                      [set]\nmodel = { layers = 1, width = 64, heads = 4, ffn = 128 }\n\
                      train = { batch = 64, steps = 6, eval_every = 3, warmup = 2 }\n\
                      [[axis]]\nkey = \"model.ffn\"\nvalues = [256, 64]\n\
                      [[measure]]\nname = \"loss\"\nvalue = \"dev_loss\"\n";
    fs::write(dir.join("memory.toml"), experiment).unwrap();
    succeed(dir, &["experiment", "memory.toml", "--out", "runs"]);
    let mut found = 0;
    for variant in fs::read_dir(dir.join("runs"))
        .unwrap()
        .flatten()
        .filter(|entry| entry.path().is_dir())
    {
        for run in fs::read_dir(variant.path()).unwrap().flatten() {
            let report = fs::read_to_string(run.path().join("report.json")).unwrap();
            check(text(&run.path()), &serde_json::from_str(&report).unwrap());
            found += 1;
        }
    }
    assert_eq!(found, 6);
}
