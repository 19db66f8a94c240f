//! `lessen experiment`: a grid of runs from a file, checked before the first one, and the page with what came out.

use crate::support::*;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const HEAD: &str = "title = \"Rates\"\nrecipe = \"adder\"\npage = \"pages/rates.md\"\n";

/// Settings under which a run takes a moment.
const SET: &str = "[set]\nmodel = { layers = 1, width = 16, heads = 2, ffn = 32 }\n\
                   train = { batch = 8, steps = 6, lr = 0.01, warmup = 2, eval_every = 2, checkpoint_every = 4 }\n";

/// Two variants at two rates.
const GRID: &str = "[[variant]]\nname = \"AdamW\"\n[[variant]]\nname = \"SGD\"\ntext = \"Without moments.\"\n\
                    optimizer.kind = \"sgd\"\n[[axis]]\nkey = \"train.lr\"\nvalues = [0.001, 0.1]\n";

const MEASURES: &str = "[[measure]]\nname = \"loss\"\nvalue = \"dev_loss\"\n\
                        [[measure]]\nvalue = \"loss\"\nat = 3\n[[measure]]\nvalue = \"dev_loss\"\nat = \"best\"\n\
                        [[measure]]\nvalue = \"peak_bytes\"\n";

const REST: &str = "[[paper]]\npoint = \"SGD, lr 0.1\"\nmeasure = \"loss\"\nvalue = 1.25\n\
                    [[claim]]\ntext = \"A tenth is too much.\"\nmeasure = \"loss\"\nbetter = \"SGD, lr 0.001\"\n\
                    than = \"SGD, lr 0.1\"\nby = 100\n\
                    [[claim]]\ntext = \"It learns.\"\nmeasure = \"loss\"\npoint = \"AdamW, lr 0.1\"\nat_most = 1000\n\
                    [[plot]]\nmeasure = \"loss\"\n[[plot]]\nmeasure = \"loss\"\nover = \"lr\"\nlog = \"x\"\n";

fn write(dir: &Path, text: &str) {
    fs::write(dir.join("rates.toml"), text).unwrap();
}

fn whole(seeds: &str) -> String {
    format!("{HEAD}seeds = {seeds}\n{SET}{GRID}{MEASURES}{REST}")
}

/// A mean of a usual size with as many places as two digits of its deviation need.
fn within(mean: f64, deviation: f64) -> String {
    let rounded: f64 = format!("{deviation:.1e}").parse().unwrap();
    let places = (1.0 - rounded.log10().floor()).max(0.0) as usize;
    format!("{mean:.places$} ± {deviation:.places$}")
}

/// The numbers of a key over the steps of a run.
fn course(run: &Path, key: &str) -> Vec<f64> {
    let text = fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter_map(|line| line.get(key)?.as_f64()).collect()
}

