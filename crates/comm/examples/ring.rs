//! Processes that a launcher of MPI has started add up numbers and pass bytes on, and the first prints what must be
//! equal for every number of processes:
//!
//! ```sh
//! cargo build -p lessen-comm --example ring
//! mpiexec -n 4 target/debug/examples/ring
//! ```
//!
//! `ring RANK SECONDS` shows what a rank that stays silent does to the others, with that deadline.

use std::time::Duration;

use lessen_base::{Result, SplitMix64};
use lessen_comm::{Accumulator, Addition, DEADLINE, Exchange, Reduction, Tree, deal, mpi, part};

/// The leaves of the sum, and its numbers.
const LEAVES: usize = 8;
const NUMBERS: usize = 300_007;

fn main() -> Result<()> {
    let number = |place| std::env::args().nth(place)?.parse::<u64>().ok();
    let deadline = number(2).map_or(DEADLINE, Duration::from_secs);
    let exchange = Exchange::start(deadline, mpi::open)?;
    if number(1) == Some(exchange.rank() as u64) {
        std::thread::sleep(DEADLINE);
    }
    match run(&exchange) {
        Ok(line) if exchange.rank() == 0 => println!("{line}"),
        Ok(_) => {}
        Err(error) => {
            eprintln!("error: {error}");
            exchange.abort(&error);
            std::process::exit(error.exit_code());
        }
    }
    exchange.finish()
}

fn run(exchange: &Exchange) -> Result<String> {
    let (rank, size) = (exchange.rank(), exchange.size());
    let (tree, addition) = (Tree::new(LEAVES), Addition::f32());
    let mut sums = Accumulator::new(tree);
    for leaf in part(LEAVES, size, rank) {
        let mut random = SplitMix64::keyed(1, leaf as u64);
        let numbers = (0..NUMBERS).flat_map(|_| (random.unit() as f32 - 0.5).to_le_bytes());
        sums.push(leaf..leaf + 1, numbers.collect(), |left: &mut Vec<u8>, right| {
            addition.add(left, &right)
        });
    }
    let sums = sums.into_sums().into_iter().map(|(_, sum)| sum).collect();
    let pieces: Vec<usize> = (0..=LEAVES).map(|piece| NUMBERS * piece / LEAVES * 4).collect();
    let borders = deal(&pieces, size);
    exchange.set_place("step 1");
    let reduction = Reduction {
        leaves: LEAVES,
        sums,
        borders: borders.clone(),
        addition,
    };
    let owned = exchange.reduce_scatter("sum of gradients", reduction).end()?;
    let squares = |piece: &[u8]| {
        let numbers = piece.as_chunks().0.iter().copied().map(f32::from_le_bytes);
        vec![numbers.map(|number| f64::from(number).powi(2)).sum()]
    };
    let own_pieces = part(LEAVES, size, rank).map(|piece| {
        let start = borders[rank];
        squares(&owned[pieces[piece] - start..pieces[piece + 1] - start])
    });
    let norm = exchange.all_reduce("norm", own_pieces.collect());
    let all = exchange
        .all_gather("parameters", owned.clone(), borders.clone())
        .end()?;
    let first = exchange.broadcast("the first rank's length", 0, all.len().to_le_bytes().to_vec());
    assert_eq!(first.end()?, all.len().to_le_bytes());
    let ranks = exchange.gather("ranks", vec![rank as u8; rank + 1]).end()?;
    assert!(
        ranks
            .iter()
            .enumerate()
            .all(|(rank, bytes)| *bytes == vec![rank as u8; rank + 1])
    );
    let bits = norm.end()?.first().copied().unwrap_or_default().to_bits();
    let hash = all
        .iter()
        .fold(0u64, |hash, byte| hash.wrapping_mul(31).wrapping_add(u64::from(*byte)));
    Ok(format!("sum {hash:016x}, squared norm {bits:016x}"))
}
