use super::*;
use crate::images::decode::tests::sloping;

fn to(resize: Resize, size: [usize; 2]) -> Preprocessing {
    Preprocessing {
        resize,
        filter: Filter::Bilinear,
        size,
        mean: vec![0.5],
        std: vec![0.25],
    }
}

#[test]
fn the_shorter_side_is_resized_and_the_middle_cut_out() {
    let wide = sloping([4, 12, 1]);
    let fitted = to(Resize::Shorter(2), [2, 2]).fitted(wide.clone());
    assert_eq!(fitted, wide.resized(2, 6, Filter::Bilinear).part(0, 2, 2, 2));
    let high = sloping([12, 4, 1]);
    let fitted = to(Resize::Shorter(4), [2, 2]).fitted(high.clone());
    assert_eq!(fitted, high.part(5, 1, 2, 2));
    let stretched = to(Resize::Stretch(2, 3), [2, 3]).fitted(high.clone());
    assert_eq!(stretched, high.resized(2, 3, Filter::Bilinear));
    assert_eq!(to(Resize::None, [12, 4]).fitted(high.clone()), high);
    // Of a line, the middle 16 pixels, 100 times as large.
    let line = sloping([1, 60_000, 1]);
    let fitted = to(Resize::Shorter(100), [100, 100]).fitted(line.clone());
    let middle = line.part(0, 29_992, 1, 16);
    assert_eq!(
        fitted,
        middle.resized(100, 1600, Filter::Bilinear).part(0, 750, 100, 100)
    );
}

#[test]
fn bytes_become_distances_from_the_mean() {
    let numbers = to(Resize::None, [1, 3]).numbers(Image::new([1, 3, 1], vec![0, 255, 51]));
    assert_eq!(numbers[..2], [-2.0, 2.0]);
    assert!((numbers[2] - (0.2 - 0.5) / 0.25).abs() < 1e-6);
    // A colour image for a grey model, and the other way round.
    let grey = to(Resize::None, [1, 1]).numbers(Image::new([1, 1, 3], vec![255, 255, 255]));
    assert_eq!(grey, [2.0]);
}

#[test]
fn mean_and_deviation_are_those_of_all_pixels() {
    let set = ImageSet::in_memory([1, 2, 3], vec![0, 10, 7, 255, 20, 7, 0, 10, 7, 255, 20, 7], vec![0, 1]);
    let found = to(Resize::None, [1, 2]).normalized_by(&set).unwrap();
    assert_eq!((found.mean[0], found.std[0]), (0.5, 0.5));
    assert!((found.mean[1] - 15.0 / 255.0).abs() < 1e-7 && (found.std[1] - 5.0 / 255.0).abs() < 1e-7);
    // A channel of one value only.
    assert_eq!((found.mean[2], found.std[2]), (7.0 / 255.0, 1.0));
    assert_eq!(found.mean_bytes(), [128, 15, 7]);
}

#[test]
fn what_is_saved_is_read_back_and_transformers_files_are_understood() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(Preprocessing::load(dir.path()).unwrap(), None);
    for (resize, filter) in [
        (Resize::Shorter(256), Filter::Bilinear),
        (Resize::Stretch(20, 30), Filter::Bicubic),
        (Resize::None, Filter::Bilinear),
    ] {
        let given = Preprocessing {
            filter,
            mean: vec![0.485, 0.456, 0.406],
            std: vec![0.229, 0.224, 0.225],
            ..to(resize, [224, 200])
        };
        given.save(dir.path()).unwrap();
        assert_eq!(Preprocessing::load(dir.path()).unwrap(), Some(given));
    }
    let read = |text: &str| {
        fs::write(dir.path().join(FILE), text).unwrap();
        Preprocessing::load(dir.path())
    };
    let vit = r#"{"do_normalize":true,"do_resize":true,"image_mean":[0.5,0.5,0.5],"image_std":[0.5,0.5,0.5],
        "resample":2,"size":224}"#;
    let found = read(vit).unwrap().unwrap();
    assert_eq!((found.resize, found.size), (Resize::Stretch(224, 224), [224, 224]));
    let deit = r#"{"crop_size":224,"do_center_crop":true,"image_mean":[0.4,0.4,0.4],"image_std":[0.2,0.2,0.2],
        "resample":3,"size":256}"#;
    let found = read(deit).unwrap().unwrap();
    assert_eq!(
        (found.resize, found.size, found.filter),
        (Resize::Stretch(256, 256), [224, 224], Filter::Bicubic)
    );
    for (text, fault) in [
        ("{", "EOF"),
        (r#"{"size":0,"image_mean":[0],"image_std":[1]}"#, "no size"),
        (r#"{"size":8,"image_mean":[0],"image_std":[0]}"#, "above 0"),
        (
            r#"{"size":8,"image_mean":[0,0],"image_std":[1,1]}"#,
            "one channel, or for three",
        ),
        (r#"{"size":8}"#, "no numbers"),
        (r#"{"size":8,"resample":1}"#, "neither 2"),
        (r#"{"size":8,"do_rescale":false}"#, "1 / 255"),
        (
            r#"{"do_resize":false,"image_mean":[0],"image_std":[1]}"#,
            "neither a size",
        ),
    ] {
        let sentence = read(text).unwrap_err().to_string();
        assert!(sentence.contains(FILE) && sentence.contains(fault), "{sentence}");
    }
}