#[test]
fn a_grid_is_run_and_summed_up_on_a_page() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    write(dir, &whole("[1, 2]"));
    let found = json(dir, &["experiment", "rates.toml", "--json"]);
    let runs = found["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2 * 2 * 2);
    let mut losses = Vec::new();
    for run in runs.iter().filter(|run| run["point"] == "SGD, lr 0.1") {
        let folder = dir.join("runs/rates").join(run["folder"].as_str().unwrap());
        let (dev, train) = (course(&folder, "dev_loss"), course(&folder, "loss"));
        assert_eq!(run["measures"]["loss"].as_f64().unwrap(), dev[2]);
        assert_eq!(run["measures"]["loss after step 3"].as_f64().unwrap(), train[2]);
        let best = dev.iter().copied().fold(f64::INFINITY, f64::min);
        assert_eq!(run["measures"]["dev_loss, best"].as_f64().unwrap(), best);
        assert!(run["measures"]["peak_bytes"].as_u64().is_some() || run["measures"]["peak_bytes"].is_f64());
        losses.push(dev[2]);
    }
    let mean = losses.iter().sum::<f64>() / 2.0;
    let deviation = (losses.iter().map(|loss| (loss - mean).powi(2)).sum::<f64>()).sqrt();
    let table = found["table"].as_array().unwrap();
    let cell = &table.iter().find(|row| row["point"] == "SGD, lr 0.1").unwrap()["measures"]["loss"];
    assert!((cell["mean"].as_f64().unwrap() - mean).abs() < 1e-12 && cell["runs"] == 2);
    assert!((cell["deviation"].as_f64().unwrap() - deviation).abs() < 1e-12 && deviation > 0.0);
    let verdicts: Vec<&Value> = found["claims"]
        .as_array()
        .unwrap()
        .iter()
        .map(|claim| &claim["verdict"])
        .collect();
    assert_eq!(verdicts, ["not held", "held"]);

    let page = fs::read_to_string(dir.join("pages/rates.md")).unwrap();
    for part in [
        "# Rates\n",
        "```\nlessen experiment rates.toml\n```",
        "- Machine: ",
        "- Recipe `adder`; 4 points, seeds 1, 2, 8 runs in ",
        "`train.steps = 6`",
        "|  | loss | paper | loss after step 3 | dev_loss, best | peak_bytes |\n|---|---|---|---|---|---|\n",
        &format!("| SGD, lr 0.1 | {} (2) | 1.2500 | ", within(mean, deviation)),
        "| A tenth is too much. | loss: SGD, lr 0.001 ",
        "claimed: better by more than 100; deviation of 2 differences by seed ",
        " (seed by seed)",
        "A cell is the mean over the seeds 1, 2 ± ",
        "\n- **loss**: last `dev_loss`; lower is better\n",
        "\n- **dev_loss, best**: best `dev_loss`; lower is better\n",
        " | **not held** |\n",
        " | **held** |\n",
        "![loss over step](rates/1-loss-over-step.svg)\n",
        "- **SGD**: Without moments.\n",
    ] {
        assert!(page.contains(part), "{part} in {page}");
    }
    for (plot, lines) in [("1-loss-over-step.svg", 4), ("2-loss-over-lr.svg", 2)] {
        let svg = fs::read_to_string(dir.join("pages/rates").join(plot)).unwrap();
        assert!(svg.starts_with("<svg ") && !svg.contains("NaN"), "{svg}");
        assert_eq!(svg.matches("<path fill=\"none\" stroke=").count(), lines, "{plot}");
    }

    // Again, nothing is left to do.
    let output = lessen(dir, &["experiment", "rates.toml", "--json"]);
    let message = stderr(&output);
    assert!(
        output.status.success() && message.contains("8 runs in runs/rates, 0 left to do"),
        "{message}"
    );
    assert_eq!(serde_json::from_slice::<Value>(&output.stdout).unwrap(), found);
    // A run that was broken goes on, others stay as they are.
    let broken = dir.join("runs/rates/SGD-lr-0.1/seed-2");
    for name in ["report.json", "report.md"] {
        fs::remove_file(broken.join(name)).unwrap();
    }
    fs::remove_dir_all(broken.join("checkpoints/step-6")).unwrap();
    let output = lessen(dir, &["experiment", "rates.toml", "--json"]);
    let message = stderr(&output);
    assert!(
        message.contains("1 left to do") && message.contains("resuming after step 4 from "),
        "{message}"
    );
    assert_eq!(
        serde_json::from_slice::<Value>(&output.stdout).unwrap()["table"],
        found["table"]
    );
    // With other settings it is another experiment.
    write(dir, &whole("[1, 2]").replace("warmup = 2", "warmup = 1"));
    assert_eq!(
        refuse(dir, &["experiment", "rates.toml"]),
        "error: the run in runs/rates/AdamW-lr-0.001/seed-1 has train.warmup = 2, and the experiment says 1; remove that \
         folder, or name another for the experiment with --out"
    );
}

/// A page without its numbers, and without what it says of machine and version.
fn without_numbers(page: &str) -> String {
    let is_digit = |c: char| c.is_ascii_digit() || c == '.';
    let mut text = String::new();
    for line in page.lines().filter(|line| !line.starts_with("- Machine: ")) {
        let words = line
            .split(' ')
            .map(|word| if word.starts_with(is_digit) { "0" } else { word });
        text += &format!("{}\n", words.collect::<Vec<_>>().join(" "));
    }
    text
}

#[test]
fn the_example_of_the_documentation_runs_and_gives_its_page() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/experiments.md");
    let text = fs::read_to_string(&guide).unwrap();
    let (_, example) = text.split_once("## An example\n").unwrap();
    let (_, file) = example.split_once("```toml\n").unwrap();
    let (file, rest) = file.split_once("```\n").unwrap();
    let (_, expected) = rest.split_once("````markdown\n").unwrap();
    let (expected, _) = expected.split_once("````\n").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    write(dir, file);
    succeed(dir, &["experiment", "rates.toml"]);
    let page = fs::read_to_string(dir.join("rates.md")).unwrap();
    if std::env::var_os("LESSEN_BLESS").is_some() {
        fs::write(&guide, text.replace(expected, &page)).unwrap();
        return;
    }
    assert_eq!(without_numbers(&page), without_numbers(expected));
    assert!(dir.join("rates/1-Loss-on-held-out-sums.svg").is_file());
}

