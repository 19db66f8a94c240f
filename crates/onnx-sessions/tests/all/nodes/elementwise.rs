//! Functions of single numbers, against results of NumPy and ONNX Runtime.

use lessen_base::Result;

use lessen_onnx::proto::{AttributeProto, AttributeType, NodeProto};
use lessen_onnx::{Data, Element, HostTensor, HostValue};
use lessen_onnx_sessions::run_node;

/// An array such as `int8[2] -1 127`; `-` is none.
fn array(text: &str) -> Option<HostTensor> {
    let text = text.trim();
    if text == "-" {
        return None;
    }
    let (ty, numbers) = text.split_once(']').unwrap();
    let (ty, shape) = ty.split_once('[').unwrap();
    let shape: Vec<usize> = shape
        .split(',')
        .filter(|n| !n.is_empty())
        .map(|n| n.parse().unwrap())
        .collect();
    let words = || numbers.split_whitespace();
    let data: Data = match ty {
        "text" => words().map(str::to_string).collect::<Vec<String>>().into(),
        "int64" => words().map(|x| x.parse().unwrap()).collect::<Vec<i64>>().into(),
        "uint64" => words().map(|x| x.parse().unwrap()).collect::<Vec<u64>>().into(),
        ty => {
            let element = Element::of(number(ty)).unwrap();
            Data::from(words().map(|x| x.parse().unwrap()).collect::<Vec<f64>>()).cast(element)
        }
    };
    Some(HostTensor::new(&shape, data).unwrap())
}

/// The number of a type in the schema.
fn number(ty: &str) -> i32 {
    let narrow = [
        "float8e4m3fn",
        "float8e4m3fnuz",
        "float8e5m2",
        "float8e5m2fnuz",
        "uint4",
        "int4",
        "float4e2m1",
    ];
    match narrow.iter().position(|own| *own == ty) {
        Some(at) => 17 + at as i32,
        None => match ty {
            "float" => 1,
            "uint8" => 2,
            "int8" => 3,
            "uint16" => 4,
            "int16" => 5,
            "int32" => 6,
            "int64" => 7,
            "string" => 8,
            "bool" => 9,
            "float16" => 10,
            "double" => 11,
            "uint32" => 12,
            "uint64" => 13,
            "bfloat16" => 16,
            _ => panic!("{ty} is no type"),
        },
    }
}

/// An attribute such as `alpha=0.5`, `axis=1`, `direction=LEFT` or `to=:int8`.
fn attribute(word: &str) -> AttributeProto {
    let (name, value) = word.split_once('=').unwrap();
    let mut attribute = AttributeProto {
        name: name.to_string(),
        ..AttributeProto::default()
    };
    if let Some(ty) = value.strip_prefix(':') {
        attribute.i = number(ty).into();
        attribute.r#type = AttributeType::Int.into();
    } else if let Ok(i) = value.parse() {
        attribute.i = i;
        attribute.r#type = AttributeType::Int.into();
    } else if let Ok(f) = value.parse() {
        attribute.f = f;
        attribute.r#type = AttributeType::Float.into();
    } else {
        attribute.s = value.as_bytes().to_vec();
        attribute.r#type = AttributeType::String.into();
    }
    attribute
}

/// The outputs of a line such as `Add 14; int8[1] 1; int8[] 2`.
fn run(line: &str) -> Result<Vec<HostTensor>> {
    let mut parts = line.split(';');
    let mut words = parts.next().unwrap().split_whitespace();
    let op_type = words.next().unwrap().to_string();
    let opset = words.next().unwrap().parse().unwrap();
    let node = NodeProto {
        op_type,
        attribute: words.map(attribute).collect(),
        output: (0..3).map(|i| format!("y{i}")).collect(),
        ..NodeProto::default()
    };
    let inputs = parts.map(|part| array(part).map(HostValue::from)).collect();
    let outputs = run_node(&node, opset, inputs)?;
    Ok(outputs.iter().map(|y| (**y.tensor().unwrap()).clone()).collect())
}

