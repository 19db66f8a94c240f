//! How often claims get which verdict where it is known what is true: the page `docs/results/verdicts.md`.

use super::claim::{Claim, Judged, Verdict, judge};
use super::measure::Measure;
use super::reader::Reader;
use super::summary::{BySeed, Summary};
use lessen_base::SplitMix64;
use lessen_task::recipe::document::Document;
use std::f64::consts::TAU;

const SEED: u64 = 1;
/// Claims of each cell.
const CLAIMS: usize = 10_000;

/// Runs whose numbers have the deviation 1.
#[derive(Clone, Copy)]
struct Truth {
    seeds: u64,
    /// The difference of the means of two points.
    effect: f64,
    /// The part of the variance that runs with the same seed share.
    shared: f64,
    /// Claims of a page.
    claims: usize,
}

impl Truth {
    /// The claims of a page, not judged yet, and the numbers of each one's points.
    fn page(self, (claim, measure): (&Claim, &Measure), random: &mut SplitMix64) -> (Vec<Judged>, Vec<[BySeed; 2]>) {
        let mut normal = || (-2.0 * (1.0 - random.unit()).ln()).sqrt() * (TAU * random.unit()).cos();
        let mut points = || {
            let (mut own, mut other) = (BySeed::new(), BySeed::new());
            for seed in 0..self.seeds {
                let common = self.shared.sqrt() * normal();
                let mut run = || common + (1.0 - self.shared).sqrt() * normal();
                own.push(((seed, 0), self.effect + run()));
                other.push(((seed, 0), run()));
            }
            [own, other]
        };
        let all: Vec<[BySeed; 2]> = (0..self.claims).map(|_| points()).collect();
        let judged = all.iter().map(|[own, other]| {
            claim.measured(measure, |name| if name == "own" { own.clone() } else { other.clone() })
        });
        (judged.collect(), all)
    }
}

/// How many claims of [`CLAIMS`], and pages with them, have which verdicts.
#[derive(Default)]
struct Counts {
    held: usize,
    not_held: usize,
    /// Pages with a claim that is decided.
    pages: usize,
    /// First claims of pages whose difference is larger than the pooled deviation of both points.
    beyond_deviation: usize,
}

fn counts(truth: Truth) -> Counts {
    let text = "[[measure]]\nvalue = \"dev_accuracy\"\n[[claim]]\ntext = \"It is.\"\nmeasure = \"dev_accuracy\"\n\
                better = \"own\"\nthan = \"other\"\n";
    let document = Document::parse(text, "claim.toml", None).unwrap();
    let mut reader = Reader::new(&document);
    let measure = Measure::read(reader.tables("measure").unwrap().remove(0)).unwrap();
    let claim = Claim::read(reader.tables("claim").unwrap().remove(0)).unwrap();
    let mut random = SplitMix64::keyed(SEED, truth.seeds);
    let mut found = Counts::default();
    for _ in 0..CLAIMS / truth.claims {
        let (mut judged, points) = truth.page((&claim, &measure), &mut random);
        judge(&mut judged);
        let with = |verdict: Verdict| judged.iter().filter(|own| own.verdict == verdict).count();
        let (held, not_held) = (with(Verdict::Held), with(Verdict::NotHeld));
        found.held += held;
        found.not_held += not_held;
        found.pages += usize::from(held + not_held > 0);
        let [a, b] = points[0]
            .each_ref()
            .map(|own| Summary::of(&own.iter().map(|(_, number)| *number).collect::<Vec<f64>>()).unwrap());
        let pooled = ((a.deviation.powi(2) + b.deviation.powi(2)) / 2.0).sqrt();
        found.beyond_deviation += usize::from((a.mean - b.mean).abs() > pooled);
    }
    found
}

#[test]
fn claims_without_an_effect_are_rarely_decided_and_an_effect_is_found() {
    let percent = |count: usize, of: usize| format!("{:.1} %", 100.0 * count as f64 / of as f64);
    let mut text = format!(
        "# How often claims are decided rightly\n\n\
         Numbers of runs are drawn from a normal distribution with the deviation 1 and judged as the claims of an experiment's \
         page are ([the test](../experiments.md#the-page)), {CLAIMS} claims in each cell. Without an effect both points of a \
         claim have the same mean, so that each verdict but \"not decided\" is wrong; with one, their means differ by one \
         deviation of a run, so that \"held\" is right. The level of a page is 5 %.\n\n\
         Written by\n\n```sh\nLESSEN_BLESS=1 cargo test -p lessen-jobs claims_without_an_effect\n```\n\n\
         which as a test compares this page with what it computes. No machine changes the numbers; the generator's seed is \
         {SEED}, and a share of 5 % of {CLAIMS} claims varies by 0.2 points from one seed of the generator to another, one of pages of ten by 0.7.\n\n\
         | seeds | no effect: verdicts, one claim | no effect: pages of ten claims with a verdict | no effect: verdicts, ten \
         claims | no effect: verdicts by the deviation alone | effect: held, one claim | effect: held, half of the variance \
         shared by seed | effect: held, ten claims | effect: not held, one claim |\n|---|---|---|---|---|---|---|---|---|\n"
    );
    for seeds in [3, 6, 10] {
        let truth = |effect: f64, shared: f64, claims: usize| Truth {
            seeds,
            effect,
            shared,
            claims,
        };
        let (none, many) = (counts(truth(0.0, 0.0, 1)), counts(truth(0.0, 0.0, 10)));
        let (one, shared) = (counts(truth(1.0, 0.0, 1)), counts(truth(1.0, 0.5, 1)));
        let ten = counts(truth(1.0, 0.0, 10));
        text += &format!(
            "| {seeds} | {} | {} | {} | {} | {} | {} | {} | {} |\n",
            percent(none.held + none.not_held, CLAIMS),
            percent(many.pages, CLAIMS / 10),
            percent(many.held + many.not_held, CLAIMS),
            percent(none.beyond_deviation, CLAIMS),
            percent(one.held, CLAIMS),
            percent(shared.held, CLAIMS),
            percent(ten.held, CLAIMS),
            percent(one.not_held, CLAIMS)
        );
        // A twentieth, and two deviations of a count.
        let is_rare =
            |found: usize, of: usize| found as f64 <= 0.05 * of as f64 + 2.0 * (0.05 * 0.95 * of as f64).sqrt();
        assert!(is_rare(none.held + none.not_held, CLAIMS), "{seeds} seeds");
        assert!(is_rare(many.pages, CLAIMS / 10), "{seeds} seeds");
    }
    text += "\nBy the deviation alone, as pages did before, there is a verdict where a difference is larger than the pooled \
             deviation of both points. Three seeds find an effect of one deviation in few cases, so that \"not decided\" says \
             nothing against a paper.\n";
    crate::expected_text::check("../../../../docs/results/verdicts.md", &text);
}