#[test]
fn without_measures_the_scores_the_loss_the_time_and_the_peak_are_measured() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let claim =
        "[[claim]]\ntext = \"It learns.\"\nmeasure = \"dev_accuracy\"\npoint = \"AdamW, lr 0.1\"\nat_least = 0\n";
    write(dir, &format!("{HEAD}{SET}{GRID}{claim}"));
    let found = json(dir, &["experiment", "rates.toml", "--json"]);
    let measures = found["runs"][0]["measures"].as_object().unwrap();
    let names: Vec<&str> = measures.keys().map(String::as_str).collect();
    assert_eq!(names, ["dev_accuracy", "dev_loss", "step_ms", "peak_bytes, MiB"]);
    assert!(measures.values().all(Value::is_f64), "{measures:?}");
    let page = fs::read_to_string(dir.join("pages/rates.md")).unwrap();
    assert!(
        page.contains("|  | dev_accuracy | dev_loss | step_ms | peak_bytes, MiB |\n"),
        "{page}"
    );
    assert!(
        page.contains("- **dev_accuracy**: last `dev_accuracy`; higher is better\n"),
        "{page}"
    );
    // Names are checked before the first run here, too.
    write(
        dir,
        &format!("{HEAD}{SET}{GRID}{claim}").replace("dev_accuracy", "dev_f1"),
    );
    let sentence = refuse(dir, &["experiment", "rates.toml", "--out", "other"]);
    let expected = "there is no measure called 'dev_f1'; there are dev_accuracy; dev_loss; step_ms; peak_bytes, MiB";
    assert!(sentence.contains(expected) && !dir.join("other").exists(), "{sentence}");
}

#[test]
fn a_mistake_anywhere_is_told_before_the_first_run() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let refused = |text: &str| {
        write(dir, text);
        let sentence = refuse(dir, &["experiment", "rates.toml"]);
        assert!(!dir.join("runs").exists() && !dir.join("pages").exists(), "{sentence}");
        sentence
    };
    let sound = whole("[1, 2]");
    let with = |from: &str, to: &str| {
        assert!(sound.contains(from), "{from}");
        refused(&sound.replacen(from, to, 1))
    };
    assert_eq!(
        with("page = ", "pgae = "),
        "error: rates.toml line 3: there is no key 'pgae'; did you mean page?"
    );
    assert_eq!(
        with("value = \"dev_loss\"", "vlaue = \"dev_loss\""),
        "error: rates.toml line 17: measure.value is missing; write one, such as value = \"dev_loss\""
    );
    assert_eq!(
        with("at = 3", "ta = 3"),
        "error: rates.toml line 22: there is no key 'measure.ta'; did you mean measure.at?"
    );
    assert_eq!(
        with("steps = 6", "stps = 6"),
        "error: rates.toml line 7: there is no key 'train.stps'; did you mean train.steps?"
    );
    let empty = format!("{HEAD}{SET}{MEASURES}");
    assert_eq!(
        refused(&empty),
        "error: rates.toml line 1: the grid is empty; write at least one [[variant]] with a name or one [[axis]] with key \
         and values, and a seed"
    );
    assert_eq!(
        with("value = \"peak_bytes\"", "value = \"peek_bytes\""),
        "error: the run 'AdamW, lr 0.001', seed 1: the measure peek_bytes has the value 'peek_bytes', which the recipe \
         adder does not record; did you mean peak_bytes?"
    );
    assert_eq!(
        with("optimizer.kind = \"sgd\"", "model.heads = 3"),
        "error: the run 'SGD, lr 0.001', seed 1: rates.toml line 13: model.heads = 3 does not divide model.width = 16; \
         choose a divisor"
    );
    assert!(
        with("than = \"SGD, lr 0.1\"", "than = \"SGD, lr 1\"")
            .contains("there is no point called 'SGD, lr 1'; there are ")
    );
    assert!(
        with("[[plot]]\nmeasure = \"loss\"", "[[plot]]\nmeasure = \"los\"")
            .contains("there is no measure called 'los'")
    );
    assert!(with("over = \"lr\"", "over = \"rate\"").contains("plot.over must be one of lr, step, not rate"));
    assert!(with("recipe = \"adder\"", "recipe = \"ader\"").contains("there is no recipe and no file called"));
    assert_eq!(
        with("at = 3", "at = 7"),
        "error: the run 'AdamW, lr 0.001', seed 1: the measure loss after step 7 is after step 7, but the run has 6 steps; \
         choose a step that it has"
    );
    assert_eq!(
        with("value = \"peak_bytes\"", "value = \"peak_bytes\"\ndigits = -1"),
        "error: rates.toml line 26: measure.digits must be a whole number from 0 to 12"
    );
    assert!(with("at = 3", "at = 3\nscale = 0").contains("measure.scale must not be 0"));
    assert_eq!(
        with("better = \"SGD, lr 0.001\"", "better = \"SGD, lr 0.1\""),
        "error: rates.toml line 32: the claim compares 'SGD, lr 0.1' with itself; name another point in better or than"
    );
    let twice = "[[paper]]\npoint = \"SGD, lr 0.1\"\nmeasure = \"loss\"\nvalue = 2\n[[claim]]";
    assert!(
        with("[[claim]]", twice).contains("there is another number of the paper for loss at 'SGD, lr 0.1'; keep one")
    );
    fs::write(dir.join("file"), "").unwrap();
    assert_eq!(
        with("pages/rates.md", "file/rates.md"),
        "error: the page file/rates.md cannot be written; name another place with page or --page"
    );
    assert!(
        with("pages/rates.md", "rates").contains("its plots would lie in a folder of the same name; call it rates.md")
    );
    assert!(with("pages/rates.md", ".").contains("is a folder; name a file, such as results.md"));
    let memory = with("optimizer.kind = \"sgd\"", "train.batch = 100000000");
    assert!(
        memory.starts_with("error: the run 'SGD, lr 0.001', seed 1: the run needs "),
        "{memory}"
    );
    write(dir, &sound);
    let same = refuse(dir, &["experiment", "rates.toml", "--set", "train.lr=1"]);
    assert!(
        same.contains("have the same settings; let them differ, and leave out flags"),
        "{same}"
    );
    assert!(refuse(dir, &["experiment", "none.toml"]).contains("the experiment none.toml cannot be read"));
}

