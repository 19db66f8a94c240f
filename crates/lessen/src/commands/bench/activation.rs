//! `lessen bench activation`

use clap::Args;
use lessen::bench::activation::{self, Network, Times};
use lessen_base::Result;
use lessen_nn::Activation as Function;
use lessen_nn::models::BatchShape;
use serde_json::{Value, json};

use crate::say;

/// Flags of `lessen bench activation`.
#[derive(Args)]
pub struct Activation {
    /// Activations; the others are compared with the first one
    #[arg(long, value_delimiter = ',', default_value = "relu,helu:0.05,gelu,gelu_new,elu,silu")]
    activation: Vec<Function>,
    /// Networks whose inference is timed: bert, electra, gpt2, vit, resnet50
    #[arg(long, value_delimiter = ',', default_value = "bert,electra,gpt2,vit,resnet50")]
    network: Vec<String>,
    /// Tokens of a text
    #[arg(long, value_delimiter = ',', default_value = "16,64,128")]
    length: Vec<usize>,
    /// Examples in a batch
    #[arg(long, value_delimiter = ',', default_value = "16")]
    batch: Vec<usize>,
    /// Timed runs of each case
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Print one JSON object and nothing else on stdout
    #[arg(long)]
    json: bool,
}

impl Activation {
    /// Measures; the exit code.
    pub fn run(self) -> Result<u8> {
        let runs = self.runs as usize;
        let networks: Vec<&Network> = self
            .network
            .iter()
            .map(|name| Network::of(name))
            .collect::<Result<_>>()?;
        let (mut table, mut found) = (String::new(), Vec::new());
        // A block that lies in the cache, and one that does not.
        for rows in [64, 16384] {
            let times = activation::elements(&self.activation, rows, 10 * runs)?;
            let what = format!("{rows} rows of 3072 elements");
            table += &self.report(&what, &times, (rows * 3072) as f64, &mut found);
        }
        let lengths: Vec<usize> = self.length.iter().map(|&length| length.max(1)).collect();
        for network in networks {
            let batches = self.batch.iter().map(|&size| network.batches(size.max(1), &lengths));
            for batch in batches.flatten() {
                let times = activation::network(network, &self.activation, batch, runs)?;
                let what = format!("{}, {}, batch {}", network.name, example(batch), batch.size());
                table += &self.report(&what, &times, batch.size() as f64, &mut found);
            }
        }
        let all = json!({ "cases": found });
        say(&if self.json { format!("{all}\n") } else { table })?;
        Ok(0)
    }

    /// The lines of one case, `units` elements or examples; adds them to `found`, too.
    fn report(&self, what: &str, times: &[Times], units: f64, found: &mut Vec<Value>) -> String {
        let mut lines = format!("{what}\n");
        let first = times[0].median_ms();
        for (function, times) in self.activation.iter().zip(times) {
            let (median, (least, most)) = (times.median_ms(), times.range_ms());
            let (ratio, per_unit) = (median / first, median / units * 1e6);
            let each = match per_unit {
                ns if ns < 1e4 => format!("{ns:.3} ns"),
                ns => format!("{:.3} ms", ns / 1e6),
            };
            lines += &format!(
                "   {:<12} {median:>10.3} ms ({least:.3} .. {most:.3})  {each:>10} each  {ratio:>6.3} x {}\n",
                function.to_string(),
                self.activation[0]
            );
            found.push(json!({
                "case": what,
                "activation": function.to_string(),
                "ms": median,
                "ms_min": least,
                "ms_max": most,
                "ns_each": per_unit,
                "over_first": ratio,
            }));
        }
        lines
    }
}

/// The size of an example of a batch, in words.
fn example(batch: BatchShape) -> String {
    match batch {
        BatchShape::Images { image, .. } => format!("{} x {}", image[0], image[1]),
        texts => format!("{} tokens", texts.tokens()[1]),
    }
}
