//! Condensing texts in the space of their embeddings: `cargo run --release --example condense_titles -- FOLDER
//! [PER_CLASS [ITERATIONS [NETWORKS [EPOCHS]]]]` makes titles of 16 vectors for each class of FOLDER, and trains
//! encoders on them and on as many real titles.
//!
//! FOLDER has `train.txt` and `dev.txt` with a title, a tab and the number of a class on each line. A first encoder
//! learns the embeddings of the characters from all titles; they stay as they are from then on.

mod arguments;

use arguments::number;
use lessen::condense::{
    Condensation, Condenser, Coreset, FunctionNetwork, ImageSource, LabelledImages, Method, Settings, TrainingSettings,
    coreset, evaluate,
};
use lessen::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;

/// Vectors of a title, width of a vector, layers, heads, and characters that have a vector of their own.
const LENGTH: usize = 16;
const WIDTH: usize = 64;
const LAYERS: usize = 2;
const HEADS: usize = 4;
const VOCABULARY: usize = 2000;

/// Titles as numbers of characters: 0 is padding, 1 any rare character.
struct Titles {
    ids: Vec<[i32; LENGTH]>,
    labels: Vec<u32>,
}

/// Titles by their vectors, as images of 16 x 1 pixels.
struct Embedded<'a> {
    titles: &'a Titles,
    table: &'a [f32],
    classes: usize,
}

impl ImageSource for Embedded<'_> {
    fn shape(&self) -> [usize; 3] {
        [LENGTH, 1, WIDTH]
    }

    fn classes(&self) -> usize {
        self.classes
    }

    fn labels(&self) -> &[u32] {
        &self.titles.labels
    }

    fn read(&self, index: usize, pixels: &mut [f32]) -> Result<()> {
        for (id, to) in self.titles.ids[index].iter().zip(pixels.chunks_exact_mut(WIDTH)) {
            let first = *id as usize * WIDTH;
            to.copy_from_slice(&self.table[first..first + WIDTH]);
        }
        Ok(())
    }
}

/// Logits of titles `[N, 16, width]`: a pre-norm encoder with learned positions and mean pooling.
fn encoder(cx: Cx, titles: Tensor, classes: usize) -> Tensor {
    let init = Init::Normal { std: 0.1 };
    let count = titles.dim(0);
    let mut x = titles + cx.param("positions", &[LENGTH, WIDTH], init);
    for layer in 0..LAYERS {
        let name = |part: &str| format!("layers.{layer}.{part}");
        let normed = layer_norm(cx, &name("norm1"), x, 1e-5);
        let heads = |part: &str| {
            let rows = linear(cx, &name(part), normed, WIDTH, init);
            rows.reshape(&[count, LENGTH, HEADS, WIDTH / HEADS])
                .permute(&[0, 2, 1, 3])
        };
        let scores = heads("query").matmul_t(heads("key")) * (1.0 / ((WIDTH / HEADS) as f64).sqrt());
        let mixed = scores.softmax().matmul(heads("value"));
        let joined = mixed.permute(&[0, 2, 1, 3]).reshape(&[count, LENGTH, WIDTH]);
        x = x + linear(cx, &name("out"), joined, WIDTH, init);
        let hidden = linear(
            cx,
            &name("up"),
            layer_norm(cx, &name("norm2"), x, 1e-5),
            4 * WIDTH,
            init,
        )
        .gelu();
        x = x + linear(cx, &name("down"), hidden, WIDTH, init);
    }
    let pooled = layer_norm(cx, "norm", x, 1e-5).mean_axes(&[1]);
    linear(cx, "head", pooled.reshape(&[count, WIDTH]), classes, init)
}

/// The lines of a file, each a title, a tab and the number of its class.
fn lines(path: &Path) -> Result<Vec<(String, u32)>> {
    let unread = |error: std::io::Error| Error::user(format!("{} cannot be read ({error})", path.display()));
    let text = std::fs::read_to_string(path).map_err(unread)?;
    let parsed = text.lines().enumerate().map(|(number, line)| {
        let parts = line.rsplit_once('\t');
        let class = parts.and_then(|(title, class)| Some((title.to_string(), class.trim().parse().ok()?)));
        class.ok_or_else(|| {
            let place = format!("{} line {}", path.display(), number + 1);
            Error::user("this line has no title, tab and number of a class").at(place)
        })
    });
    parsed.collect()
}