/// Checks lines such as `Add 14; int8[1] 127; int8[] 1 => int8[1] -128`, with one output or several.
fn check(lines: &str) {
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (call, right) = line.split_once("=>").unwrap();
        let found = run(call).unwrap_or_else(|error| panic!("{line}: {}", error.message()));
        for (found, right) in found.iter().zip(right.split(';')) {
            let right = array(right).unwrap();
            assert_eq!(
                (found.shape(), found.element()),
                (right.shape(), right.element()),
                "{line}"
            );
            assert_eq!(format!("{:?}", found.data()), format!("{:?}", right.data()), "{line}");
        }
    }
}

/// Checks that lines are refused with these words: `Add 14; int8[] 1; int16[] 1 => types`.
fn refused(lines: &str) {
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (call, words) = line.split_once("=>").unwrap();
        let why = run(call).unwrap_err();
        assert!(why.message().contains(words.trim()), "{line}: {}", why.message());
    }
}

#[test]
fn integers_wrap_and_are_cut_towards_zero() {
    check(
        "Add 14; uint8[2] 200 1; uint8[] 100 => uint8[2] 44 101
         Sub 14; uint8[1] 1; uint8[1] 2 => uint8[1] 255
         Mul 14; int8[1] 100; int8[1] 3 => int8[1] 44
         Add 14; int64[1] 9007199254740993; int64[1] 1 => int64[1] 9007199254740994
         Div 14; int32[3] -7 7 -2147483648; int32[3] 2 -2 -1 => int32[3] -3 -3 -2147483648
         Neg 13; int8[2] -128 5 => int8[2] -128 -5
         Abs 13; int8[2] -128 -5 => int8[2] -128 5
         Sign 13; int16[3] -9 0 4 => int16[3] -1 0 1
         Mod 13; int32[4] 7 -7 7 -7; int32[4] 3 3 -3 -3 => int32[4] 1 2 -2 -1
         Mod 13 fmod=1; int32[4] 7 -7 7 -7; int32[4] 3 3 -3 -3 => int32[4] 1 -1 1 -1
         Mod 13 fmod=1; float[3] -7.5 7.5 -0; float[3] 2 -2 5 => float[3] -1.5 1.5 -0
         Pow 15; int64[4] 3 2 -2 -1; int32[4] 39 63 3 -3 => int64[4] 4052555153018976267 -9223372036854775808 -8 -1
         Pow 15; int32[2] 2 2; float[2] 0.5 -1 => int32[2] 1 0
         Pow 15; float[3] -2 -2 4; int64[3] 3 -1 0 => float[3] -8 -0.5 1
         BitShift 11 direction=LEFT; uint8[3] 3 3 3; uint8[3] 1 7 8 => uint8[3] 6 128 0
         BitShift 11 direction=RIGHT; uint16[2] 256 256; uint16[2] 4 16 => uint16[2] 16 0
         BitwiseNot 18; uint8[1] 5 => uint8[1] 250
         BitwiseXor 18; int8[1] -1; int8[1] 1 => int8[1] -2
         BitCast 26 to=:int32; float[2] 1 -0 => int32[2] 1065353216 -2147483648",
    );
    refused(
        "Div 14; int32[2] 1 2; int32[2] 1 0 => divides an integer by zero
         Mod 13; int32[1] 1; int32[1] 0 => divides an integer by zero
         Mod 13; float[1] 1; float[1] 2 => fmod
         Pow 15; int32[1] 0; int32[1] -1 => negative exponent
         Add 14; int32[1] 0; int64[1] 1 => types int32, int64
         Neg 13; uint8[1] 1 => no elements of the type uint8
         BitShift 11 direction=UP; uint8[1] 1; uint8[1] 1 => direction UP
         BitCast 26 to=:int16; float[1] 1 => int16",
    );
}

#[test]
fn floats_of_16_bits_round_once_and_overflow() {
    check(
        "Mul 14; float16[2] 300 2; float16[2] 300 0.1 => float16[2] inf 0.199951171875
         Sum 13; float16[1] 2048; float16[1] 1; float16[1] 1 => float16[1] 2050
         Mean 13; float16[1] 60000; float16[1] 60000 => float16[1] 60000
         Exp 13; bfloat16[2] 0 100 => bfloat16[2] 1 inf
         Round 11; float[6] 0.5 1.5 2.5 -0.5 -1.5 inf => float[6] 0 2 2 -0 -2 inf
         Ceil 13; double[2] -0.5 1.2 => double[2] -0 2
         IsInf 20 detect_negative=0; float[3] inf -inf nan => bool[3] 1 0 0
         IsNaN 20; float16[2] nan 1 => bool[2] 1 0",
    );
}