#[test]
fn a_run_that_diverges_is_a_result() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let grid =
        "[[variant]]\nname = \"sound\"\n[[variant]]\nname = \"wild\"\noptimizer.kind = \"sgd\"\ntrain.lr = 1e38\n";
    write(dir, &format!("{HEAD}{SET}{grid}{MEASURES}"));
    let output = lessen(dir, &["experiment", "rates.toml"]);
    let message = stderr(&output);
    assert!(output.status.success() && message.contains("warning: "), "{message}");
    let page = fs::read_to_string(dir.join("pages/rates.md")).unwrap();
    assert!(
        page.contains("| wild | 1 diverged | 1 diverged | 1 diverged | 1 diverged |\n"),
        "{page}"
    );
    assert!(dir.join("runs/rates/wild/seed-1/diverged.txt").is_file());
    let again = lessen(dir, &["experiment", "rates.toml"]);
    assert!(stderr(&again).contains("0 left to do"), "{}", stderr(&again));
}

#[test]
fn runs_may_have_phases_statistics_and_other_lengths() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    fs::write(dir.join("text.txt"), "abcabcabc\n".repeat(60)).unwrap();
    let head = HEAD.replace("\"adder\"", "\"shakespeare\"");
    let set = SET.replacen("[set]\n", "[set]\ndata = { path = \"text.txt\", max_length = 16 }\n", 1);
    let grid = "[[variant]]\nname = \"plain\"\nrecord = { every = 2, what = \"logits\" }\n[[variant]]\nname = \"two\"\n\
                record = { every = 2, what = \"logits\" }\n[[variant.phase]]\nname = \"short\"\n\
                [[variant.phase]]\nname = \"deep\"\nmodel.layers = 2\n";
    let measures = |more: &str| {
        format!(
            "[[measure]]\nname = \"half\"\nvalue = \"dev_loss\"\nlength = \"0.5x\"\n\
             [[measure]]\nname = \"spread\"\nvalue = \"stat/logits/std\"\n{more}"
        )
    };
    write(dir, &format!("{head}{set}{grid}{}", measures("")));
    let printed = lessen(dir, &["experiment", "rates.toml", "--json"]);
    assert!(printed.status.success(), "{}", stderr(&printed));
    let found: Value = serde_json::from_slice(&printed.stdout).unwrap();
    let row = |point: usize| &found["runs"][point]["measures"];
    for point in [0, 1] {
        assert!(
            row(point)["half"].as_f64().unwrap() > 0.0 && row(point)["spread"].as_f64().unwrap() > 0.0,
            "{found}"
        );
    }
    let eval = json(dir, &["eval", "runs/rates/two/seed-1", "--length", "8", "--json"]);
    assert_eq!(eval["lengths"][0]["dev_loss"], row(1)["half"]);
    assert_eq!(course(&dir.join("runs/rates/two/seed-1"), "loss").len(), 12);

    let of_phase = "[[measure]]\nvalue = \"dev_loss\"\nphase = \"short\"\n";
    write(dir, &format!("{head}{set}{grid}{}", measures(of_phase)));
    let sentence = refuse(dir, &["experiment", "rates.toml"]);
    assert!(
        sentence.contains("the measure dev_loss of phase short is of the phase 'short', but "),
        "{sentence}"
    );
    let longer = measures("").replace("0.5x", "2x");
    write(dir, &format!("{head}{set}{grid}{longer}"));
    let sentence = refuse(dir, &["experiment", "rates.toml"]);
    assert!(
        sentence.contains("the measure half needs positions for 32 tokens"),
        "{sentence}"
    );
}

