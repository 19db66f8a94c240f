//! Tests of the folder of a run.

use super::manifest::{DataDigests, Manifest};
use super::*;
use crate::recipe::value::SettingValue;
use lessen_base::atomic::write_folder;

fn fill(text: &'static str) -> impl FnOnce(&Path) -> Result<()> {
    move |aside| write_file(&aside.join("model.safetensors"), text.as_bytes())
}

fn create(root: &Path) -> Result<Folder> {
    let (folder, guard) = Folder::create(root)?;
    guard.keep();
    Ok(folder)
}

fn run() -> (tempfile::TempDir, Folder) {
    let dir = tempfile::tempdir().unwrap();
    let folder = create(&dir.path().join("run")).unwrap();
    folder.write("config.toml", "").unwrap();
    (dir, folder)
}

fn save(folder: &Folder, step: u64) {
    let manifest = Manifest::new(step, 100, DataDigests::default());
    folder
        .checkpoints()
        .save(manifest, 2, |aside| fill("good")(aside).map(|()| Vec::new()))
        .unwrap();
}

#[test]
fn only_a_folder_without_a_run_becomes_a_new_one() {
    let (dir, folder) = run();
    let error = create(folder.root()).unwrap_err().to_string();
    assert!(
        error.contains("is not empty; go on with its run by --resume"),
        "{error}"
    );
    let empty = dir.path().join("empty");
    fs::create_dir(&empty).unwrap();
    create(&empty).unwrap();
    // As if it had been killed before it wrote its settings.
    fs::write(empty.join(".tmp-config.toml"), "[mo").unwrap();
    create(&empty).unwrap();
    fs::write(empty.join("checkpoints/note.txt"), "").unwrap();
    assert!(create(&empty).unwrap_err().to_string().contains("is not empty"));
    fs::write(dir.path().join("file"), "").unwrap();
    let refused = |path: &str| create(&dir.path().join(path)).unwrap_err().to_string();
    assert!(refused("file").contains("is a file"));
    let locked = dir.path().join("locked");
    fs::create_dir(&locked).unwrap();
    let mut permissions = fs::metadata(&locked).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(&locked, permissions).unwrap();
    assert!(refused("locked/a/run").contains("locked is read-only"));
    assert!(refused("file/run").contains("cannot be written"));
    let none = Folder::reopen(&dir.path().join("none")).unwrap_err().to_string();
    assert!(none.contains("does not exist"), "{none}");
    let no_run = Folder::reopen(dir.path()).unwrap_err().to_string();
    assert!(no_run.contains("holds no run"), "{no_run}");
}

#[test]
fn a_new_folder_whose_run_never_begins_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("runs/a");
    let (folder, guard) = Folder::create(&root).unwrap();
    folder.write("config.toml", "").unwrap();
    fs::create_dir(dir.path().join("runs/b")).unwrap();
    drop(guard);
    assert!(!root.exists() && dir.path().join("runs/b").exists());
    fs::remove_dir(dir.path().join("runs/b")).unwrap();
    drop(Folder::create(&root).unwrap().1);
    assert!(dir.path().join("runs").exists(), "it existed before");
    let empty = dir.path().join("empty");
    fs::create_dir(&empty).unwrap();
    drop(Folder::create(&empty).unwrap().1);
    assert_eq!(fs::read_dir(&empty).unwrap().count(), 0);
    drop(Folder::create(&dir.path().join("new/a")).unwrap().1);
    assert!(!dir.path().join("new").exists());
    create(&root).unwrap();
    assert!(root.join("checkpoints").is_dir());
}

#[test]
fn the_last_model_is_used_and_else_that_of_a_checkpoint() {
    let (_dir, folder) = run();
    let no_model = folder.usable_model(WhichModel::Last).unwrap_err().to_string();
    assert!(no_model.contains("has no saved model yet"), "{no_model}");
    save(&folder, 5);
    assert!(
        folder
            .usable_model(WhichModel::Last)
            .unwrap()
            .0
            .ends_with("checkpoints/step-5")
    );
    let no_best = folder.usable_model(WhichModel::Best).unwrap_err().to_string();
    assert!(no_best.contains("has no best model"), "{no_best}");
    save(&folder, 9);
    assert!(
        folder
            .usable_model(WhichModel::Last)
            .unwrap()
            .0
            .ends_with("checkpoints/step-9")
    );
    assert!(
        folder
            .usable_model(WhichModel::Step(5))
            .unwrap()
            .0
            .ends_with("checkpoints/step-5")
    );
    let other = folder.usable_model(WhichModel::Step(6)).unwrap_err().to_string();
    assert!(
        other.ends_with("has no checkpoint after 6 steps; there are those after 5, 9"),
        "{other}"
    );
    write_folder(&folder.model(), fill("last")).unwrap();
    assert_eq!(folder.usable_model(WhichModel::Last).unwrap(), (folder.model(), None));
}

#[test]
fn a_run_that_goes_on_leaves_nothing_of_what_came_later() {
    let (_dir, folder) = run();
    [5, 10].iter().for_each(|&step| save(&folder, step));
    write_folder(&folder.model(), fill("last")).unwrap();
    write_folder(&folder.best(), fill("best")).unwrap();
    for name in ["report.json", "report.md", CONFUSION, LABELS] {
        folder.write(name, "").unwrap();
    }
    folder.remove_after(5).unwrap();
    let newest = folder.checkpoints().newest().unwrap().whole.unwrap();
    assert_eq!(newest.1.step, 5);
    let entries = fs::read_dir(folder.root()).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, [".lock", "best", "checkpoints", "config.toml"]);
    folder.remove_after(5).unwrap();
}

#[test]
fn recipe_and_budget_are_keys_of_the_configuration() {
    let (_dir, folder) = run();
    for budget in ["", "run.budget = \"123456789012B\"\n"] {
        let text = format!("run.recipe = \"my own\"\n{budget}train.steps = 7\n");
        let settings = Settings::parse(&text, "my.toml").unwrap();
        folder.write_settings(&settings).unwrap();
        let found = folder.settings().unwrap();
        assert_eq!(found.text("run.recipe"), Some("my own"));
        assert_eq!(found.difference(&settings, &[]), None);
    }
    folder
        .write("config.toml", "[run]\nrecipe = \"a\"\nbudget = \"much\"\n")
        .unwrap();
    let sentence = folder.settings().unwrap_err().to_string();
    assert!(
        sentence.ends_with(
            "config.toml line 3: run.budget must be a size such as 512M, a share such as 80%, or auto, not \"much\""
        ),
        "{sentence}"
    );
}

#[test]
fn the_folder_of_an_older_version_is_told_in_one_sentence() {
    let (_dir, folder) = run();
    folder
        .write(
            "config.toml",
            "# recipe: adder\n# budget: 67108864\n[train]\nsteps = 8\n",
        )
        .unwrap();
    let sentence = folder.settings().unwrap_err().to_string();
    assert!(
        sentence.contains("config.toml has no run.recipe, so another version of Lessen wrote it; train again"),
        "{sentence}"
    );
}

#[test]
fn a_run_of_an_older_version_has_no_keys_of_other_optimizers() {
    let (_dir, folder) = run();
    let text = "[run]\nrecipe = \"a\"\n[optimizer]\nkind = \"sgd\"\nbeta1 = 0.9\nmomentum = 0.8\n";
    folder.write("config.toml", text).unwrap();
    let settings = folder.settings().unwrap();
    assert_eq!(settings.get("optimizer.beta1"), None);
    assert_eq!(settings.get("optimizer.momentum"), Some(&SettingValue::Number(0.8)));
}