#[test]
fn arrays_broadcast() {
    check(
        "Add 14; int32[2,1] 10 20; int32[3] 1 2 3 => int32[2,3] 11 12 13 21 22 23
         Add 14; int32[2,1,2] 1 2 3 4; int32[2,1] 10 20 => int32[2,2,2] 11 12 21 22 13 14 23 24
         Add 14; int32[0,3] ; int32[3] 1 2 3 => int32[0,3]
         Add 14; int32[] 1; int32[1,1] 2 => int32[1,1] 3
         Add 6 broadcast=1 axis=0; int32[2,2] 1 2 3 4; int32[2] 10 20 => int32[2,2] 11 12 23 24
         Equal 19; text[2] a b; text[1] b => bool[2] 0 1
         Less 13; float[2] nan 1; float[] 2 => bool[2] 0 1
         Xor 7; bool[2] 1 0; bool[1] 1 => bool[2] 0 1
         Where 16; bool[2,1] 1 0; text[1] a; text[2] b c => text[2,2] a a b c
         Max 13; float[3] 1 nan 3; float[1] 2; float[3] 0 0 9 => float[3] 2 nan 9
         Min 13; uint8[2] 3 200; uint8[2] 100 100 => uint8[2] 3 100",
    );
    refused(
        "Add 14; int32[2] 1 2; int32[3] 1 2 3 => do not go together
         Add 6; int32[2,2] 1 2 3 4; int32[2] 1 2 => does not broadcast
         And 7; int32[1] 1; int32[1] 1 => no elements of the type int32",
    );
    let wide = |shape: [usize; 2]| HostTensor::new(&shape, vec![0u8; 1 << 17]).unwrap();
    let sides = [wide([1, 1 << 17]), wide([1 << 17, 1])];
    let add = NodeProto {
        op_type: "Add".to_string(),
        ..NodeProto::default()
    };
    let why = run_node(&add, 14, sides.map(|side| Some(side.into())).to_vec()).unwrap_err();
    assert!(why.message().contains("more than can be meant"), "{}", why.message());
}

#[test]
fn bounds_and_activations() {
    check(
        "Clip 13; float[4] nan -5 5 0.5; float[] 0; float[] 1 => float[4] nan 0 1 0.5
         Clip 13; int8[3] -5 0 5; int8[] 3; int8[] 1 => int8[3] 1 1 1
         Clip 13; int64[2] -5 9007199254740993; -; int64[] 9007199254740992 => int64[2] -5 9007199254740992
         Clip 13; float[2] -inf inf; -; float[] 2 => float[2] -3.4028234663852886e38 2
         Clip 6 max=0.5; double[2] -2 2 => double[2] -2 0.5
         Relu 14; float[3] nan -1 2 => float[3] nan 0 2
         Relu 14; int8[2] -3 3 => int8[2] 0 3
         LeakyRelu 16; float[2] -1 1 => float[2] -0.01 1
         PRelu 16; int32[2,2] -1 -2 3 -4; int32[2] 2 3 => int32[2,2] -2 -6 3 -12
         PRelu 6; float[1,2,1] -1 -2; float[2] 2 3 => float[1,2,1] -2 -6
         HardSigmoid 6; float[3] -9 0 9 => float[3] 0 0.5 1
         Softplus 22; double[2] 1000 -1000 => double[2] 1000 0
         Sigmoid 13; double[2] 1000 -1000 => double[2] 1 0
         ThresholdedRelu 10; float[3] nan 1 2 => float[3] 0 0 2
         Shrink 9 lambd=1.5 bias=1.5; int32[3] -2 1 2 => int32[3] 0 0 0
         Shrink 9 lambd=1.5 bias=1.0; int64[2] -9007199254740993 2 => int64[2] -9007199254740992 1
         Dropout 13; float[2] 1 2; float[] 0.5; bool[] 0 => float[2] 1 2; bool[2] 1 1
         Dropout 13; float[2] 1 2; float[] 0; bool[] 1 => float[2] 1 2; bool[2] 1 1
         Dropout 7; float[2] 1 2 => float[2] 1 2; float[2] 1 1",
    );
    refused(
        "Dropout 13; float[2] 1 2; float[] 0.5; bool[] 1 => at random
         Dropout 6; float[2] 1 2 => at random
         PRelu 16; float[1] 1; float[2] 1 2 => do not fit
         Clip 13; float[1] 1; float[2] 1 2 => its bound min is 2 numbers
         Gelu 20 approximate=fast; float[1] 1 => fast
         RandomUniformLike 1; float[1] 1 => random",
    );
}

