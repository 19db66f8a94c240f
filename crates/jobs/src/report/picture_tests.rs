//! Tests of the pictures on the page of a run.

use super::Page;
use lessen_data::images::Image;
use lessen_task::folder::pictures::{PICTURES, Picture, Pictures};
use lessen_task::recipe;
use std::fs;

fn pictures() -> Pictures {
    let image = Image::new([1, 2, 3], vec![0, 1, 2, 3, 4, 5]);
    Pictures {
        step: 7,
        pictures: vec![
            Picture::new(&image, Some("cat"), "cat", 0.875),
            Picture::new(&image, Some("cat"), "dog", 0.5),
        ],
    }
}

#[test]
fn the_page_shows_the_file_of_a_run_unless_it_is_damaged() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("config.toml"), recipe::load("adder").unwrap().to_toml()).unwrap();
    fs::write(dir.path().join("metrics.jsonl"), "{\"step\": 1, \"loss\": 2.5}\n").unwrap();
    let page = || Page::of(&[dir.path().to_path_buf()]).unwrap();
    assert!(!page().html().contains("id=\"pictures\""));
    let text = serde_json::to_string(&pictures()).unwrap();
    fs::write(dir.path().join(PICTURES), &text).unwrap();
    assert!(page().html().contains("id=\"pictures\"") && page().html().contains("dog 50 %, but cat"));
    fs::write(dir.path().join(PICTURES), text.replace("iVBOR", "\\\"><script>")).unwrap();
    let page = page();
    assert!(!page.html().contains("id=\"pictures\""));
    let told = page
        .problems()
        .iter()
        .any(|problem| problem.contains("something that is no picture"));
    assert!(told, "{:?}", page.problems());
}