#[test]
fn an_optional_measure_may_be_missing_but_not_of_all_runs() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    fs::write(dir.join("text.txt"), "abcabcabc\n".repeat(60)).unwrap();
    let head = HEAD.replace("\"adder\"", "\"shakespeare\"");
    let set = SET.replacen("[set]\n", "[set]\ndata = { path = \"text.txt\", max_length = 16 }\n", 1);
    let grid = "[[variant]]\nname = \"learned\"\n[[variant]]\nname = \"none\"\nmodel.position = \"none\"\n\
                model.ffn = 24\n[[variant]]\nname = \"two\"\n[[variant.phase]]\nname = \"first\"\n\
                [[variant.phase]]\nname = \"second\"\n";
    let measures = "[[measure]]\nname = \"long\"\nvalue = \"dev_loss\"\nlength = \"2x\"\noptional = true\n\
                    [[measure]]\nname = \"first\"\nvalue = \"dev_loss\"\nphase = \"first\"\noptional = true\n";
    write(dir, &format!("{head}{set}{grid}{measures}"));
    let found = json(dir, &["experiment", "rates.toml", "--json"]);
    let has = |measure: &str| [0, 1, 2].map(|point: usize| found["runs"][point]["measures"][measure].is_f64());
    assert_eq!(has("long"), [false, true, false], "{found}");
    assert_eq!(has("first"), [false, false, true], "{found}");
    let page = fs::read_to_string(dir.join("pages/rates.md")).unwrap();
    assert!(page.contains("| learned | – | – |"), "{page}");

    for (wrong, expected) in [
        (
            "value = \"dev_accuracy\"\noptional = true",
            "has the value 'dev_accuracy', which",
        ),
        (
            "value = \"dev_loss\"\noptional = 1",
            "measure.optional must be true or false",
        ),
    ] {
        write(dir, &format!("{head}{set}{grid}{measures}[[measure]]\n{wrong}\n"));
        let sentence = refuse(dir, &["experiment", "rates.toml"]);
        assert!(sentence.contains(expected), "{sentence}");
    }
}

#[test]
fn ctrl_c_stops_it_and_the_same_command_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let grid = "[[variant]]\nname = \"one\"\n[[variant]]\nname = \"two\"\nmodel.layers = 2\n";
    let steps = SET.replace("steps = 6", "steps = 600").replace(
        "eval_every = 2, checkpoint_every = 4",
        "eval_every = 100, checkpoint_every = 100",
    );
    write(dir, &format!("{HEAD}{steps}{grid}{MEASURES}"));
    let child = command(dir, &["experiment", "rates.toml"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while !dir.join("runs/rates/two/seed-1/checkpoints/step-100").exists() {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "no checkpoint after a minute"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
    let interrupted = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(interrupted.success());
    let output = child.wait_with_output().unwrap();
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(130), "{message}");
    assert!(
        message.ends_with("'two', seed 1 was stopped; the same command goes on with it\n"),
        "{message}"
    );
    assert!(!dir.join("pages").exists());
    let output = lessen(dir, &["experiment", "rates.toml"]);
    let message = stderr(&output);
    assert!(output.status.success() && message.contains("1 left to do"), "{message}");
    assert!(message.contains("resuming after step "), "{message}");
    assert!(dir.join("pages/rates.md").is_file());
}