#[test]
fn casts_round_wrap_and_cut() {
    check(
        "Cast 19 to=:uint8; float[6] 1.9 -1.9 300 -300 3e9 nan => uint8[6] 1 255 44 212 0 0
         Cast 19 to=:int32; float[3] -1.9 3e9 nan => int32[3] -1 -2147483648 -2147483648
         Cast 19 to=:uint32; double[3] -1 3e9 1e10 => uint32[3] 4294967295 3000000000 1410065408
         Cast 19 to=:uint64; double[3] -1 1.5e19 inf => uint64[3] 18446744073709551615 15000000000000000000 0
         Cast 19 to=:int32; int64[2] 1099511627783 -1 => int32[2] 7 -1
         Cast 19 to=:bool; float[4] 0 -0 0.1 nan => bool[4] 0 0 1 1
         Cast 19 to=:float16; double[4] 65519.99 65520 1.0004882812500002 1.00048828125 => float16[4] 65504 inf 1.0009765625 1
         Cast 19 to=:bfloat16; float[2] 1.00390625 1.01171875 => bfloat16[2] 1 1.015625
         Cast 19 to=:float; int64[1] 16777217 => float[1] 16777216
         Cast 19 to=:float; text[5] 3.5 -inf NaN +INF 1e3 => float[5] 3.5 -inf nan inf 1000
         Cast 19 to=:uint64; text[2] 18446744073709551615 7.9 => uint64[2] 18446744073709551615 7
         Cast 19 to=:string; float[6] 0.1 1 inf nan 3.1415927 -2.5 => text[6] 0.1 1 INF NaN 3.1415927 -2.5
         Cast 19 to=:string; float16[2] 0.1 65504 => text[2] 0.1 65500
         Cast 19 to=:string; bool[2] 1 0 => text[2] 1 0
         CastLike 19; float[1] 2.7; int16[0]  => int16[1] 2",
    );
    refused(
        "Cast 19 to=:float; text[1] one => `one` is no number
         Cast 19 to=:int32; text[1] NaN => `NaN` is no number
         Cast 19 to=99; float[1] 1 => the type 99",
    );
}

