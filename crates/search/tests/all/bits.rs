//! Bits of a network that is there: by measured sensitivities and the exact knapsack, and by HAQ's agent.

use crate::support::{costs, device, images};
use lessen_nn::models::vision::{MixedArchitecture, MixedBlock};
use lessen_search::{
    Agent, AgentSettings, AnyBits, CostKind, CostTable, HaqSettings, Settings, Space, Transition, allocate, haq,
};

const BITS: [u32; 3] = [2, 4, 8];

fn architecture() -> MixedArchitecture {
    let block = |out, stride| MixedBlock {
        out,
        stride,
        expansion: 2,
        kernel: 3,
        bits: [8, 8],
    };
    MixedArchitecture {
        stem: 4,
        stem_stride: 1,
        blocks: vec![block(8, 2), block(8, 1)],
        last: 12,
        bits: 8,
    }
}

fn settings() -> Settings {
    Settings {
        batch: 10,
        mixup: 0.0,
        augment: false,
        ..Settings::default()
    }
}

#[test]
fn measured_sensitivities_decide_bits_within_the_limit() {
    let source = images(20);
    let mut network = AnyBits::new(device(2), &architecture(), &source, settings()).unwrap();
    let eight = vec![[8; 2]; 2];
    let mut losses = Vec::new();
    for epoch in 0..8 {
        losses.push(network.epoch(&eight, (epoch, 8, 0.1), &mut |_, _| Ok(())).unwrap());
    }
    assert!(losses[7] < losses[0], "{losses:?}");
    let all: Vec<usize> = (0..60).collect();
    let [before, accuracy] = network.test(&source, &all, &eight).unwrap();
    assert!(accuracy > 0.8, "{accuracy}");
    let mut measured = Vec::new();
    let found = network
        .sensitivities((&source, &all), &BITS, (before, &[]), &mut |loss| {
            measured.push(loss);
            Ok(())
        })
        .unwrap();
    assert_eq!(measured.len(), 8);
    let mut rest = 0;
    let again = network.sensitivities((&source, &all), &BITS, (before, &measured[..5]), &mut |_| {
        rest += 1;
        Ok(())
    });
    assert_eq!(
        (again.unwrap(), rest),
        (found.clone(), 3),
        "what is known is not measured again"
    );
    assert!(
        found.iter().flatten().all(|rises| rises.len() == 3 && rises[2] == 0.0),
        "8 bits change nothing"
    );
    let total = |place: usize| found.iter().flatten().map(|rises| rises[place]).sum::<f64>();
    assert!(total(0) > total(1), "2 bits lose more than 4: {found:?}");

    let space = Space::of_bits(&architecture(), &BITS);
    let table = CostTable::new(&space, &costs(CostKind::Energy)).unwrap();
    let [least, most] = table.range();
    for part in [0.0, 0.2, 0.5, 1.0] {
        let limit = least + part * (most - least);
        let chosen = allocate(&space, &table, &found, (limit, "mJ")).unwrap();
        assert!(table.of(&space, &chosen) <= limit * (1.0 + 1e-12));
        let lost = |choices: &[[usize; 5]]| -> f64 {
            let own = choices.iter().zip(&found);
            own.map(|(choice, own)| own[0][choice[3]] + own[1][choice[4]]).sum()
        };
        let mut best = f64::MAX;
        for number in 0..81 {
            let choices = [space.blocks[0].choice(number % 9), space.blocks[1].choice(number / 9)];
            if table.of(&space, &choices) <= limit {
                best = best.min(lost(&choices));
            }
        }
        assert!((lost(&chosen) - best).abs() < 1e-12, "{} is not {best}", lost(&chosen));
    }
    let sentence = allocate(&space, &table, &found, (0.5 * least, "mJ"))
        .unwrap_err()
        .to_string();
    assert!(sentence.contains(&format!("{}mJ", table.least_limit())), "{sentence}");
    let sentence = network.test(&source, &all, &[[8; 2]]).unwrap_err().to_string();
    assert!(sentence.contains("a network of 2"), "{sentence}");
}

