//! `lessen bench predict`

use clap::Args;
use lessen::bench::predict::{Latencies, PERCENTILES, measure};
use lessen_base::Result;
use lessen_base::SplitMix64;
use lessen_saved::embedding::EmbedOptions;
use lessen_saved::saved_run::{LENGTH, random_texts};
use serde_json::{Value, json};

use crate::commands::asked_model::AskedModel;
use crate::{say, tell};

/// Flags of `lessen bench predict`.
#[derive(Args)]
pub struct Predict {
    #[command(flatten)]
    asked: AskedModel,
    /// Texts or images of a request
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    batch: u32,
    /// Tokens of a text [default: as many as the model reads, 128 at most]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    length: Option<u32>,
    /// Measured requests
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    requests: u32,
    /// Print one JSON object and nothing else on stdout
    #[arg(long)]
    json: bool,
}

impl Predict {
    /// Measures; the exit code.
    pub fn run(self) -> Result<u8> {
        let (latencies, source, length) = if self.asked.model.is_embedder()? {
            self.embedder()?
        } else {
            self.predictor()?
        };
        if self.json {
            let mut object = latencies.to_json();
            object.insert("model".into(), json!(source));
            object.insert("length".into(), json!(length));
            say(&format!("{}\n", Value::Object(object)))?;
        } else {
            let of = match length {
                Some(length) => format!("{} texts of {length} tokens", self.batch),
                None => format!("{} images", self.batch),
            };
            let percentiles = PERCENTILES.map(|percent| format!("p{percent} {:.2} ms", latencies.percentile(percent)));
            say(&format!(
                "{source}: {} requests of {of}, after tokenization\n   {}   mean {:.2} ms   {:.1} a second\n",
                self.requests,
                percentiles.join("   "),
                latencies.mean(),
                latencies.per_second()
            ))?;
        }
        Ok(0)
    }

    /// Measures a model with a head: times, the folder, and the tokens of a text.
    fn predictor(&self) -> Result<(Latencies, String, Option<usize>)> {
        let run = self.asked.open(&[])?;
        let mut batches = run.random_batches(self.batch as usize, self.length.map(|length| length as usize))?;
        let latencies = measure(self.requests as usize, self.batch as usize, || batches.ask())?;
        Ok((latencies, self.asked.model.shown(run.source()), batches.length()))
    }

    /// The same of a model that embeds texts.
    fn embedder(&self) -> Result<(Latencies, String, Option<usize>)> {
        let options = EmbedOptions {
            max_length: self.length.map(|length| length as usize),
            ..self.asked.embed_options()?
        };
        let embedder = self.asked.embedder(&options)?;
        embedder.notes().iter().for_each(|note| tell(note));
        let length = match self.length {
            Some(length) => length as usize,
            None => embedder.max_length().min(LENGTH),
        };
        let mut random = SplitMix64::new(1);
        let texts = random_texts(self.batch as usize, length, embedder.vocab_size(), &mut random);
        let latencies = measure(self.requests as usize, self.batch as usize, || {
            embedder.embed_encoded(&texts).map(drop)
        })?;
        Ok((
            latencies,
            self.asked.model.shown(self.asked.model.folder()),
            Some(length),
        ))
    }
}
