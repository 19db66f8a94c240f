//! Costs of networks: the table's sum is what the hardware says of the network as a whole.

use crate::support::{CLASSES, SHAPE, costs, small_space};
use lessen_base::SplitMix64;
use lessen_search::{CostKind, CostTable, Costs, Space, Variables, derive};

#[test]
fn a_network_costs_the_sum_of_the_table() {
    let mut random = SplitMix64::new(1);
    let published = Space::published(true).with_bits(&[2, 4, 8]);
    for (space, image) in [(small_space(), SHAPE), (published, [32, 32, 3])] {
        for kind in CostKind::ALL {
            let costs = Costs { image, ..costs(kind) };
            let table = CostTable::new(&space, &costs).unwrap();
            let [least, most] = table.range();
            for _ in 0..10 {
                let choices: Vec<_> = (space.blocks.iter())
                    .map(|block| block.choice(random.below(block.choices() as u64) as usize))
                    .collect();
                let (sum, whole) = (
                    table.of(&space, &choices),
                    costs.of(&space.architecture(&choices)).unwrap(),
                );
                assert!((sum - whole).abs() <= 1e-12 * whole, "{kind}: {sum} is not {whole}");
                assert!(least <= sum && sum <= most);
            }
        }
    }
}

#[test]
fn the_derived_network_keeps_to_the_limit_and_is_the_most_probable_one() {
    let space = small_space();
    let variables = Variables::of(&space);
    let table = CostTable::new(&space, &costs(CostKind::Energy)).unwrap();
    let [least, most] = table.range();
    let mut random = SplitMix64::new(4);
    let logits: Vec<f64> = (0..variables.len()).map(|_| random.unit()).collect();
    let free = derive(&space, &logits, &table, None).unwrap();
    assert_eq!(free, variables.choices(&variables.most_probable(&logits)));
    let roomy = derive(&space, &logits, &table, Some(most)).unwrap();
    assert_eq!(roomy, free);
    let limit = least + 0.3 * (table.of(&space, &free) - least);
    let close = derive(&space, &logits, &table, Some(limit)).unwrap();
    assert!(table.of(&space, &close) <= limit * (1.0 + 1e-9));
    let cheapest = derive(&space, &logits, &table, Some(least)).unwrap();
    assert_eq!(table.of(&space, &cheapest), least);
    let sentence = derive(&space, &logits, &table, Some(0.9 * least))
        .unwrap_err()
        .to_string();
    assert!(sentence.contains(&table.least_limit()), "{sentence}");
}

#[test]
fn the_least_limit_that_is_printed_is_kept_to_by_every_choice() {
    for kind in CostKind::ALL {
        for (number, mut space) in [small_space(), Space::published(true).with_bits(&[2, 4, 8])]
            .into_iter()
            .enumerate()
        {
            for width in 0..6 {
                space.stem = 4 + 3 * width;
                let image = if number == 0 { SHAPE } else { [32, 32, 3] };
                let table = CostTable::new(&space, &Costs { image, ..costs(kind) }).unwrap();
                let printed = table.least_limit();
                let limit = kind.parse(&format!("{printed}{}", kind.unit())).unwrap();
                table.check_limit(Some(limit), kind).unwrap();
                let [least, _] = table.range();
                assert!(
                    (limit - least).abs() <= 1e-6_f64.max(1e-3 * least),
                    "{kind}: {printed} is not {least}"
                );
                let logits = vec![0.0; Variables::of(&space).len()];
                for limit in [limit, least] {
                    let cheapest = derive(&space, &logits, &table, Some(limit)).unwrap();
                    assert!(table.of(&space, &cheapest) <= limit * (1.0 + 1e-12));
                }
                let below = least * (1.0 - 1e-9);
                assert!(table.check_limit(Some(below), kind).is_err());
                assert!(derive(&space, &logits, &table, Some(below)).is_err());
            }
        }
    }
}

#[test]
fn bits_that_the_hardware_lacks_are_refused_by_its_own_sentence() {
    let mut space = small_space();
    space.blocks[1].bits[0] = vec![4, 6];
    let sentence = CostTable::new(&space, &costs(CostKind::Size)).unwrap_err().to_string();
    assert!(
        sentence.contains("simple has no 6 bits") && sentence.contains("blocks.1"),
        "{sentence}"
    );
}

#[test]
fn limits_have_units() {
    let energy = CostKind::Energy;
    assert_eq!(energy.parse("1.2mJ").unwrap(), 1.2);
    assert!((energy.parse("300 uJ").unwrap() - 0.3).abs() < 1e-15);
    assert_eq!(CostKind::Latency.parse("2e-3s").unwrap(), 2.0);
    assert_eq!(CostKind::Size.parse("0.5MB").unwrap(), 0.5);
    for wrong in ["1.2", "mJ", "-1mJ", "1.2ms", "NaNmJ", ""] {
        let sentence = energy.parse(wrong).unwrap_err().to_string();
        assert!(sentence.contains("1.2mJ"), "{sentence}");
    }
}

#[test]
fn the_published_space_is_that_of_table_2_10() {
    let space = Space::published(false);
    assert_eq!(space.blocks.len(), 22);
    assert_eq!(space.blocks.iter().filter(|block| block.can_skip).count(), 15);
    assert!(
        space
            .blocks
            .iter()
            .all(|block| block.choices() / (1 + usize::from(block.can_skip)) == 144)
    );
    let first = vec![[0, 1, 0, 0, 0]; 22];
    let layers = space.architecture(&first).layers([224, 224, 3], 1000);
    let at = |name: &str| layers.iter().find(|layer| layer.name == name).unwrap();
    assert_eq!(at("blocks.0.depthwise").image, [112, 112]);
    assert_eq!(at("blocks.1.expand").image, [56, 56]);
    assert_eq!(at("last").image, [7, 7]);
    assert_eq!((at("last").outputs, at("classifier").inputs), (1280, 1280));
    let small = Space::published(true).architecture(&first).layers([32, 32, 3], CLASSES);
    assert_eq!(small.iter().find(|layer| layer.name == "last").unwrap().image, [4, 4]);
    assert!(
        Costs {
            image: [224; 3],
            ..costs(CostKind::Energy)
        }
        .of(&space.architecture(&first))
        .is_ok()
    );
}