#[test]
fn narrow_numbers() {
    let floats = "float[7] 0.479 1e6 nan -inf -1e-7 1.0625 448.1";
    let rows = [
        ("float8e4m3fn", 1, "float[7] 0.46875 448 nan -448 -0 1 448"),
        ("float8e4m3fn", 0, "float[7] 0.46875 nan nan nan -0 1 448"),
        ("float8e4m3fnuz", 1, "float[7] 0.46875 240 nan -240 0 1 240"),
        ("float8e5m2", 1, "float[7] 0.5 57344 nan -57344 -0 1 448"),
        ("float8e5m2", 0, "float[7] 0.5 inf nan -inf -0 1 448"),
        ("float8e5m2fnuz", 1, "float[7] 0.5 57344 nan -57344 0 1 448"),
        ("float4e2m1", 1, "float[7] 0.5 6 -0 -6 -0 1 6"),
    ];
    for (ty, saturate, right) in rows {
        let narrow = run(&format!("Cast 23 to=:{ty} saturate={saturate}; {floats}")).unwrap();
        let back = narrow[0].data().cast(Element::F32);
        assert_eq!(
            format!("{back:?}"),
            format!("{:?}", array(right).unwrap().data()),
            "{ty}"
        );
    }
    check(
        "Cast 23 to=:int4; float[4] -9 -8 7 8 => int4[4] 7 -8 7 -8
         Cast 23 to=:int8; int4[2] -8 7 => int8[2] -8 7
         Cast 23 to=:uint4; int32[2] 18 -1 => uint4[2] 2 15
         QuantizeLinear 21; float[4] 2.5 3.5 100 -100; float[] 1; int4[] 1 => int4[4] 3 5 7 -8
         DequantizeLinear 21; uint4[3] 0 1 15; float[] 2; uint4[] 1 => float[3] -2 0 28",
    );
    // Numbers of less than a byte share bytes, the first in the lowest bits, and the last byte is padded.
    let int4 = Element::of(22).unwrap();
    let three = HostTensor::of_bytes(&[3], int4, &[0xF1, 0x08]).unwrap();
    assert_eq!(three.data().to_f64(), [1.0, -1.0, -8.0]);
    assert_eq!(three.data().to_bytes(), [0xF1, 0x08]);
    assert!(HostTensor::of_bytes(&[5], int4, &[0xF1, 0x08]).is_err());
    let all: Vec<u8> = (0..=255).collect();
    for data_type in 17..=26 {
        let element = Element::of(data_type).unwrap();
        let data = Data::of_bytes(element, &all);
        assert_eq!(data.element(), Some(element));
        let again = data.cast(Element::F64).cast(element);
        let numbers = |data: &Data| format!("{:?}", data.to_f64());
        // Infinity is kept where it is not cut off, which only E5M2 has.
        let is_same = numbers(&again) == numbers(&data);
        assert!(is_same || data_type == 19, "{element}");
    }
}

#[test]
fn quantization() {
    check(
        "QuantizeLinear 13; float[5] 0.5 1.5 -3 300 nan; float[] 1; uint8[] 1 => uint8[5] 1 3 0 255 0
         QuantizeLinear 13; float[2] -3 2.5; float[] 1 => uint8[2] 0 2
         QuantizeLinear 13 axis=0; float[2,2] 1 2 3 4; float[2] 1 2; int8[2] 0 -5 => int8[2,2] 1 2 -3 -3
         QuantizeLinear 21 output_dtype=:int16; float[2] 40000 -1.5; float[] 1 => int16[2] 32767 -2
         QuantizeLinear 21 block_size=2; float[1,3] 1 2 3; float[1,2] 1 0.5; uint8[1,2] 0 10 => uint8[1,3] 1 2 16
         DequantizeLinear 13 axis=-1; int8[2,2] 1 2 3 4; float[2] 0.5 2; int8[2] 1 0 => float[2,2] 0 4 1 8
         DequantizeLinear 21 block_size=2; uint8[1,3] 1 2 16; float[1,2] 1 0.5; uint8[1,2] 0 10 => float[1,3] 1 2 3
         DequantizeLinear 13; int32[2] -5 7; float[] 0.5 => float[2] -2.5 3.5
         DequantizeLinear 19; uint8[1] 255; float16[] 300; uint8[] 0 => float16[1] inf
         DynamicQuantizeLinear 11; float[3] -1 0 1.5 => uint8[3] 0 102 255; float[] 0.009803922; uint8[] 102
         DynamicQuantizeLinear 11; float[2] 0 0 => uint8[2] 0 0; float[] 1; uint8[] 0",
    );
    refused(
        "QuantizeLinear 13; float[2,2] 1 2 3 4; float[3] 1 1 1; uint8[3] 0 0 0 => do not fit
         QuantizeLinear 13; float[2] 1 2; float[] 1; uint8[2] 0 0 => 1 scales, but 2 zero points
         QuantizeLinear 21 output_dtype=:float; float[1] 1; float[] 1 => float32
         QuantizeLinear 21 output_dtype=:int8; float[1] 1; float[] 1; uint8[] 1 => output_dtype is int8
         DequantizeLinear 13; float[1] 1; float[] 1 => no elements of the type float
         DequantizeLinear 13; int8[1] 1; float[] 1; uint8[] 1 => another type",
    );
}