#[test]
fn layers_without_rounding_are_asked_by_32_bits() {
    let source = images(20);
    let all: Vec<usize> = (0..60).collect();
    let mut rounded = AnyBits::new(device(2), &architecture(), &source, settings()).unwrap();
    let mut network = AnyBits::among(device(2), (&architecture(), &[8, 32]), &source, settings()).unwrap();
    let eight = vec![[8; 2]; 2];
    let trained = [&mut rounded, &mut network].map(|own| own.epoch(&eight, (0, 1, 0.1), &mut |_, _| Ok(())).unwrap());
    assert_eq!(trained[0], trained[1], "8 bits are 8 bits");
    let before = network.test(&source, &all, &eight).unwrap();
    assert_eq!(before, rounded.test(&source, &all, &eight).unwrap());
    let [loss, _] = network.test(&source, &all, &[[32; 2], [8, 32]]).unwrap();
    assert!(
        loss.is_finite() && loss != before[0] && (loss - before[0]).abs() < 0.1,
        "{loss}, {}",
        before[0]
    );
    let sentence = rounded.test(&source, &all, &[[32; 2]; 2]).unwrap_err().to_string();
    assert!(sentence.contains("32 bits are given; give 2 to 8"), "{sentence}");
}

#[test]
fn an_agent_learns_the_action_that_a_state_rewards() {
    let settings = AgentSettings {
        hidden: 32,
        rates: [3e-3, 1e-2],
        tau: 0.05,
        discount: 0.0,
        batch: 32,
        memory: 500,
        seed: 3,
    };
    let mut agent = Agent::new(device(1), 1, settings).unwrap();
    let wanted = |state: f32| if state > 0.5 { 0.8 } else { 0.2 };
    for number in 0..600 {
        let state = (number % 2) as f32;
        let action = agent.explore();
        let reward = -(action - wanted(state)) * (action - wanted(state));
        agent.remember(Transition {
            state: vec![state],
            action,
            reward,
            next: vec![state],
            is_last: true,
        });
        if number >= 32 {
            agent.learn().unwrap();
        }
    }
    for state in [0.0, 1.0] {
        let action = agent.act(&[state], 0.0).unwrap();
        assert!((action - wanted(state)).abs() < 0.2, "{action} in state {state}");
    }
}

#[test]
fn haq_keeps_to_the_limit_and_betters_its_first_episodes() {
    let space = Space::of_bits(&architecture(), &BITS);
    let table = CostTable::new(&space, &costs(CostKind::Energy)).unwrap();
    let [least, most] = table.range();
    let limit = least + 0.4 * (most - least);
    let settings = HaqSettings {
        episodes: 60,
        warmup: 10,
        noise_decay: 0.95,
        agent: AgentSettings {
            hidden: 32,
            rates: [1e-3, 1e-2],
            batch: 16,
            ..AgentSettings::default()
        },
        ..HaqSettings::default()
    };
    // More bits are better, those of the second block's depthwise layer most of all.
    let mut accuracy = |choices: &[[usize; 5]]| {
        let [first, second] = [choices[0], choices[1]];
        Ok(0.5 + 0.02 * (first[3] + first[4] + second[3]) as f64 + 0.1 * second[4] as f64)
    };
    let mut search = || {
        let mut episodes = Vec::new();
        let found = haq(
            device(1),
            (&space, &table),
            (limit, "mJ"),
            (&settings, 0.7),
            &mut accuracy,
            &mut |episode| {
                episodes.push(episode.clone());
                Ok(())
            },
        );
        (found.unwrap(), episodes)
    };
    let ((chosen, best), episodes) = search();
    assert_eq!(episodes.len(), 60);
    assert!(episodes.iter().all(|episode| episode.cost <= limit * (1.0 + 1e-12)));
    assert_eq!(episodes.last().unwrap().best, best);
    let mean = |part: &[lessen_search::Episode]| part.iter().map(|own| own.accuracy).sum::<f64>() / part.len() as f64;
    assert!(mean(&episodes[40..]) > mean(&episodes[..10]));
    assert_eq!(chosen[1][4], 2);
    assert_eq!(search(), ((chosen, best), episodes), "a search has one outcome");
    let none = haq(
        device(1),
        (&space, &table),
        (0.5 * least, "mJ"),
        (&settings, 0.7),
        &mut |_| Ok(0.0),
        &mut |_| Ok(()),
    );
    assert!(none.unwrap_err().to_string().contains("the least"));
}
