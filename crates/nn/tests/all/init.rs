//! Initial values: a function of seed and name alone, with the right distribution.

use lessen_graph::{DType, Trace};
use lessen_nn::{Cx, Init, ParamSpec, initialize, initialize_missing};

fn params(declare: impl Fn(Cx)) -> Vec<ParamSpec> {
    let trace = Trace::new();
    let cx = Cx::new(*trace, true);
    declare(cx);
    cx.params()
}

#[test]
fn values_depend_on_seed_and_name_alone() {
    let normal = Init::Normal { std: 1.0 };
    let one = params(|cx| {
        cx.param("a", &[40], normal);
        cx.param("b", &[30, 2], normal);
    });
    let other = params(|cx| {
        cx.param("b", &[30, 2], normal);
        cx.param("c", &[7], normal);
        cx.param("a", &[40], normal);
    });
    let (x, y) = (initialize(&one, 5), initialize(&other, 5));
    assert_eq!(x["a"], y["a"]);
    assert_eq!(x["b"], y["b"]);
    assert_ne!(x["a"].data[..7], y["c"].data[..]);
    assert_ne!(x["a"], initialize(&one, 6)["a"]);
    assert_eq!(x["b"].shape, [30, 2]);
}

#[test]
fn distributions_have_their_moments() {
    let specs = params(|cx| {
        cx.param("normal", &[100, 1000], Init::Normal { std: 0.02 });
        cx.param("uniform", &[100_000], Init::Uniform { bound: 0.5 });
        cx.param(
            "xavier",
            &[300, 200],
            Init::XavierUniform {
                fan_in: 200,
                fan_out: 300,
            },
        );
        cx.param("zeros", &[5], Init::Zeros);
        cx.param("ones", &[5], Init::Ones);
        cx.param("halves", &[5], Init::Constant(0.5));
    });
    let weights = initialize(&specs, 1);
    let moments = |name: &str| {
        let data = &weights[name].data;
        let n = data.len() as f64;
        let mean = data.iter().map(|&v| f64::from(v)).sum::<f64>() / n;
        let central = |power| data.iter().map(|&v| (f64::from(v) - mean).powi(power)).sum::<f64>() / n;
        (mean, central(2).sqrt(), central(4) / central(2).powi(2))
    };
    let (mean, std, kurtosis) = moments("normal");
    assert!(mean.abs() < 4.0 * 0.02 / 316.0 && (std / 0.02 - 1.0).abs() < 0.01 && (kurtosis - 3.0).abs() < 0.08);
    let (mean, std, kurtosis) = moments("uniform");
    assert!(mean.abs() < 0.004 && (std - 1.0 / 12f64.sqrt()).abs() < 0.003 && (kurtosis - 1.8).abs() < 0.03);
    assert!(weights["uniform"].data.iter().all(|v| v.abs() <= 0.5));
    let (mean, std, _) = moments("xavier");
    assert!(mean.abs() < 0.001 && (std - (2.0f64 / 500.0).sqrt()).abs() < 0.001);
    assert_eq!(weights["zeros"].data, [0.0; 5]);
    assert_eq!(weights["ones"].data, [1.0; 5]);
    assert_eq!(weights["halves"].data, [0.5; 5]);
}

#[test]
fn only_missing_values_are_made() {
    let specs = params(|cx| {
        cx.param("a", &[4], Init::Normal { std: 1.0 });
        cx.param("b", &[4], Init::Normal { std: 1.0 });
    });
    let whole = initialize(&specs, 3);
    let mut weights = whole.clone();
    weights.get_mut("a").unwrap().data = vec![9.0; 4];
    weights.remove("b");
    initialize_missing(&mut weights, &specs, 3);
    assert_eq!(weights["a"].data, [9.0; 4]);
    assert_eq!(weights["b"], whole["b"]);
}

#[test]
fn contexts_join_prefixes_and_share_parameters() {
    let trace = Trace::new();
    let cx = Cx::new(*trace, true);
    let inner = cx.scope("h.0", |cx| cx.at("attn").param("weight", &[2], Init::Ones));
    let tied = cx.param("h.0.attn.weight", &[2], Init::Ones);
    assert_eq!(inner.id(), tied.id());
    let scope = cx.scope("h.0", |cx| cx.scope("mlp", |_| inner + inner));
    let node = trace.with_graph(|g| g.nodes[g.producer(scope.id()).unwrap().index()].scope.to_string());
    assert_eq!(node, "h.0.mlp");
    let (a, b) = (
        cx.input("x", DType::I32, &[3]),
        cx.at("deep").input("x", DType::I32, &[3]),
    );
    assert_eq!(a.id(), b.id());
    let params = cx.params();
    assert_eq!(
        (params.len(), params[0].name.as_str(), params[0].init),
        (1, "h.0.attn.weight", Init::Ones)
    );
}

#[test]
#[should_panic(expected = "the parameter `w` is declared with two shapes")]
fn tied_weights_have_one_shape() {
    params(|cx| {
        cx.param("w", &[2, 3], Init::Ones);
        cx.param("w", &[3, 2], Init::Ones);
    });
}

#[test]
#[should_panic(expected = "the parameter `w` is declared with two initial values")]
fn tied_weights_have_the_same_initial_values() {
    params(|cx| {
        cx.param("w", &[2, 3], Init::Ones);
        cx.param("w", &[2, 3], Init::Zeros);
    });
}

#[test]
fn initial_values_of_a_seed_and_name_never_change() {
    let bits = |init: Init, name| {
        init.values(7, name, 4)
            .into_iter()
            .map(f32::to_bits)
            .collect::<Vec<u32>>()
    };
    // Recorded once: a change here gives another model to every recipe and seed.
    assert_eq!(
        bits(Init::Normal { std: 0.02 }, "transformer.wte.weight"),
        [0x3d69cc65, 0xbd186709, 0xbbe34ad8, 0xbbfcd528]
    );
    assert_eq!(
        bits(Init::Uniform { bound: 0.5 }, "w"),
        [0xbee45ef6, 0xbdb48639, 0xbea42172, 0x3e8bd2d2]
    );
    assert_eq!(
        bits(Init::XavierUniform { fan_in: 3, fan_out: 5 }, ""),
        [0xbe947bad, 0xbe814a69, 0xbed89d20, 0xbf333d35]
    );
}
