//! Continues a text with GPT-2 in candle, greedily, with a key/value cache: one side of `bench/generate.py`.
//!
//! `candle-generate FOLDER TOKENS COUNT` reads `config.json` and `model.safetensors` of `FOLDER`, continues `TOKENS`,
//! numbers with commas between, by `COUNT` tokens, and prints one JSON object: the tokens, and the seconds from the
//! first of them to the last one.

use std::time::Instant;

use candle_core::{D, DType, Device, IndexOp, Result, Tensor};
use candle_nn::kv_cache::KvCache;
use candle_nn::{Embedding, LayerNorm, Linear, Module, VarBuilder, embedding, layer_norm, ops};

/// The fields of `config.json` that matter.
#[derive(serde::Deserialize)]
struct Config {
    vocab_size: usize,
    n_positions: usize,
    n_embd: usize,
    n_layer: usize,
    n_head: usize,
    layer_norm_epsilon: f64,
}

struct Block {
    norms: [LayerNorm; 2],
    qkv: Linear,
    out: Linear,
    up: Linear,
    down: Linear,
    heads: usize,
    cache: KvCache,
}

struct Gpt2 {
    words: Embedding,
    positions: Embedding,
    blocks: Vec<Block>,
    norm: LayerNorm,
    head: Linear,
    read: usize,
}

/// A product whose matrix is stored as `[in, out]`; candle's `Linear` has `[out, in]`.
fn conv1d(inputs: usize, outputs: usize, vb: VarBuilder) -> Result<Linear> {
    let weight = vb.get((inputs, outputs), "weight")?.t()?.contiguous()?;
    Ok(Linear::new(weight, Some(vb.get(outputs, "bias")?)))
}

impl Block {
    fn new(config: &Config, vb: VarBuilder) -> Result<Block> {
        let width = config.n_embd;
        let norm = |name: &str| layer_norm(width, config.layer_norm_epsilon, vb.pp(name));
        Ok(Block {
            norms: [norm("ln_1")?, norm("ln_2")?],
            qkv: conv1d(width, 3 * width, vb.pp("attn.c_attn"))?,
            out: conv1d(width, width, vb.pp("attn.c_proj"))?,
            up: conv1d(width, 4 * width, vb.pp("mlp.c_fc"))?,
            down: conv1d(4 * width, width, vb.pp("mlp.c_proj"))?,
            heads: config.n_head,
            cache: KvCache::new(2, config.n_positions),
        })
    }

    fn forward(&mut self, x: &Tensor, mask: Option<&Tensor>) -> Result<Tensor> {
        let x = (x + self.attention(&self.norms[0].forward(x)?, mask)?)?;
        let inner = self.up.forward(&self.norms[1].forward(&x)?)?.gelu()?;
        &x + self.down.forward(&inner)?
    }

    fn attention(&mut self, x: &Tensor, mask: Option<&Tensor>) -> Result<Tensor> {
        let (batch, length, width) = x.dims3()?;
        let qkv = self
            .qkv
            .forward(x)?
            .reshape((batch, length, 3, self.heads, width / self.heads))?;
        let part = |i: usize| qkv.i((.., .., i))?.transpose(1, 2)?.contiguous();
        let (q, (k, v)) = (part(0)?, self.cache.append(&part(1)?, &part(2)?)?);
        let scores = (q.matmul(&k.t()?)? * (self.heads as f64 / width as f64).sqrt())?;
        let scores = match mask {
            Some(mask) => scores.broadcast_add(mask)?,
            None => scores,
        };
        let y = ops::softmax_last_dim(&scores)?.matmul(&v.contiguous()?)?;
        self.out.forward(&y.transpose(1, 2)?.reshape((batch, length, width))?)
    }
}

impl Gpt2 {
    fn new(config: &Config, vb: VarBuilder) -> Result<Gpt2> {
        let vb = vb.pp("transformer");
        let words = embedding(config.vocab_size, config.n_embd, vb.pp("wte"))?;
        let blocks = (0..config.n_layer).map(|i| Block::new(config, vb.pp(format!("h.{i}"))));
        Ok(Gpt2 {
            head: Linear::new(words.embeddings().clone(), None),
            words,
            positions: embedding(config.n_positions, config.n_embd, vb.pp("wpe"))?,
            blocks: blocks.collect::<Result<_>>()?,
            norm: layer_norm(config.n_embd, config.layer_norm_epsilon, vb.pp("ln_f"))?,
            read: 0,
        })
    }

    /// Reads some tokens; the most likely one after them.
    fn next(&mut self, tokens: &[u32]) -> Result<u32> {
        let (device, length) = (Device::Cpu, tokens.len());
        let places: Vec<u32> = (self.read..self.read + length).map(|place| place as u32).collect();
        let words = self.words.forward(&Tensor::new(tokens, &device)?.unsqueeze(0)?)?;
        let mut x = words.broadcast_add(&self.positions.forward(&Tensor::new(places, &device)?)?)?;
        let mask = match length {
            1 => None,
            _ => {
                let of = |i: usize| {
                    if i % length > i / length {
                        f32::NEG_INFINITY
                    } else {
                        0.0
                    }
                };
                Some(Tensor::from_iter((0..length * length).map(of), &device)?.reshape((length, length))?)
            }
        };
        for block in &mut self.blocks {
            x = block.forward(&x, mask.as_ref())?;
        }
        self.read += length;
        let last = self.norm.forward(&x.i((.., length - 1))?)?;
        self.head.forward(&last)?.argmax(D::Minus1)?.squeeze(0)?.to_scalar()
    }
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, folder, tokens, count] = &arguments[..] else {
        return Err("give a folder, tokens, and how many to add".into());
    };
    let mut tokens = tokens
        .split(',')
        .map(str::parse)
        .collect::<std::result::Result<Vec<u32>, _>>()?;
    let (prompt, count) = (tokens.len(), count.parse::<usize>()?);
    let config: Config = serde_json::from_slice(&std::fs::read(format!("{folder}/config.json"))?)?;
    let file = format!("{folder}/model.safetensors");
    // SAFETY: nobody changes the file while it is read.
    let vb = unsafe { VarBuilder::from_mmaped_safetensors(&[file], DType::F32, &Device::Cpu)? };
    let mut model = Gpt2::new(&config, vb)?;
    tokens.push(model.next(&tokens.clone())?);
    let began = Instant::now();
    for _ in 1..count {
        let next = model.next(&tokens[tokens.len() - 1..])?;
        tokens.push(next);
    }
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "{}",
        serde_json::json!({ "tokens": tokens[prompt..], "seconds": seconds })
    );
    Ok(())
}