/// Numbers of the most frequent characters, from 2 on.
fn vocabulary(lines: &[(String, u32)]) -> BTreeMap<char, i32> {
    let mut counts: BTreeMap<char, usize> = BTreeMap::new();
    for character in lines.iter().flat_map(|(title, _)| title.chars()) {
        *counts.entry(character).or_default() += 1;
    }
    let mut order: Vec<(char, usize)> = counts.into_iter().collect();
    order.sort_by_key(|&(character, count)| (std::cmp::Reverse(count), character));
    let most = order.into_iter().take(VOCABULARY - 2);
    most.zip(2..).map(|((character, _), id)| (character, id)).collect()
}

fn titles(lines: &[(String, u32)], vocabulary: &BTreeMap<char, i32>) -> Titles {
    let encoded = |title: &String| {
        let mut ids = [0; LENGTH];
        for (id, character) in ids.iter_mut().zip(title.chars()) {
            *id = vocabulary.get(&character).copied().unwrap_or(1);
        }
        ids
    };
    Titles {
        ids: lines.iter().map(|(title, _)| encoded(title)).collect(),
        labels: lines.iter().map(|(_, class)| *class).collect(),
    }
}

/// The vectors of all characters, learnt with an encoder for an epoch over all titles.
fn learnt_table(all: &Titles, classes: usize) -> Result<Vec<f32>> {
    let batch = 128.min(all.ids.len());
    let mut trainer = Trainer::new(device()?, TrainerOptions::new(1e-3), |cx| {
        let ids = cx.input("ids", DType::I32, &[batch, LENGTH]);
        let table = cx.param("table", &[VOCABULARY, WIDTH], Init::Normal { std: 1.0 });
        encoder(cx, table.gather(ids), classes).cross_entropy(cx.input("labels", DType::I32, &[batch]))
    })?;
    for (ids, labels) in all.ids.chunks_exact(batch).zip(all.labels.chunks_exact(batch)) {
        let labels: Vec<i32> = labels.iter().map(|class| *class as i32).collect();
        trainer.step(&[("ids", Host::I32(ids.as_flattened())), ("labels", Host::I32(&labels))])?;
    }
    let mut weights = trainer.weights()?;
    Ok(weights.remove("table").map_or(Vec::new(), |table| table.data))
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(folder) = arguments.first().map(Path::new) else {
        return Err(Error::user("name a folder with train.txt and dev.txt"));
    };
    let per_class = number(&arguments, 1)?.unwrap_or(1);
    let iterations = number(&arguments, 2)?.unwrap_or(100);
    let networks = number(&arguments, 3)?.unwrap_or(5);
    let epochs = number(&arguments, 4)?;
    let [train, dev] = ["train.txt", "dev.txt"].map(|name| lines(&folder.join(name)));
    let (train, dev) = (train?, dev?);
    let vocabulary = vocabulary(&train);
    let [train, dev] = [train, dev].map(|lines| titles(&lines, &vocabulary));
    let classes = train.labels.iter().max().map_or(0, |last| *last as usize + 1);
    let table = learnt_table(&train, classes)?;
    let [train, dev] = [&train, &dev].map(|titles| Embedded {
        titles,
        table: &table,
        classes,
    });

    let network = FunctionNetwork(move |cx: Cx, titles: Tensor| {
        let count = titles.dim(0);
        encoder(cx, titles.reshape(&[count, LENGTH, WIDTH]), classes)
    });
    let settings = Settings {
        iterations,
        real_batch: 64,
        ..Settings::published(Method::Md, per_class)?
    };
    let mut condenser = Condenser::new(device()?, &network, &train, settings)?;
    for _ in 0..iterations {
        condenser.iterate(&mut |_| Ok(()))?;
    }
    let condensed = condenser.images()?;
    let training = TrainingSettings {
        epochs,
        rate: 0.05,
        ..TrainingSettings::default()
    };
    let choice = (Coreset::Random, per_class);
    let chosen = coreset(device()?, &network, &train, choice, &training, &mut |_, _| Ok(()))?;
    let real = LabelledImages::part_of(&train, &chosen)?;
    let sets: [(&str, &dyn ImageSource); 2] = [("condensed", &condensed), ("real titles", &real)];
    for (name, set) in sets {
        let judged = (&training, networks);
        let accuracy = evaluate(device()?, &network, (&[set], &dev), judged, &mut |_| Ok(()))?;
        println!("{name}: {per_class} of each of {classes} classes, accuracy {accuracy} %");
    }
    Ok(())
}
